"""Snapshots of the shards beside the log, so that a restart replays only the end of the
log.

A snapshot is a set of values stored with `Log.put`, in the format of
`coordinator.snapshot`:

- space "snapshot/<shard>", key "": the log offset to replay from, and the transactions
  that were open there,
- space "snapshot/<shard>/groups": for each group whether it has offsets, and its
  metadata,
- space "snapshot/<shard>/offsets": for each group with offsets its offsets, which are
  loaded when they are first read.

A snapshot is fuzzy: groups are written one after the other while the shard keeps
changing, so a group may be newer than the offset to replay from. That is correct
because each group's metadata has the offset up to which it is current, and each commit
has its own offset. A snapshot never holds state that is not durable: it is staged after
the records it was made from, so a failed flush drops both.
"""

from __future__ import annotations

import logging
import struct
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from coterie.broker.coordinator.offsets.store import GroupOffsets
from coterie.broker.coordinator.shard import Shard
from coterie.broker.coordinator.snapshot import (
    entries,
    read_offsets,
    take_group,
    take_transactions,
)
from coterie.broker.coordinator.state import State
from coterie.broker.log.log import Log, LogPartition
from coterie.broker.runtime.durability import Durability
from coterie.broker.runtime.shards import CoordinatorPartition, Phase
from coterie.broker.runtime.system import Scheduler
from coterie.errors import LogError
from coterie.types import GroupId, LogOffset

_LOGGER = logging.getLogger(__name__)


_OFFSET: Final = struct.Struct(">q")
_INDEX_KEY: Final = b""
_HAS_OFFSETS: Final = b"\1"
_NO_OFFSETS: Final = b"\0"


class Snapshots:
    """The snapshots of all shards in one log, which need not be that of the shards."""

    def __init__(self, log: Log) -> None:
        self._log = log

    # Writing.

    def write(
        self, partition: CoordinatorPartition, changed: Collection[GroupId]
    ) -> Iterator[int]:
        """Stage the groups that changed since the last snapshot, one a step.

        Each step yields the number of bytes it staged. The last one stages the offset
        to replay from, the end of the log at the time of this call. It stops early when
        the runtime has replaced the shard.
        """
        replay_from = partition.log.bounds(partition.log_partition).next_offset
        transactions = take_transactions(partition.shard.state)
        index = _OFFSET.pack(replay_from) + transactions
        return self._write(partition, sorted(changed), index)

    def _write(
        self, partition: CoordinatorPartition, changed: Iterable[GroupId], index: bytes
    ) -> Iterator[int]:
        shard = partition.shard
        for group_id in changed:
            if partition.shard is not shard:
                return
            as_of = partition.log.bounds(partition.log_partition).next_offset
            yield self._put_group(partition.index, shard.state, group_id, as_of)
        if partition.shard is shard:
            self._log.put(_space(partition.index), _INDEX_KEY, index)
            yield len(index)

    def _put_group(
        self, index: int, state: State, group_id: GroupId, as_of: LogOffset
    ) -> int:
        key = _key(group_id)
        groups, stored = _group_space(index), _offset_space(index)
        snapshot = take_group(state, group_id, as_of)
        if snapshot is None:
            self._log.put(groups, key, None)
            self._log.put(stored, key, None)
            return len(key)
        head = (_HAS_OFFSETS if snapshot.offsets else _NO_OFFSETS) + snapshot.metadata
        self._log.put(groups, key, head)
        self._log.put(stored, key, snapshot.offsets or None)
        return len(head) + len(snapshot.offsets)

    # Reading.

    def replay_from(self, index: int) -> LogOffset | None:
        """Return the offset a restart replays from; None without a snapshot.

        Compaction must keep all tombstones from there on.
        """
        stored = self._log.get(_space(index), _INDEX_KEY)
        return None if stored is None else int(_OFFSET.unpack_from(stored)[0])

    def read(self, index: int, shard: Shard) -> Iterator[LogOffset]:
        """Load the snapshot into an empty shard, one group a step.

        Each step yields the offset to replay the log from: 0 without a snapshot. Raises
        LogCorrupt.
        """
        stored = self._log.get(_space(index), _INDEX_KEY)
        if stored is None:
            yield 0
            return
        (replay_from,) = _OFFSET.unpack_from(stored)
        for key, value in self._log.items(_group_space(index)):
            as_of: LogOffset = 0
            for record, origin in entries(value[1:]):
                shard.replay(record, origin)
                as_of = origin.log_offset
            shard.skip_records_before(_group_id(key), as_of)
            if value[:1] == _HAS_OFFSETS:
                self._attach_offsets(index, shard.state, key)
            yield replay_from
        for record, origin in entries(stored[_OFFSET.size :]):
            shard.replay(record, origin)
        shard.changed.clear()
        yield replay_from

    def _attach_offsets(self, index: int, state: State, key: bytes) -> None:
        log = self._log

        def load() -> GroupOffsets:
            return read_offsets(log.get(_offset_space(index), key) or b"")

        group_id = _group_id(key)
        state.ensure_group(group_id)
        state.offsets.stored.adopt(group_id, load)


def _key(group_id: GroupId) -> bytes:
    return group_id.encode("utf-8", "surrogatepass")


def _group_id(key: bytes) -> GroupId:
    return key.decode("utf-8", "surrogatepass")


def _space(index: int) -> str:
    return f"snapshot/{index}"


def _group_space(index: int) -> str:
    return f"snapshot/{index}/groups"


def _offset_space(index: int) -> str:
    return f"snapshot/{index}/offsets"


RECORDS_MIN: Final = 200_000
"""A restart replays up to this number of records, in all shards together, whatever the
schedule; it takes 0.2 s."""
SHARD_RECORDS_MIN: Final = 1_000
SHARD_RECORDS_MAX: Final = 250_000
"""The next round of a shard is due at the latest after this number of records: the
first response of a shard waits until they are replayed, which takes 0.25 s."""
BYTES_PER_RECORD: Final = 24
"""A round may write this number of bytes for each record of the log. A byte takes 2 ns
of CPU, and an offset of a commit of ten takes 2.7 us, so that snapshots take 2 % of the
time of commits."""
SLICE_S: Final = 0.002
SLICE_BYTES: Final = 256 * 1024
PAUSE_S: Final = 0.005
CHECK_EVERY_BYTES: Final = 256 * 1024


class RoundSchedule:
    """The number of records after which each shard's next round is due.

    The interval is in proportion to the bytes of the shard's previous round: a few
    groups that commit often are written often, and a shard whose groups have many
    offsets seldom.
    """

    def __init__(
        self,
        *,
        records_min: int = RECORDS_MIN,
        shard_min: int = SHARD_RECORDS_MIN,
        shard_max: int = SHARD_RECORDS_MAX,
    ) -> None:
        assert 0 < shard_min <= shard_max
        self._records_min = records_min
        self._shard_min = shard_min
        self._shard_max = shard_max
        self._proportional: dict[int, int] = {}

    def records_due(self, shard: int, shard_count: int) -> int:
        """Return the number of records after which a round of the shard is due."""
        assert shard_count > 0
        at_least = max(self._shard_min, self._records_min // shard_count)
        due = max(at_least, self._proportional.get(shard, 0))
        return min(due, self._shard_max)

    def written(self, shard: int, size_bytes: int) -> None:
        """Register a round of a shard that has staged `size_bytes`."""
        assert size_bytes >= 0
        self._proportional[shard] = size_bytes // BYTES_PER_RECORD


class _Taken(NamedTuple):
    """What a round took from a shard, to return it when the round is abandoned."""

    partition: CoordinatorPartition
    shard: Shard
    changed: frozenset[GroupId]
    records: int


class Snapshotter:
    """The schedule of snapshots, which are written in slices.

    A round writes the changed groups of the shards that are due by `RoundSchedule`.
    Each slice waits until the previous one is durable, and the event loop serves
    requests in between.
    """

    def __init__(
        self,
        snapshots: Snapshots,
        flusher: Durability,
        shards: Sequence[CoordinatorPartition],
        scheduler: Scheduler,
        schedule: RoundSchedule | None = None,
    ) -> None:
        self.seconds: Callable[[], float] = time.monotonic
        """The clock that bounds a slice."""
        self._snapshots = snapshots
        self._flusher = flusher
        self._shards = shards
        self._scheduler = scheduler
        self._schedule = schedule or RoundSchedule()
        self._unchecked_bytes = 0
        self._round: Iterator[int] | None = None
        self._taken: list[_Taken] = []
        self._is_complete = False

    def consider(self, log_partition: LogPartition, size_bytes: int) -> None:
        """Start a round if one is due, after bytes of a shard have become durable."""
        assert size_bytes > 0, log_partition
        self._unchecked_bytes += size_bytes
        if self._unchecked_bytes < CHECK_EVERY_BYTES:
            return
        self._unchecked_bytes = 0
        if self._round is not None:
            return
        due = [partition for partition in self._shards if self._is_due(partition)]
        if due:
            self._round = self._steps(due)
            self._is_complete = False
            self._scheduler.call_later(0, self._run_slice)

    def _is_due(self, partition: CoordinatorPartition) -> bool:
        due = self._schedule.records_due(partition.index, len(self._shards))
        return partition.records_since_snapshot >= due

    def write_all(self) -> None:
        """Stage all changed groups at once."""
        self._abandon_round()
        for _ in self._steps(self._shards):
            pass

    def _steps(self, shards: Sequence[CoordinatorPartition]) -> Iterator[int]:
        for partition in shards:
            shard = partition.shard
            records = partition.records_since_snapshot
            if partition.phase is Phase.ACTIVE and (records or shard.changed):
                changed = frozenset(shard.changed)
                shard.changed.clear()
                partition.records_since_snapshot = 0
                self._taken.append(_Taken(partition, shard, changed, records))
                size_bytes = 0
                try:
                    for step_bytes in self._snapshots.write(partition, changed):
                        size_bytes += step_bytes
                        yield step_bytes
                except LogError:
                    raise
                except Exception:
                    # The shard keeps its earlier snapshot, and the others get theirs.
                    _LOGGER.exception("%s: a bug in writing a snapshot", partition.name)
                    shard.changed.update(changed)
                self._schedule.written(partition.index, size_bytes)

    def _run_slice(self) -> None:
        steps = self._round
        if steps is None:
            return
        ends = self.seconds() + SLICE_S
        slice_bytes = 0
        try:
            for step_bytes in steps:
                slice_bytes += step_bytes
                if slice_bytes >= SLICE_BYTES or self.seconds() >= ends:
                    break
            else:
                self._is_complete = True
        except LogError as error:
            self._slice_flushed(error)
            return
        self._flusher.when_durable(self._slice_flushed)

    def _slice_flushed(self, error: LogError | None) -> None:
        """Schedule the next slice, or abandon the round after a failed flush."""
        if error is not None:
            _LOGGER.error("a snapshot could not be written: %s", error)
            self._abandon_round()
        elif self._is_complete:
            self._end_round()
        else:
            self._scheduler.call_later(PAUSE_S, self._run_slice)

    def _abandon_round(self) -> None:
        """Mark the groups of the round as changed again."""
        for partition, shard, changed, records in self._taken:
            if partition.shard is shard:
                shard.changed.update(changed)
                partition.records_since_snapshot += records
        self._end_round()

    def _end_round(self) -> None:
        self._round = None
        self._taken = []
