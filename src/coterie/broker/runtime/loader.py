"""Load shards from their snapshots and logs in the background, in slices.

A shard is loaded when it has replayed its whole log, including the records of a write
that was in progress when loading started. Records of a transaction are pending until
its marker, as at run time.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from typing import Final

from coterie.broker.coordinator.offsets.plain_replay import read_commits
from coterie.broker.coordinator.record_serde import decode_record, is_barrier
from coterie.broker.coordinator.result import Origin
from coterie.broker.coordinator.shard import Shard
from coterie.broker.log.log import Log, LogPartition
from coterie.broker.runtime.flusher import Flusher
from coterie.broker.runtime.shards import (
    CoordinatorPartition,
    Loaded,
    Phase,
    ShardStore,
)
from coterie.broker.runtime.slices import Slices, Wait
from coterie.broker.runtime.snapshots import Snapshots
from coterie.broker.runtime.system import EventLoop
from coterie.errors import CoterieError, LogCorrupt, MalformedFrame
from coterie.types import LogOffset
from coterie.wire.record_batch import (
    crc_matches,
    decode_marker,
    decode_records,
    read_header,
)

_LOGGER = logging.getLogger(__name__)

READ_BYTES: Final = 1 << 20


class Loader:
    """The loader of shards: one at a time, shards with requests first. `seconds` is the
    clock that bounds a slice."""

    def __init__(
        self,
        log: Log,
        flusher: Flusher,
        snapshots: Snapshots,
        loop: EventLoop,
        seconds: Callable[[], float] = time.monotonic,
    ) -> None:
        self.slices = Slices(loop, seconds)
        self._log = log
        self._flusher = flusher
        self._snapshots = snapshots

    def store(self, log_partition: LogPartition) -> ShardStore:
        """Return the store of a shard in the loader's log."""
        return ShardStore(
            log_partition, self._log, self._flusher, self.load, self.slices.prioritize
        )

    def load(
        self, partition: CoordinatorPartition, loaded: Loaded, failed: Loaded
    ) -> None:
        """Load an empty shard in the background, then call `loaded` or `failed`."""
        assert partition.phase is Phase.LOADING

        def ended(error: CoterieError | None) -> None:
            if error is not None:
                _LOGGER.error("%s could not be loaded: %s", partition.name, error)
                failed(partition)

        steps = self._steps(partition, partition.shard, loaded)
        self.slices.add(partition, steps, ended)

    def _steps(
        self, partition: CoordinatorPartition, shard: Shard, loaded: Loaded
    ) -> Iterator[Wait | None]:
        """Replay a group or a batch in each step.

        Stop early when the runtime has replaced the shard by another.
        """
        index, log_partition = partition.index, partition.log_partition
        position: LogOffset = 0
        for replay_from in self._snapshots.read(index, shard):
            position = replay_from
            yield None
        while partition.shard is shard:
            bounds = self._log.bounds(log_partition)
            if position >= bounds.next_offset:
                loaded(partition)
                return
            if position >= bounds.flushed_offset:
                yield self._flusher.when_durable
                continue
            batches = self._log.read(log_partition, position, READ_BYTES)
            if not batches:
                position = bounds.flushed_offset
            for batch in batches:
                position = replay_batch(partition, shard, batch, position)
                yield None


def replay_batch(
    partition: CoordinatorPartition, shard: Shard, batch: bytes, position: LogOffset
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
            partition.records_since_snapshot += header.record_count
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
                    partition.name,
                    stored.offset,
                )
                continue
            origin = Origin(
                stored.offset, stored.timestamp_ms, producer_id, header.producer_epoch
            )
            shard.replay(record, origin)
            partition.records_since_snapshot += 1
    except MalformedFrame as error:
        raise LogCorrupt(f"after offset {position}: {error}") from None
    return header.last_offset + 1
