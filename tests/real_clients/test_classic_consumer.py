"""Coterie's classic consumer in one group with other clients."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

import pytest
from kafka.coordinator.assignors.range import RangePartitionAssignor

from coterie.client import ClassicConsumer
from tests.real_clients.aiokafka_members import wait_until
from tests.real_clients.confluent_members import ConfluentGroup
from tests.real_clients.kafka_python_members import KafkaPythonMember

EVERY = frozenset(range(4))


def numbers(consumer: ClassicConsumer) -> frozenset[int]:
    return frozenset(each.partition for each in consumer.assignment)


def consumer_of(bootstrap: str, group: str, topic: str) -> ClassicConsumer:
    return ClassicConsumer(
        bootstrap, group_id=group, topics=[topic], heartbeat_interval_ms=300
    )


def share(*owned: Callable[[], frozenset[int]]) -> Callable[[], bool]:
    """Return a condition: every partition has one owner, and each owner has some."""

    def is_shared() -> bool:
        now = [each() for each in owned]
        return all(now) and sorted(n for one in now for n in one) == sorted(EVERY)

    return is_shared


@pytest.mark.parametrize("leads", [True, False])
def test_it_shares_a_topic_with_two_client_libraries(
    bootstrap: str, group: str, topic: str, *, leads: bool
) -> None:
    async def scenario(consumers: ConfluentGroup) -> None:
        consumer = consumer_of(bootstrap, group, topic)
        if leads:  # the first member of a group is its leader
            await consumer.start()
        with KafkaPythonMember(
            bootstrap,
            group,
            topic,
            partition_assignment_strategy=(RangePartitionAssignor,),
        ) as worker:
            if not leads:
                await wait_until(lambda: worker.owned == EVERY, expected="one owner")
                await consumer.start()
            native = consumers.join()
            shared = share(
                lambda: numbers(consumer), lambda: worker.owned, lambda: native.owned
            )
            await asyncio.to_thread(consumers.poll_until, shared)
            assert consumer.is_leader == leads
            await consumer.leave()
            two = share(lambda: worker.owned, lambda: native.owned)
            await asyncio.to_thread(consumers.poll_until, two)

    with contextlib.closing(ConfluentGroup(bootstrap, group, topic)) as consumers:
        asyncio.run(asyncio.wait_for(scenario(consumers), 120))
