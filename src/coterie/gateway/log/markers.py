"""Read a shard's partition for the markers that end transactions.

Upstream's transaction coordinators write them, so the owner of the shard learns the
outcome of a transaction only from the log. It reads while a transaction is open.

A transaction may be aborted before its application's batch is acknowledged here: the
marker follows in the same response. Markers are replayed after the batches before them,
so the reader stops at a batch whose acknowledgement is missing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from coterie.broker import Scheduler, TimerHandle
from coterie.errors import CoterieError, MalformedFrame, code_of
from coterie.gateway.upstream.upstream import Fetched, Upstream
from coterie.types import LogOffset
from coterie.wire.error_codes import ErrorCode
from coterie.wire.record_batch import (
    BatchHeader,
    Marker,
    decode_marker,
    decode_records,
    whole_batches,
)

WAIT_MS: Final = 100
"""The time that a broker waits for a new batch. Fetches of all shards share requests,
so that of a shard may have to wait this long for that of another one."""
RETRY_S: Final = 0.1
_LOST: Final = frozenset({ErrorCode.OFFSET_OUT_OF_RANGE})
"""The errors of a partition that has lost batches, as by an unclean election."""

OnMarker = Callable[[BatchHeader, Marker, LogOffset], None]


class MarkerTail:
    """The reader of one partition's markers.

    `is_needed` returns whether a transaction is open, and `replay` is called with each
    marker: the header of its batch, its content and its offset. `failed` is called when
    the log cannot be read.
    """

    def __init__(
        self,
        upstream: Upstream,
        scheduler: Scheduler,
        partition: int,
        *,
        is_needed: Callable[[], bool],
        replay: OnMarker,
        failed: Callable[[CoterieError], None],
    ) -> None:
        self._upstream = upstream
        self._scheduler = scheduler
        self._partition = partition
        self._is_needed = is_needed
        self._replay = replay
        self._failed = failed
        self.is_unacknowledged: Callable[[BatchHeader], bool] = lambda _: False
        """A function that returns whether a batch was written here and is not
        acknowledged yet."""
        self._position: LogOffset = 0
        self._waiting: list[tuple[LogOffset, Callable[[], None]]] = []
        self._is_reading = False
        self._pause: TimerHandle | None = None
        """The time at which a reader that stopped or failed goes on."""
        self._is_closed = False

    def start(self, position: LogOffset) -> None:
        """Read from an offset on, as long as a transaction is open."""
        self._position = position
        self._read()

    def close(self) -> None:
        """Read no more, and call what waits: the shard is not served any more."""
        self._is_closed = True
        self._end_pause()
        waiting, self._waiting = self._waiting, []
        for _, call in waiting:
            call()

    def after(self, offset: LogOffset, call: Callable[[], None]) -> None:
        """Call `call` once every marker below an offset has been replayed: the one of a
        producer's previous transaction is below the batches of its next."""
        if self._is_closed:
            call()
            return
        if not self._is_reading and not self._is_needed():
            # No marker before this offset ends anything that is open here.
            self._position = max(self._position, offset)
        self._waiting.append((offset, call))
        self._call_waiting()
        self._end_pause()
        self._read()

    def _call_waiting(self) -> None:
        while self._waiting and self._waiting[0][0] <= self._position:
            _, call = self._waiting.pop(0)
            call()

    def _read(self) -> None:
        if self._is_reading or self._is_closed or self._pause is not None:
            return
        if not (self._waiting or self._is_needed()):
            return
        self._is_reading = True
        wait_ms = 0 if self._waiting else WAIT_MS
        self._upstream.fetch(
            self._partition, self._position, self._fetched, wait_ms=wait_ms
        )

    def _fetched(self, result: Fetched | CoterieError) -> None:
        if self._is_closed:
            return
        self._is_reading = False
        if isinstance(result, CoterieError):
            if code_of(result) in _LOST:
                self._failed(result)
            else:
                self._start_pause()
            return
        try:
            for header, batch in whole_batches(result.batches):
                if header.last_offset < self._position:
                    continue
                if self.is_unacknowledged(header):
                    self._start_pause()
                    return
                self._read_batch(header, batch)
                self._call_waiting()
                if self._is_closed:
                    return
        except MalformedFrame as error:
            self._failed(error)
            return
        self._read()

    def _start_pause(self) -> None:
        def go_on() -> None:
            self._pause = None
            self._read()

        self._pause = self._scheduler.call_later(RETRY_S, go_on)

    def _end_pause(self) -> None:
        if self._pause is not None:
            self._pause.cancel()
            self._pause = None

    def _read_batch(self, header: BatchHeader, batch: bytes) -> None:
        self._position = header.last_offset + 1
        if header.is_control:
            for record in decode_records(batch, header):
                if marker := decode_marker(record):
                    self._replay(header, marker, record.offset)
