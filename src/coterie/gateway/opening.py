"""Take a shard over: fence earlier owners, write a barrier, load up to it.

To be replaced by gateway/log, which also has snapshots, transactions and checks.

InitProducerId -> barrier record -> replay the partition up to the barrier -> loaded
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Final

from coterie.broker.log.log import LogPartition
from coterie.broker.runtime.loader import replay_batch
from coterie.broker.runtime.shards import DrivenShard, Loaded, ShardStore
from coterie.broker.runtime.system import Scheduler
from coterie.errors import CoterieError, LogError
from coterie.gateway.log.batches import stamped
from coterie.gateway.log.shard_log import ShardLog
from coterie.gateway.log.shard_writer import ShardWriter
from coterie.gateway.ownership import OpenedShard
from coterie.gateway.upstream.upstream import Fetched, Upstream
from coterie.types import LogOffset, TopicId
from coterie.wire.record_batch import (
    HEADER_BYTES,
    LogRecord,
    Producer,
    encode_batch,
)

_LENGTH_END: Final = 12
_BARRIER_KEY: Final = struct.pack(">h", 0x7C01)


class ShardOpener:
    """Opens the shards of one gateway; `transactional_id` is that of a shard."""

    def __init__(
        self,
        upstream: Upstream,
        topic_id: TopicId,
        transactional_id: Callable[[int], str],
        scheduler: Scheduler,
        clock: Callable[[], int],
        fenced: Callable[[int], None],
    ) -> None:
        self.upstream = upstream
        self.topic_id = topic_id
        self.transactional_id = transactional_id
        self.scheduler = scheduler
        self.clock = clock
        self.fenced = fenced

    def open(self, index: int) -> OpenedShard:
        """Return the store of a shard, for one try to take it over."""
        opening = _Opening(self, index)
        store = ShardStore(opening.log.where, opening.log, opening.writer, opening.load)
        return OpenedShard(store, opening.close)


class _Opening:
    """One try to take a shard over."""

    def __init__(self, opener: ShardOpener, index: int) -> None:
        self._opener = opener
        self._index = index
        self._is_closed = False
        self.log = ShardLog(LogPartition(opener.topic_id, index))
        self.writer = ShardWriter(
            self.log,
            opener.upstream,
            opener.scheduler,
            opener.clock,
            on_fenced=lambda: opener.fenced(index),
        )

    def close(self) -> None:
        """Stop at once."""
        self._is_closed = True
        self.writer.close(LogError(f"shard {self._index} was released"))

    def load(self, driven: DrivenShard, loaded: Loaded, failed: Loaded) -> None:
        """Take the shard over, and call one of the callbacks."""
        self._driven, self._loaded, self._failed = driven, loaded, failed
        self._opener.upstream.init_producer_id(
            self._opener.transactional_id(self._index), self._initialized
        )

    def _initialized(self, producer: Producer | CoterieError) -> None:
        if self._stops(producer) or isinstance(producer, CoterieError):
            return
        self._producer = producer._replace(base_sequence=0)
        barrier = encode_batch([LogRecord(0, self._opener.clock(), _BARRIER_KEY, b"")])
        self._opener.upstream.produce(
            self._index, stamped(barrier, self._producer), self._produced
        )

    def _produced(self, offset: LogOffset | CoterieError) -> None:
        if self._stops(offset) or isinstance(offset, CoterieError):
            return
        self._barrier = offset
        self._fetch(0)

    def _fetch(self, offset: LogOffset) -> None:
        self._opener.upstream.fetch(
            self._index, offset, lambda fetched: self._fetched(offset, fetched)
        )

    def _fetched(self, offset: LogOffset, fetched: Fetched | CoterieError) -> None:
        if self._stops(fetched) or isinstance(fetched, CoterieError):
            return
        data, at = fetched.batches, 0
        try:
            while at + HEADER_BYTES <= len(data):
                size = _LENGTH_END + int.from_bytes(data[at + 8 : at + 12])
                if at + size > len(data):
                    break
                batch = data[at : at + size]
                offset = replay_batch(self._driven, self._driven.shard, batch, offset)
                at += size
        except LogError as error:
            self._stops(error)
            return
        if offset > self._barrier:
            self.writer.open(self._producer._replace(base_sequence=1), offset)
            self._loaded(self._driven)
        else:
            self._fetch(offset)

    def _stops(self, result: object) -> bool:
        """Return whether the try is over, because it was closed or has failed."""
        if not self._is_closed and isinstance(result, CoterieError):
            self._is_closed = True
            self._failed(self._driven)
        return self._is_closed
