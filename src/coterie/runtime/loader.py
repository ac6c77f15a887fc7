"""Loads shards from their snapshots and logs in the background, a slice at a time.

A slice ends after `SLICE_S`, so that the server goes on answering. A shard is loaded
when it has replayed all that its log holds, what is being flushed at the time included.
Records of transactions are pending until the marker comes, as in live traffic.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from typing import Any, Final, Protocol

from coterie.coordinator.records.serde import decode_record
from coterie.coordinator.result import Origin
from coterie.errors import LogCorrupt, LogError, MalformedFrame
from coterie.log.log import Log
from coterie.runtime.shards import Coordinator, DrivenShard
from coterie.runtime.snapshots import Snapshots
from coterie.types import LogOffset
from coterie.wire.record_batch import (
    BatchHeader,
    crc_matches,
    decode_marker,
    decode_records,
    read_header,
)

_LOGGER = logging.getLogger(__name__)

SLICE_S: Final = 0.01
READ_BYTES: Final = 1 << 20

Outcome = Callable[[DrivenShard], None]


class Loop(Protocol):
    """What the loader needs of an event loop."""

    def call_soon(self, callback: Callable[..., object], *args: Any) -> object:
        """Call back in the next turn."""


class Durability(Protocol):
    """What the loader needs of the flusher."""

    def when_durable(self, done: Callable[[LogError | None], None]) -> None:
        """Call `done` once what is staged is durable, or never will be."""


class Loader:
    """Loads one shard after the other; one that somebody asks for comes first."""

    def __init__(
        self,
        log: Log,
        flusher: Durability,
        snapshots: Snapshots,
        *,
        loop: Loop,
        activate: Outcome,
        failed: Outcome,
    ) -> None:
        self.seconds: Callable[[], float] = time.monotonic
        """The clock by which a slice ends."""
        self._log = log
        self._flusher = flusher
        self._snapshots = snapshots
        self._loop = loop
        self._activate = activate
        self._failed = failed
        self._waiting: dict[DrivenShard, Iterator[bool]] = {}
        self._first: DrivenShard | None = None
        self._scheduled = False

    def load(self, driven: DrivenShard) -> None:
        """Fill an empty shard in the background and then activate it."""
        self._waiting[driven] = self._load(driven, driven.shard)
        self._schedule()

    def hurry(self, driven: DrivenShard) -> None:
        """Somebody has asked for a shard that is being loaded: it is the next."""
        if driven in self._waiting:
            self._first = driven

    def run_slice(self) -> None:
        """Load for `SLICE_S`, and go on in the next turn of the loop."""
        self._scheduled = False
        ends = self.seconds() + SLICE_S
        while self._waiting:
            driven = self._first or next(iter(self._waiting))
            if self._run_until(driven, ends):
                self._flusher.when_durable(lambda _: self._schedule())
                return
            if self.seconds() >= ends:
                self._schedule()
                return

    def _schedule(self) -> None:
        if self._waiting and not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self.run_slice)

    def _run_until(self, driven: DrivenShard, ends: float) -> bool:
        """Load a shard for a while; whether it waits for a flush now."""
        steps = self._waiting[driven]
        failed = False
        try:
            for has_to_wait in steps:
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
        if self._waiting.get(driven) is steps:
            del self._waiting[driven]
        if self._first is driven:
            self._first = None
        if failed:
            self._failed(driven)
        return False

    def _load(self, driven: DrivenShard, shard: Coordinator) -> Iterator[bool]:
        """Replay everything; a step a group or batch. True: a flush is to be awaited.

        Ends early when the runtime has put another shard in the place of this one.
        """
        index, where = driven.index, driven.where
        position: LogOffset = 0
        for replay_from in self._snapshots.read(index, shard):
            position = replay_from
            yield False
        while driven.shard is shard:
            bounds = self._log.bounds(where)
            if position >= bounds.next_offset:
                self._activate(driven)
                return
            if position >= bounds.flushed_offset:
                yield True
                continue
            batches = self._log.read(where, position, READ_BYTES)
            if not batches:
                position = bounds.flushed_offset
            for batch in batches:
                position = _replay_batch(driven, shard, batch, position)
                yield False


def _replay_batch(
    driven: DrivenShard, shard: Coordinator, batch: bytes, position: LogOffset
) -> LogOffset:
    """Replay a batch; the offset after it. Raises LogCorrupt."""
    try:
        header = read_header(batch)
        if not crc_matches(batch):
            raise LogCorrupt(f"offset {header.base_offset}: the checksum is wrong")
        if header.is_control:
            _replay_marker(driven, shard, batch, header)
        else:
            _replay_records(driven, shard, batch, header)
    except MalformedFrame as error:
        raise LogCorrupt(f"after offset {position}: {error}") from None
    return header.last_offset + 1


def _replay_marker(
    driven: DrivenShard, shard: Coordinator, batch: bytes, header: BatchHeader
) -> None:
    for record in decode_records(batch, header):
        marker = decode_marker(record)
        if marker is None:
            continue
        shard.replay_marker(
            header.producer_id,
            header.producer_epoch,
            commit=marker.commit,
            log_offset=record.offset,
        )


def _replay_records(
    driven: DrivenShard, shard: Coordinator, batch: bytes, header: BatchHeader
) -> None:
    producer_id = header.producer_id if header.is_transactional else -1
    for found in decode_records(batch, header):
        record = decode_record(found.key, found.value)
        if record is None:
            _LOGGER.warning(
                "%s: a record of an unknown type at offset %d is skipped",
                driven.name,
                found.offset,
            )
            continue
        origin = Origin(
            found.offset, found.timestamp_ms, producer_id, header.producer_epoch
        )
        shard.replay(record, origin)
        driven.records_since_snapshot += 1
