"""aiokafka consumers of one group, each read by a task of its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition
from aiokafka.coordinator.assignors.range import RangePartitionAssignor

from .waiting import DEADLINE_S, PAUSE_S


class AioMember(ConsumerRebalanceListener):
    """A consumer that reads into `seen` and commits what it gives up."""

    def __init__(
        self, bootstrap: str, group: str, topic: str, **config: object
    ) -> None:
        self.seen: list[tuple[int, int, bytes]] = []
        self.rebalances = 0
        self._topic = topic
        self._consumer: AIOKafkaConsumer | None = None  # made inside the loop, by read
        self._config = {
            "bootstrap_servers": bootstrap,
            "group_id": group,
            "session_timeout_ms": 6_000,
            "heartbeat_interval_ms": 300,
            "auto_offset_reset": "earliest",
            "enable_auto_commit": False,
            "fetch_max_wait_ms": 50,
            "partition_assignment_strategy": (RangePartitionAssignor,),
            **config,
        }

    @property
    def owned(self) -> frozenset[int]:
        """The partitions it owns now."""
        if self._consumer is None:
            return frozenset()
        return frozenset(one.partition for one in self._consumer.assignment())

    async def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        """Commit, so that the next owner goes on exactly there."""
        if revoked and self._consumer is not None:
            await self._consumer.commit()

    async def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        """Count it."""
        self.rebalances += 1

    async def read(self) -> None:
        """Join, and read until cancelled."""
        consumer = self._consumer = AIOKafkaConsumer(**self._config)
        await consumer.start()
        consumer.subscribe([self._topic], listener=self)
        try:
            async for record in consumer:
                self.seen.append((record.partition, record.offset, record.value))
        finally:
            if self.owned:
                await consumer.commit()
            await consumer.stop()


@asynccontextmanager
async def joined(member: AioMember) -> AsyncIterator[AioMember]:
    """The member reads while the block runs, and leaves after it."""
    task = asyncio.create_task(member.read())
    try:
        yield member
    finally:
        task.cancel()
        await asyncio.wait([task], timeout=DEADLINE_S)
        if not task.cancelled() and (error := task.exception()) is not None:
            raise error


async def soon(
    condition: Callable[[], bool], *, within_s: float = DEADLINE_S, wanted: str
) -> None:
    """Wait until the condition holds; AssertionError with `wanted` if it never does."""
    try:
        async with asyncio.timeout(within_s):
            while not condition():  # noqa: ASYNC110 - nothing signals it
                await asyncio.sleep(PAUSE_S)
    except TimeoutError:
        raise AssertionError(f"not within {within_s:.0f} s: {wanted}") from None


async def shared(members: list[AioMember], partitions: int) -> None:
    """Wait until each partition has one owner and every member owns some."""

    def settled() -> bool:
        owned = [member.owned for member in members]
        everybody = all(owned) and sum(map(len, owned)) == partitions
        return everybody and len(frozenset().union(*owned)) == partitions

    await soon(settled, wanted=f"{partitions} partitions shared")
