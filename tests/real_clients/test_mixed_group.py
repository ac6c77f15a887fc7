"""Members of three client libraries in one group."""

from __future__ import annotations

import asyncio
import contextlib

from kafka.coordinator.assignors.range import RangePartitionAssignor

from tests.real_clients.aiokafka_members import AiokafkaMember, reading, wait_until
from tests.real_clients.confluent_admin import committed_offsets, produce
from tests.real_clients.confluent_members import ConfluentGroup
from tests.real_clients.kafka_python_members import KafkaPythonMember

PARTITIONS = 4


def test_members_of_three_client_libraries_share_a_topic(
    bootstrap: str, group: str, topic: str
) -> None:
    values = {p: [b"%d" % i for i in range(25)] for p in range(PARTITIONS)}
    ours = AiokafkaMember(bootstrap, group, topic)

    async def scenario(worker: KafkaPythonMember, consumers: ConfluentGroup) -> None:
        native = consumers.join()

        def settled() -> bool:
            owned = [worker.owned, ours.owned, native.owned]
            return all(owned) and sorted(p for one in owned for p in one) == [
                0,
                1,
                2,
                3,
            ]

        def everything_read() -> bool:
            return (
                len(worker.records) + len(ours.records) + len(consumers.records) >= 100
            )

        async with reading(ours):
            polling = asyncio.create_task(
                asyncio.to_thread(consumers.poll_until, everything_read)
            )
            await wait_until(settled, expected="three owners")
            await asyncio.to_thread(produce, bootstrap, topic, values)
            await polling

    with (
        KafkaPythonMember(
            bootstrap,
            group,
            topic,
            partition_assignment_strategy=(RangePartitionAssignor,),
        ) as worker,
        contextlib.closing(ConfluentGroup(bootstrap, group, topic)) as consumers,
    ):
        asyncio.run(asyncio.wait_for(scenario(worker, consumers), 60))
    read = {(p, i) for p, i, _ in worker.records + ours.records + consumers.records}
    assert read == {(p, i) for p in range(PARTITIONS) for i in range(25)}
    assert all((worker.records, ours.records, consumers.records))
    assert set(committed_offsets(bootstrap, group).values()) == {25}
