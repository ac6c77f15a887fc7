"""A share partition beside a reference that has one entry for each offset.

Every operation is done on both, and both are compared afterwards. `check` holds the
rules that no operation may break.
"""

from __future__ import annotations

import copy
from itertools import pairwise
from typing import NamedTuple

from coterie.broker.coordinator.share_partition.acknowledge import (
    ACCEPT,
    RELEASE,
    RENEW,
    Acknowledgement,
    acknowledge,
)
from coterie.broker.coordinator.share_partition.acquire import (
    Acquired,
    Acquisition,
    OffsetRange,
    acquire,
)
from coterie.broker.coordinator.share_partition.partition import (
    ShareLimits,
    SharePartition,
)
from coterie.broker.coordinator.share_partition.state import (
    ACKNOWLEDGED,
    ACQUIRED,
    ARCHIVED,
    AVAILABLE,
    ShareState,
    StateUpdate,
)
from coterie.errors import ApiError

LOCK_MS = 100


class Offset(NamedTuple):
    """The reference's state of an offset."""

    state: int = AVAILABLE
    deliveries: int = 0
    member: str = ""
    deadline_ms: int = 0
    is_pending: bool = False


class World:
    """A log of record batches, a share partition, its stored state and the
    reference."""

    def __init__(self, batch_sizes: list[int], limits: ShareLimits) -> None:
        self.limits = limits
        self.log: list[OffsetRange] = []
        self.end = 0
        for size in batch_sizes:
            self.log.append(OffsetRange(self.end, self.end + size - 1))
            self.end += size
        self.now_ms = 0
        self.stored = ShareState(0, 0, 0, 0, 0, 0, 0)
        self.unwritten: list[tuple[int, StateUpdate]] = []
        self.partition = SharePartition(0)
        self.reference: dict[int, Offset] = {}
        self.finished: set[int] = set()
        """The offsets whose acknowledgement is durable."""
        self.lowest_start = 0

    def copy(self) -> World:
        new = copy.copy(self)
        new.unwritten = self.unwritten.copy()
        # copy.copy does not work on compiled objects.
        new.partition = SharePartition(self.partition.start_offset)
        new.partition.ranges = self.partition.ranges.copy()
        new.partition.last_write = self.partition.last_write
        new.reference = self.reference.copy()
        new.finished = self.finished.copy()
        return new

    # Operations.

    def fetch(
        self, member: str, records_max: int, *, batch_size: int = 100, exact: bool
    ) -> list[Acquired]:
        """Read from the next fetch offset, and acquire."""
        partition = self.partition
        offset = partition.next_fetch_offset()
        assert all(
            known.state != AVAILABLE or known.is_pending
            for at, known in self.reference.items()
            if at < offset
        )
        read = [batch for batch in self.log if batch.last >= offset]
        free = self.limits.record_locks_max - partition.in_flight_count
        may_acquire = bool(read) and partition.can_acquire(self.limits)
        wants = Acquisition(member, records_max, batch_size, exact, self.now_ms)
        acquired = acquire(partition, offset, read, wants, self.limits)
        assert bool(acquired) == may_acquire
        offsets = [at for first, last, _ in acquired for at in range(first, last + 1)]
        assert offsets == sorted(set(offsets))
        if exact:
            assert len(offsets) <= records_max
        if free <= 0:
            assert not offsets or offsets[-1] <= max(self.reference)
        for first, last, deliveries in acquired:
            for at in range(first, last + 1):
                known = self.reference.get(at, Offset())
                assert known.state == AVAILABLE
                assert not known.is_pending
                assert deliveries == known.deliveries + 1
                assert deliveries <= self.limits.delivery_count_limit
                assert at not in self.finished
                self.reference[at] = Offset(
                    ACQUIRED, deliveries, member, self.now_ms + LOCK_MS
                )
        # In the mode record_limit the rest of the last record batch is known, too.
        for at in range(partition.start_offset, partition.end_offset + 1):
            self.reference.setdefault(at, Offset())
        return acquired

    def acknowledge(self, member: str, batch: Acknowledgement) -> bool:
        """Acknowledge; return whether it was accepted."""
        start = self.partition.start_offset
        types = list(batch.types) * (
            batch.last_offset - batch.first_offset + 1 if len(batch.types) == 1 else 1
        )
        touched = {
            at: kind
            for at, kind in zip(
                range(batch.first_offset, batch.last_offset + 1), types, strict=True
            )
            if at >= start
        }
        none = Offset()
        may = all(
            self.reference.get(at, none).state == ACQUIRED
            and self.reference[at].member == member
            for at in touched
        )
        try:
            update = acknowledge(
                self.partition, member, [batch], self.limits, self.now_ms
            )
        except ApiError as error:
            refused = int(error.code)
        else:
            refused = 0
        assert refused in ({0} if may else {121, 42})
        if refused:
            return False
        for at, kind in touched.items():
            known = self.reference[at]
            if kind == RENEW:
                until = self.now_ms + LOCK_MS
                self.reference[at] = known._replace(deadline_ms=until)
            elif kind == RELEASE:
                self.reference[at] = self._released(known, is_pending=True)
            else:
                state = ACKNOWLEDGED if kind == ACCEPT else ARCHIVED
                self.reference[at] = Offset(state, known.deliveries, is_pending=True)
        self._stage(update)
        return True

    def pass_time(self, passed_ms: int) -> None:
        self.now_ms += passed_ms
        deadline = self.partition.next_deadline_ms()
        locks = [known.deadline_ms for known in self.reference.values()]
        assert deadline == min((lock for lock in locks if lock), default=None)
        update = self.partition.expire(self.now_ms, self.limits)
        for at, known in self.reference.items():
            if known.state == ACQUIRED and known.deadline_ms <= self.now_ms:
                self.reference[at] = self._released(known, is_pending=False)
        if update is not None:
            self.unwritten.append((0, update))

    def close_session(self, member: str) -> None:
        update = self.partition.release(member, self.limits)
        for at, known in self.reference.items():
            if known.state == ACQUIRED and known.member == member:
                self.reference[at] = self._released(known, is_pending=True)
        self._stage(update)

    def flush(self) -> None:
        """Make all updates durable."""
        for _, update in self.unwritten:
            self.stored = self.stored.updated(update)
        if self.unwritten:
            self.partition.written(self.partition.last_write)
            for at, known in self.reference.items():
                if known.is_pending and known.state in {ACKNOWLEDGED, ARCHIVED}:
                    self.finished.add(at)
                self.reference[at] = known._replace(is_pending=False)
        self.unwritten = []

    def restart(self) -> None:
        """Lose all that is not stored."""
        self.unwritten = []
        self.partition = SharePartition(self.stored.start_offset, self.stored.batches)
        self.lowest_start = self.partition.start_offset
        self.reference = {
            at: Offset()
            for at in range(self.partition.start_offset, self.partition.end_offset + 1)
        }
        for batch in self.stored.batches:
            for at in range(batch.first_offset, batch.last_offset + 1):
                self.reference[at] = Offset(batch.state, batch.delivery_count)

    def delete_records(self, before: int) -> None:
        self.partition.move_start(before)
        self.finished -= set(range(before))

    # Checks.

    def _stage(self, update: StateUpdate | None) -> None:
        if update is not None:
            self.unwritten.append((self.partition.last_write, update))

    def _released(self, known: Offset, *, is_pending: bool) -> Offset:
        is_spent = known.deliveries >= self.limits.delivery_count_limit
        state = ARCHIVED if is_spent else AVAILABLE
        return Offset(state, known.deliveries, is_pending=is_pending)

    def check(self) -> None:
        """Compare the share partition with the reference."""
        partition = self.partition
        start = partition.start_offset
        assert start >= self.lowest_start, "the start offset never falls"
        self.lowest_start = start
        for at in [at for at in self.reference if at < start]:
            del self.reference[at]
        # The start offset is the first one that is not finished.
        finished = 0
        for at in sorted(self.reference):
            known = self.reference[at]
            assert at != start or known.is_pending or known.state < ACKNOWLEDGED
            finished += known.state in {ACKNOWLEDGED, ARCHIVED}
        assert partition.delivery_complete_count == finished
        found: dict[int, Offset] = {}
        before = start - 1
        for each in partition.ranges:
            assert before < each.first <= each.last
            before = each.last
            for at in range(each.first, each.last + 1):
                found[at] = Offset(
                    each.state,
                    each.delivery_count,
                    each.member,
                    each.deadline_ms,
                    bool(each.write),
                )
        assert found == self.reference
        batches = self.stored.batches
        assert all(one.last_offset < two.first_offset for one, two in pairwise(batches))

    def key(self) -> tuple[object, ...]:
        """Return all that later operations depend on."""
        return (
            tuple(
                each._replace(write=bool(each.write)) for each in self.partition.ranges
            ),
            self.partition.start_offset,
            self.stored,
            tuple(update for _, update in self.unwritten),
            self.now_ms,
        )
