"""Decides when snapshots are written, and writes them in slices.

A round writes what has changed in every shard. It begins when a restart would have many
records to replay: `RECORDS_MIN`, or more after a round that had much to write, so that
snapshots stay a small part of the work. Meanwhile the loop turns, and each slice waits
until the one before it is durable.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, Protocol

from coterie.errors import LogError
from coterie.runtime.shards import Coordinator, DrivenShard, Phase
from coterie.runtime.snapshots import Snapshots
from coterie.types import GroupId

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


class Durability(Protocol):
    """What the snapshotter needs of the flusher."""

    def when_durable(self, done: Callable[[LogError | None], None]) -> None:
        """Call `done` once what is staged is durable, or with what went wrong."""


class Snapshotter:
    """Writes the snapshots of all shards."""

    def __init__(
        self,
        snapshots: Snapshots,
        flusher: Durability,
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
        self._taken: list[tuple[Coordinator, frozenset[GroupId]]] = []
        self._is_written = False

    def consider(self) -> None:
        """A write has become durable: begin a round, if one is due."""
        self._writes += 1
        if self._writes % _CHECK_EVERY_WRITES or self._round is not None:
            return
        records = sum(driven.records_since_snapshot for driven in self._shards)
        if records >= self._earned:
            self._round = self._steps()
            self._bytes = 0
            self._is_written = False
            self._loop.call_later(0, self._slice)

    def write_all(self) -> None:
        """Write everything that has changed, now (staged)."""
        self._give_back()
        for _ in self._steps():
            pass

    def _steps(self) -> Iterator[int]:
        for driven in self._shards:
            shard = driven.shard
            if driven.phase is Phase.ACTIVE and shard.changed:
                changed = frozenset(shard.changed)
                shard.changed.clear()
                driven.records_since_snapshot = 0
                self._taken.append((shard, changed))
                yield from self._snapshots.write(driven, changed)

    def _slice(self) -> None:
        steps = self._round
        if steps is None:
            return
        ends = time.monotonic() + SLICE_S
        try:
            for size_bytes in steps:
                self._bytes += size_bytes
                if time.monotonic() >= ends:
                    break
            else:
                self._is_written = True
        except LogError as error:
            self._written(error)
            return
        self._flusher.when_durable(self._written)

    def _written(self, error: LogError | None) -> None:
        """A slice is durable, and the next may come; or the round is as if it had never
        begun, and what it had taken has changed still."""
        if error is not None:
            _LOGGER.error("a snapshot could not be written: %s", error)
            self._give_back()
        elif self._is_written:
            self._earned = max(RECORDS_MIN, self._bytes // _BYTES_PER_RECORD)
            self._end()
        else:
            self._loop.call_later(SLICE_S, self._slice)

    def _give_back(self) -> None:
        for shard, changed in self._taken:
            shard.changed.update(changed)
        self._end()

    def _end(self) -> None:
        self._round = None
        self._taken = []
