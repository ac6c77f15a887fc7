"""Three clients, three languages' worth of code, one group."""

from __future__ import annotations

import asyncio
import contextlib

from kafka.coordinator.assignors.range import RangePartitionAssignor

from .admin import committed_offsets, produce
from .aio import AioMember, joined, soon
from .members import Crew
from .workers import Worker

PARTITIONS = 4


def test_clients_of_three_kinds_share_a_topic(
    bootstrap: str, group: str, topic: str
) -> None:
    values = {p: [b"%d" % i for i in range(25)] for p in range(PARTITIONS)}
    ours = AioMember(bootstrap, group, topic)

    async def story(worker: Worker, crew: Crew) -> None:
        native = crew.join()

        def settled() -> bool:
            owned = [worker.owned, ours.owned, native.owned]
            return all(owned) and sorted(p for one in owned for p in one) == [
                0,
                1,
                2,
                3,
            ]

        def everything_read() -> bool:
            return len(worker.seen) + len(ours.seen) + len(crew.seen) >= 100

        async with joined(ours):
            polling = asyncio.create_task(
                asyncio.to_thread(crew.poll_until, everything_read)
            )
            await soon(settled, wanted="three owners")
            await asyncio.to_thread(produce, bootstrap, topic, values)
            await polling

    with (
        Worker(
            bootstrap,
            group,
            topic,
            partition_assignment_strategy=(RangePartitionAssignor,),
        ) as worker,
        contextlib.closing(Crew(bootstrap, group, topic)) as crew,
    ):
        asyncio.run(asyncio.wait_for(story(worker, crew), 60))
    read = {(p, i) for p, i, _ in worker.seen + ours.seen + crew.seen}
    assert read == {(p, i) for p in range(PARTITIONS) for i in range(25)}
    assert all((worker.seen, ours.seen, crew.seen))
    assert set(committed_offsets(bootstrap, group).values()) == {25}
