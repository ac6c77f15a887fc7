"""How fast a group reads, from two looks at it, and when it will have caught up."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from coterie.operations.lag import GroupLag
from coterie.types import LogOffset, TopicPartition


@dataclass(frozen=True, slots=True)
class Pace:
    """Offsets a second, over the partitions whose commits and ends were known both
    times. A commit that went back, as after a reset, says nothing."""

    read_per_s: float | None = None
    written_per_s: float | None = None
    catch_up_ms: int | None = None
    """How long it takes at this pace until nothing is left; None when never."""


def pace(before: GroupLag, after: GroupLag, elapsed_ms: int) -> Pace:
    """What a group did between two looks."""
    old = dict(_places(before))
    moved = [
        (committed - old[at][0], end - old[at][1])
        for at, (committed, end) in _places(after)
        if at in old
    ]
    moved = [(read, written) for read, written in moved if read >= 0 and written >= 0]
    if not moved or elapsed_ms <= 0:
        return Pace()
    read_per_s = sum(read for read, _ in moved) * 1000 / elapsed_ms
    written_per_s = sum(written for _, written in moved) * 1000 / elapsed_ms
    return Pace(
        read_per_s, written_per_s, _catch_up_ms(after, read_per_s - written_per_s)
    )


def _places(
    group: GroupLag,
) -> Iterator[tuple[TopicPartition, tuple[LogOffset, LogOffset]]]:
    for row in group.rows:
        partition = row.topic_partition
        if partition and row.committed is not None and row.log_end is not None:
            yield partition, (row.committed.offset, row.log_end)


def _catch_up_ms(group: GroupLag, gained_per_s: float) -> int | None:
    if group.total == 0:
        return 0
    if not group.total or gained_per_s <= 0:
        return None
    return round(group.total / gained_per_s * 1000)
