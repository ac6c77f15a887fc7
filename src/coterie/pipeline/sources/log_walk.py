"""Walks over the batches of a log partition, file by file: each offset once, in order.

A batch that ends before the position was read before, or is a second copy, and is left
out. The walk may begin at a place that an earlier one remembered; a place that is not
what it was any more costs a walk from the beginning of the file, and nothing else.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np

from coterie.pipeline.segments.varints import Flags, Ints
from coterie.pipeline.sources.log_files import LogFile, LogFiles, Vanished, begin_with
from coterie.pipeline.sources.scan import STRETCH_BYTES, Hole, Stretch, stretches
from coterie.pipeline.sources.source import Hint

LOOKS: Final = 5
"""How often files may vanish while nothing could be read."""
_FRONT: Final = struct.Struct(">q15xi")
"""The base offset and the last offset's distance from it."""


class Place(NamedTuple):
    """Where a batch is: the last one that was read."""

    file: str
    position: int
    base_offset: int


class HoleBefore(NamedTuple):
    """A hole, and before which new batch of a step it stands, by its number."""

    number: int
    file: str
    hole: Hole


@dataclass(slots=True)
class Step:
    """The new batches of a stretch."""

    file: LogFile
    stretch: Stretch
    new: Ints
    """Their indices."""
    position: int
    """The offset that was next before them; within the first, what of it is new."""
    holes: list[HoleBefore]
    begins_log: bool
    """The first of them is the first of the log."""

    def place(self, index: int) -> Place:
        """Where a batch of the stretch is."""
        found = self.stretch
        position = found.at + int(found.batches.position[index])
        return Place(self.file.name, position, int(found.bases[index]))


@dataclass
class Walk:
    """One walk over a log partition. `position` is the offset that is next."""

    files: LogFiles
    log_partition: int
    position: int = 0
    hint: Hint | None = None
    """A `Place` by the names of its fields: of the batch that ends at the position."""
    stretch_bytes: int = STRETCH_BYTES
    _is_on: bool = field(default=False, init=False)
    """Whether the batch that ends at the position was passed: holes from here on stand
    before a new batch."""
    _holes: list[tuple[str, Hole]] = field(default_factory=list, init=False)
    _is_first: bool = field(default=False, init=False)
    _passed: int = field(default=0, init=False)
    """Where batches ended that were seen."""

    def steps(self) -> Iterator[Step]:
        """The stretches that have new batches. Raises LogError."""
        looks, reached = 0, -1
        while True:
            try:
                yield from self._look()
            except Vanished:
                looks = 1 if self.position > reached else looks + 1
                reached = self.position
                if looks == LOOKS:
                    raise
            else:
                return

    def _look(self) -> Iterator[Step]:
        files = self.files.files(self.log_partition)
        first, at = self._begin(files)
        self._is_on, self._holes = self.position == 0, []
        self._is_first = first == 0 and at == 0
        for number, file in enumerate(files[first:], first + 1):
            with self.files.open(file) as opened:
                for stretch in stretches(
                    opened,
                    at,
                    first_offset=file.first_offset,
                    is_last=number == len(files),
                    stretch_bytes=self.stretch_bytes,
                ):
                    step = self._step(file, stretch)
                    if len(step.new):
                        yield step
            at = 0

    def _begin(self, files: list[LogFile]) -> tuple[int, int]:
        """The number of the file to begin with, and the byte."""
        if self.hint is not None:
            place = Place(**{name: self.hint[name] for name in Place._fields})
            for number, file in enumerate(files):
                if file.name == place.file and self._is_there(file, place):
                    return number, place.position
        return begin_with(files, self.position), 0

    def _is_there(self, file: LogFile, place: Place) -> bool:
        """Whether the batch still begins there, and ends before the position: then no
        later one can have moved before it, as compaction only takes away."""
        with self.files.open(file) as opened:
            start = opened.read_at(_FRONT.size, place.position)
        if len(start) < _FRONT.size:
            return False
        base, delta = _FRONT.unpack(start)
        return bool(base == place.base_offset and base + delta < self.position)

    def _step(self, file: LogFile, stretch: Stretch) -> Step:
        ends, position = stretch.ends, self.position
        reached = np.maximum.accumulate(np.concatenate(([position], ends)))
        is_new = ends > reached[:-1]
        holes = self._place_holes(file, stretch, is_new)
        new = np.flatnonzero(is_new)
        known = ends[: new[0]] if len(new) else ends
        self._passed = max(self._passed, int(known.max(initial=0)))
        if len(new):
            base = int(stretch.bases[new[0]])
            if base < position:  # a range begins within the batch, or it is a copy
                position = max(base, self._passed)
            self.position = self._passed = int(ends[new[-1]])
        begins_log = self._is_first and bool(len(new)) and new[0] == 0
        begins_log = begins_log and not any(each.number == 0 for each in holes)
        if len(ends):
            self._is_first = False
        return Step(file, stretch, new, position, holes, begins_log)

    def _place_holes(
        self, file: LogFile, stretch: Stretch, is_new: Flags
    ) -> list[HoleBefore]:
        """The holes before new batches; those behind the last are kept for later."""
        since = 0 if self._is_on else self._on_since(stretch.ends, is_new)
        pending = [] if since else [(0, *each) for each in self._holes]
        pending += [
            (each.before, file.name, each)
            for each in stretch.holes
            if each.before >= since
        ]
        before = np.concatenate(([0], np.cumsum(is_new)))
        placed = [HoleBefore(int(before[at]), name, hole) for at, name, hole in pending]
        count = int(before[-1])
        self._holes = [
            (each.file, each.hole) for each in placed if each.number >= count
        ]
        return [each for each in placed if each.number < count]

    def _on_since(self, ends: Ints, is_new: Flags) -> int:
        """Before which batches holes count: others stand before batches that were read
        by whoever read up to the position."""
        found = np.flatnonzero(is_new | (ends == self.position))
        if not len(found):
            return len(ends)
        self._is_on = True
        return int(found[0]) + (not is_new[found[0]])
