"""Decides when snapshots are written, and writes them in slices.

A round writes what has changed in every shard. It begins when a restart would have many
records to replay: `RECORDS_MIN`, or more after a round that had much to write, so that
snapshots stay a small part of the work. Meanwhile the loop turns.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, Protocol

from coterie.errors import LogError
from coterie.runtime.shards import DrivenShard, Phase
from coterie.runtime.snapshots import Snapshots

_LOGGER = logging.getLogger(__name__)

RECORDS_MIN: Final = 20_000
SLICE_S: Final = 0.005
_CHECK_EVERY_WRITES: Final = 64
_BYTES_PER_RECORD: Final = 400
"""A round of so many bytes has to be earned by one record more to replay."""


class Loop(Protocol):
    """What the snapshotter needs of an event loop."""

    def call_later(
        self, delay: float, callback: Callable[..., object], *args: Any
    ) -> object:
        """Call back after `delay` seconds."""


class Waker(Protocol):
    """What the snapshotter needs of the flusher."""

    def wake(self) -> None:
        """Write what is staged."""


class Snapshotter:
    """Writes the snapshots of all shards."""

    def __init__(
        self,
        snapshots: Snapshots,
        flusher: Waker,
        shards: Sequence[DrivenShard],
        loop: Loop,
    ) -> None:
        self._snapshots = snapshots
        self._flusher = flusher
        self._shards = shards
        self._loop = loop
        self._writes = 0
        self._earned = RECORDS_MIN
        self._bytes = 0
        self._round: Iterator[int] | None = None

    def consider(self) -> None:
        """A write has become durable: begin a round, if one is due."""
        self._writes += 1
        if self._writes % _CHECK_EVERY_WRITES or self._round is not None:
            return
        records = sum(driven.records_since_snapshot for driven in self._shards)
        if records >= self._earned:
            self._round = self._steps()
            self._bytes = 0
            self._loop.call_later(0, self._slice)

    def write_all(self) -> None:
        """Write everything that has changed, now (staged)."""
        self._round = None
        for _ in self._steps():
            pass

    def _steps(self) -> Iterator[int]:
        for driven in self._shards:
            if driven.phase is Phase.ACTIVE and driven.shard.changed:
                yield from self._snapshots.write(driven)

    def _slice(self) -> None:
        ends = time.monotonic() + SLICE_S
        steps = self._round
        if steps is None:
            return
        try:
            for size_bytes in steps:
                self._bytes += size_bytes
                if time.monotonic() >= ends:
                    self._flusher.wake()
                    self._loop.call_later(SLICE_S, self._slice)
                    return
        except LogError as error:
            _LOGGER.error("a snapshot could not be written: %s", error)
        self._flusher.wake()
        self._round = None
        self._earned = max(RECORDS_MIN, self._bytes // _BYTES_PER_RECORD)
