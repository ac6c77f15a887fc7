"""The durable state of a share partition, as `__share_group_state` stores it.

A snapshot record holds the whole state, an update record what one write has changed.
Acquired records, their members and locks are not stored: after a restart they are
delivered again.
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heappop, heappush
from itertools import pairwise
from typing import Final, NamedTuple

from coterie.types import GroupId, LogOffset, TopicId

AVAILABLE: Final = 0
ACQUIRED: Final = 1
ACKNOWLEDGED: Final = 2
ARCHIVING: Final = 3
ARCHIVED: Final = 4
UNINITIALIZED: Final = -1
"""The start offset of a share partition that starts by `share.auto.offset.reset`."""
UNKNOWN_COUNT: Final = -1
"""The delivery complete count of a share partition without a start offset."""


class ShareKey(NamedTuple):
    """A share partition."""

    group_id: GroupId
    topic_id: TopicId
    partition: int


class StateBatch(NamedTuple):
    """The stored delivery state of a range of offsets."""

    first_offset: LogOffset
    last_offset: LogOffset
    state: int
    delivery_count: int


class StateUpdate(NamedTuple):
    """The changes of one write."""

    start_offset: LogOffset
    delivery_complete_count: int
    batches: tuple[StateBatch, ...]


class ShareState(NamedTuple):
    """The stored state of a share partition.

    `update_count` is the number of updates since the snapshot, which has the number
    `snapshot_epoch`. Times are in ms since the epoch.
    """

    snapshot_epoch: int
    state_epoch: int
    leader_epoch: int
    start_offset: LogOffset
    delivery_complete_count: int
    created_ms: int
    written_ms: int
    batches: tuple[StateBatch, ...] = ()
    update_count: int = 0

    def updated(self, update: StateUpdate) -> ShareState:
        """Return the state after an update (SharePartition's PersisterStateBatch
        combination in Kafka's ShareCoordinatorShard)."""
        assert update.start_offset >= 0
        start = max(self.start_offset, update.start_offset)
        count = update.delivery_complete_count
        if update.start_offset == self.start_offset:
            count = max(count, self.delivery_complete_count)
        elif update.start_offset < self.start_offset:
            count = self.delivery_complete_count
        return self._replace(
            start_offset=start,
            delivery_complete_count=count,
            batches=combined((*self.batches, *update.batches), start),
            update_count=self.update_count + 1,
        )


def combined(
    batches: Iterable[StateBatch], start_offset: LogOffset
) -> tuple[StateBatch, ...]:
    """Return disjoint batches from the start offset on, in order.

    Where batches overlap the higher delivery count wins, then the higher state.
    Neighbours with the same state and count are joined.
    """
    ordered = sorted(
        batch._replace(first_offset=max(batch.first_offset, start_offset))
        for batch in batches
        if batch.last_offset >= start_offset
    )
    points = {batch.first_offset for batch in ordered}
    points.update(batch.last_offset + 1 for batch in ordered)
    result: list[StateBatch] = []
    active: list[tuple[int, int, LogOffset]] = []
    index = 0
    for first, after in pairwise(sorted(points)):
        while index < len(ordered) and ordered[index].first_offset == first:
            batch = ordered[index]
            heappush(active, (-batch.delivery_count, -batch.state, batch.last_offset))
            index += 1
        while active and active[0][2] < first:
            heappop(active)
        if not active:
            continue
        count, state = -active[0][0], -active[0][1]
        if result and result[-1][1:] == (first - 1, state, count):
            result[-1] = result[-1]._replace(last_offset=after - 1)
        else:
            result.append(StateBatch(first, after - 1, state, count))
    return tuple(result)
