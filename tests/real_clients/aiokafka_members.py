"""aiokafka consumers of one group, each in a separate task."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition
from aiokafka.coordinator.assignors.range import RangePartitionAssignor

from tests.support.waiting import DEADLINE_S, PAUSE_S


class AiokafkaMember(ConsumerRebalanceListener):
    """A consumer that reads into `seen` and commits before it loses partitions."""

    def __init__(
        self, bootstrap: str, group: str, topic: str, **config: object
    ) -> None:
        self.records: list[tuple[int, int, bytes]] = []
        self.rebalances = 0
        self._topic = topic
        self._consumer: AIOKafkaConsumer | None = (
            None  # created by `read`, inside the event loop
        )
        self._config = {
            "bootstrap_servers": bootstrap,
            "group_id": group,
            "session_timeout_ms": 45_000,
            "heartbeat_interval_ms": 300,
            "auto_offset_reset": "earliest",
            "enable_auto_commit": False,
            "fetch_max_wait_ms": 50,
            "partition_assignment_strategy": (RangePartitionAssignor,),
            **config,
        }

    @property
    def owned(self) -> frozenset[int]:
        """The partitions that are assigned to the member."""
        if self._consumer is None:
            return frozenset()
        return frozenset(one.partition for one in self._consumer.assignment())

    async def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        """Commit the positions, so that the next owner continues at them."""
        if revoked and self._consumer is not None:
            await self._consumer.commit()

    async def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        """Count a rebalance."""
        self.rebalances += 1

    async def read(self) -> None:
        """Join the group and read until cancelled."""
        consumer = self._consumer = AIOKafkaConsumer(**self._config)
        await consumer.start()
        consumer.subscribe([self._topic], listener=self)
        try:
            async for record in consumer:
                self.records.append((record.partition, record.offset, record.value))
        finally:
            if self.owned:
                await consumer.commit()
            await consumer.stop()


@asynccontextmanager
async def reading(member: AiokafkaMember) -> AsyncIterator[AiokafkaMember]:
    """Run the member in a task during the block; it leaves the group at the end."""
    task = asyncio.create_task(member.read())
    try:
        yield member
    finally:
        task.cancel()
        await asyncio.wait([task], timeout=DEADLINE_S)
        if not task.cancelled() and (error := task.exception()) is not None:
            raise error


async def wait_until(
    condition: Callable[[], bool], *, within_s: float = DEADLINE_S, expected: str
) -> None:
    """Wait until the condition holds.

    Raises AssertionError with `wanted` after `within_s`.
    """
    try:
        async with asyncio.timeout(within_s):
            while not condition():  # noqa: ASYNC110 - there is no event to wait for
                await asyncio.sleep(PAUSE_S)
    except TimeoutError:
        raise AssertionError(f"not within {within_s:.0f} s: {expected}") from None


async def wait_until_all_assigned(
    members: list[AiokafkaMember], partitions: int
) -> None:
    """Wait until each partition has one owner and every member owns some."""

    def is_assigned() -> bool:
        owned = [member.owned for member in members]
        has_all = all(owned) and sum(map(len, owned)) == partitions
        return has_all and len(frozenset().union(*owned)) == partitions

    await wait_until(is_assigned, expected=f"{partitions} partitions assigned")
