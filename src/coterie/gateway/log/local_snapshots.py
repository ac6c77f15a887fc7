"""Snapshots of a node's shards in a local directory, so that taking a shard over again
replays only the end of its partition.

They have the form of `broker.runtime.snapshots`, in a store of their own. What they are
made from becomes durable upstream, and they are in the local store: `SnapshotGate` lets
a slice of a snapshot become durable only after the writes of all shards. If a write
fails meanwhile, or upstream appended it at another offset than was assigned, the slice
is dropped and its groups are written again later.

A directory belongs to one topic id. A snapshot is used while upstream keeps the
tombstones that were written after it (`delete.retention.ms`): compaction removes older
ones, and groups that were deleted would exist again. With it is stored who owned the
shard then: after it, batches of earlier owners are not replayed.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import Final

from coterie.broker.coordinator.shard import Shard
from coterie.broker.log.log import Log
from coterie.broker.runtime.durability import Done, Durability
from coterie.broker.runtime.flusher import Flusher
from coterie.broker.runtime.shards import DrivenShard, Phase
from coterie.broker.runtime.snapshots import (
    CHECK_EVERY_BYTES,
    RoundSchedule,
    Snapshots,
    Snapshotter,
)
from coterie.broker.runtime.system import Scheduler, TimerHandle
from coterie.errors import LogError
from coterie.gateway.log.barrier import Lineage
from coterie.gateway.log.shard_log import ShardLog
from coterie.gateway.log.shard_writer import ShardWriter
from coterie.gateway.upstream.topic import DELETE_RETENTION_MS, ShardsTopic
from coterie.types import GroupId, LogOffset

_LOGGER = logging.getLogger(__name__)

AGE_MAX_MS: Final = DELETE_RETENTION_MS // 2
"""Half of the time for which tombstones are kept, as clocks of nodes may differ."""
_SPACE: Final = "gateway/taken"
CHECK_S: Final = 1.0
"""The interval at which snapshots of loaded shards begin; one round may be in
progress."""
REMOVED_A_STEP: Final = 100
_TIME: Final = struct.Struct(">q")


def store_directory(directory: Path, topic: ShardsTopic) -> Path:
    """Return the directory of a topic's store."""
    return directory / f"{topic.name}-{topic.topic_id.hex()}"


class LocalSnapshots:
    """The snapshots of one node's shards.

    `wall` returns the system time in ms. `flusher` is that of `log`, which holds
    nothing else.
    """

    def __init__(
        self,
        log: Log,
        flusher: Flusher,
        shards: Sequence[DrivenShard],
        scheduler: Scheduler,
        wall: Callable[[], int],
        schedule: RoundSchedule | None = None,
    ) -> None:
        self._log = log
        self._flusher = flusher
        self._wall = wall
        self._snapshots = _DatedSnapshots(log, wall)
        self._shards = shards
        self._scheduler = scheduler
        self._schedule = schedule or RoundSchedule()
        self._check: TimerHandle | None = None
        gate = SnapshotGate(log, flusher, shards)
        self.snapshotter = Snapshotter(
            self._snapshots, gate, shards, scheduler, self._schedule
        )
        self.consider = self.snapshotter.consider
        """The listener of `Runtime.on_growth`."""

    def close(self) -> None:
        """Close the store; what is not durable is dropped."""
        if self._check is not None:
            self._check.cancel()
        self._flusher.abandon()
        self._flusher.close()
        self._log.close()

    def replay_from(self, index: int) -> LogOffset | None:
        """Return the offset from which to replay after a shard's snapshot; None without
        one, or when it is too old."""
        taken = self._log.get(_SPACE, _key(index))
        if taken is None:
            return None
        age_ms = self._wall() - int(_TIME.unpack_from(taken)[0])
        if not 0 <= age_ms < AGE_MAX_MS:
            _LOGGER.info("shard %d: the local snapshot is too old", index)
            return None
        return self._snapshots.replay_from(index)

    def lineage(self, index: int) -> Lineage:
        """Return the owners of a shard until its snapshot."""
        taken = self._log.get(_SPACE, _key(index))
        return Lineage() if taken is None else Lineage.from_bytes(taken[_TIME.size :])

    def read(self, index: int, shard: Shard) -> Iterator[LogOffset]:
        """Load a snapshot into an empty shard, one group a step. Raises LogCorrupt."""
        return self._snapshots.read(index, shard)

    def is_stored(self, index: int) -> bool:
        """Return whether any part of a shard's snapshot is stored."""
        return any(
            next(iter(self._log.items(space)), None) is not None
            for space in self._snapshots.spaces(index)
        )

    def removal(self, index: int) -> Iterator[None]:
        """Remove a shard's snapshot, some groups a step: groups that do not exist any
        more must not be in the next one."""
        self._log.put(_SPACE, _key(index), None)
        for space in self._snapshots.spaces(index):
            for at, (key, _) in enumerate(self._log.items(space)):
                self._log.put(space, key, None)
                if at % REMOVED_A_STEP == 0:
                    yield

    def remove(self, index: int) -> None:
        """Remove a shard's snapshot, which cannot be read."""
        for _ in self.removal(index):
            pass
        self._flusher.wake()

    def when_removed(self, index: int, done: Callable[[bool], None]) -> None:
        """Call `done` once a removal is durable, with False if it has to be repeated:
        it was staged with a slice that was dropped."""

        def flushed(error: LogError | None) -> None:
            if error is not None:
                _LOGGER.error("shard %d: local snapshot: %s", index, error)
            done(error is not None or not self.is_stored(index))

        self._flusher.when_durable(flushed)

    def loaded(self) -> None:
        """Write snapshots soon of shards that have replayed much."""
        if self._check is None and self.has_due():
            self._check = self._scheduler.call_later(CHECK_S, self._write_due)

    def has_due(self) -> bool:
        """Return whether a shard has many records that are not in its snapshot."""
        return self._first_due() is not None

    def _first_due(self) -> DrivenShard | None:
        count = len(self._shards)
        for driven in self._shards:
            due = self._schedule.records_due(driven.index, count)
            if driven.phase is Phase.ACTIVE and driven.records_since_snapshot >= due:
                return driven
        return None

    def _write_due(self) -> None:
        self._check = None
        due = self._first_due()
        if due is not None:
            self.consider(due.where, CHECK_EVERY_BYTES)
            self.loaded()


class _DatedSnapshots(Snapshots):
    """Snapshots with the time before which each was begun, and the shard's owner."""

    def __init__(self, log: Log, wall: Callable[[], int]) -> None:
        super().__init__(log)
        self._wall = wall

    def write(self, driven: DrivenShard, changed: Collection[GroupId]) -> Iterator[int]:
        """Stage the groups that changed; see `Snapshots`. The time is staged last, so
        that it is never later than that of the snapshot."""
        shard, log = driven.shard, driven.log
        assert isinstance(log, ShardLog)
        taken = _TIME.pack(self._wall()) + log.lineage.to_bytes()
        steps = super().write(driven, changed)

        def dated() -> Iterator[int]:
            yield from steps
            if driven.shard is shard:
                self._log.put(_SPACE, _key(driven.index), taken)
                yield len(taken)

        return dated()


class SnapshotGate(Durability):
    """Makes what is staged in the local store durable after all writes of the shards
    that it was made from; see the module's docstring."""

    def __init__(
        self, log: Log, flusher: Flusher, shards: Sequence[DrivenShard]
    ) -> None:
        super().__init__()
        self._log = log
        self._flusher = flusher
        self._shards = shards

    def when_durable(self, done: Done) -> None:
        """Call `done(None)` once everything is durable, or `done(error)` when it was
        dropped."""
        active = [each for each in self._shards if each.phase is Phase.ACTIVE]
        before = [(each, each.shard, _mismatches(each)) for each in active]
        left = 1 + len(active)
        failed: LogError | None = None
        if not all(map(_is_exact, active)):
            failed = LogError("offsets were assigned too high")

        def written(error: LogError | None) -> None:
            nonlocal left, failed
            left -= 1
            failed = failed or error
            if left:
                return
            if failed is None and any(
                driven.shard is not shard or _mismatches(driven) != mismatches
                for driven, shard, mismatches in before
            ):
                failed = LogError("offsets were assigned too low")
            if failed is None:
                self._flusher.when_durable(done)
            else:
                self._log.abandon(self._log.take())
                done(failed)

        for driven in active:
            driven.flusher.when_durable(written)
        written(None)


def _mismatches(driven: DrivenShard) -> int:
    """Return the number of writes at other offsets than were assigned."""
    assert isinstance(driven.log, ShardLog)
    return driven.log.mismatches


def _is_exact(driven: DrivenShard) -> bool:
    """Return False when assigned offsets are known to be above the real ones. Those of
    writes in flight show it as mismatches."""
    log, writer = driven.log, driven.flusher
    assert isinstance(log, ShardLog)
    assert isinstance(writer, ShardWriter)
    return log.is_exact or not writer.is_idle


def _key(index: int) -> bytes:
    return str(index).encode()
