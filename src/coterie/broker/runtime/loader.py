"""Load shards from their snapshots and logs in the background, in slices.

A slice ends after `SLICE_S`, so that the server keeps responding. A shard is loaded
when it has replayed its whole log, including the records of a write that was in
progress when loading started. Records of a transaction are pending until its marker, as
at run time.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from coterie.broker.coordinator.offsets.plain_replay import read_commits
from coterie.broker.coordinator.record_serde import decode_record, is_barrier
from coterie.broker.coordinator.result import Origin
from coterie.broker.coordinator.shard import Shard
from coterie.broker.log.log import Log, LogPartition
from coterie.broker.runtime.flusher import Flusher
from coterie.broker.runtime.shards import DrivenShard, Loaded, Phase, ShardStore
from coterie.broker.runtime.snapshots import Snapshots
from coterie.broker.runtime.system import EventLoop
from coterie.errors import LogCorrupt, LogError, MalformedFrame
from coterie.types import LogOffset
from coterie.wire.record_batch import (
    crc_matches,
    decode_marker,
    decode_records,
    read_header,
)

_LOGGER = logging.getLogger(__name__)

SLICE_S: Final = 0.01
READ_BYTES: Final = 1 << 20


class _Load(NamedTuple):
    """The remaining steps of loading one shard."""

    steps: Iterator[bool]
    failed: Loaded


class Loader:
    """The loader of shards: one at a time, shards with requests first."""

    def __init__(
        self,
        log: Log,
        flusher: Flusher,
        snapshots: Snapshots,
        loop: EventLoop,
    ) -> None:
        self.seconds: Callable[[], float] = time.monotonic
        """The clock that bounds a slice."""
        self._log = log
        self._flusher = flusher
        self._snapshots = snapshots
        self._loop = loop
        self._loads: dict[DrivenShard, _Load] = {}
        self._first: DrivenShard | None = None
        self._scheduled = False

    def store(self, where: LogPartition) -> ShardStore:
        """Return the store of a shard in the loader's log."""
        return ShardStore(where, self._log, self._flusher, self.load, self.prioritize)

    def load(self, driven: DrivenShard, loaded: Loaded, failed: Loaded) -> None:
        """Load an empty shard in the background, then call `loaded` or `failed`."""
        assert driven.phase is Phase.LOADING
        steps = self._steps(driven, driven.shard, loaded)
        self._loads[driven] = _Load(steps, failed)
        self._schedule()

    def prioritize(self, driven: DrivenShard) -> None:
        """Load a shard before the others."""
        if driven in self._loads:
            self._first = driven

    def stop(self) -> None:
        """Load no further: the log is about to be closed."""
        self._loads.clear()
        self._first = None

    def run_slice(self) -> None:
        """Load for `SLICE_S`, and continue in the next iteration of the loop."""
        self._scheduled = False
        ends = self.seconds() + SLICE_S
        while self._loads:
            driven = self._first or next(iter(self._loads))
            if self._run_until(driven, ends):
                self._flusher.when_durable(lambda _: self._schedule())
                return
            if self.seconds() >= ends:
                self._schedule()
                return

    def _schedule(self) -> None:
        if self._loads and not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self.run_slice)

    def _run_until(self, driven: DrivenShard, ends: float) -> bool:
        """Load a shard until the time `ends`; return whether it waits for a flush."""
        load = self._loads[driven]
        failed = False
        try:
            for has_to_wait in load.steps:
                if has_to_wait:
                    return True
                if self.seconds() >= ends:
                    return False
        except LogError as error:
            _LOGGER.error("%s could not be loaded: %s", driven.name, error)
            failed = True
        except Exception:
            _LOGGER.exception("%s could not be loaded: a bug", driven.name)
            failed = True
        if self._loads.get(driven) is load:
            del self._loads[driven]
        if self._first is driven:
            self._first = None
        if failed:
            load.failed(driven)
        return False

    def _steps(
        self, driven: DrivenShard, shard: Shard, loaded: Loaded
    ) -> Iterator[bool]:
        """Replay a group or a batch in each step; yield True to wait for a flush.

        Stop early when the runtime has replaced the shard by another.
        """
        index, where = driven.index, driven.where
        position: LogOffset = 0
        for replay_from in self._snapshots.read(index, shard):
            position = replay_from
            yield False
        while driven.shard is shard:
            bounds = self._log.bounds(where)
            if position >= bounds.next_offset:
                loaded(driven)
                return
            if position >= bounds.flushed_offset:
                yield True
                continue
            batches = self._log.read(where, position, READ_BYTES)
            if not batches:
                position = bounds.flushed_offset
            for batch in batches:
                position = replay_batch(driven, shard, batch, position)
                yield False


def replay_batch(
    driven: DrivenShard, shard: Shard, batch: bytes, position: LogOffset
) -> LogOffset:
    """Replay a batch; return the offset after it. Raises LogCorrupt."""
    try:
        header = read_header(batch)
        if not crc_matches(batch):
            raise LogCorrupt(f"offset {header.base_offset}: wrong checksum")
        commits = read_commits(batch, header)
        if commits is not None:
            for group_id, topic, offsets in commits:
                shard.replay_commits(group_id, topic, offsets)
            driven.records_since_snapshot += header.record_count
            return header.last_offset + 1
        producer_id = header.producer_id if header.is_transactional else -1
        for stored in decode_records(batch, header):
            if header.is_control:
                if marker := decode_marker(stored):
                    shard.replay_marker(
                        header.producer_id,
                        header.producer_epoch,
                        commit=marker.commit,
                        log_offset=stored.offset,
                    )
                continue
            record = decode_record(stored.key, stored.value)
            if record is None:
                if is_barrier(stored.key):
                    continue
                _LOGGER.warning(
                    "%s: a record of an unknown type at offset %d is skipped",
                    driven.name,
                    stored.offset,
                )
                continue
            origin = Origin(
                stored.offset, stored.timestamp_ms, producer_id, header.producer_epoch
            )
            shard.replay(record, origin)
            driven.records_since_snapshot += 1
    except MalformedFrame as error:
        raise LogCorrupt(f"after offset {position}: {error}") from None
    return header.last_offset + 1
