"""Track the head of a log partition in the driver: the stable offset, and the offsets
at which ranges may end. The state stays in memory between calls, so each header is read
once.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from coterie.pipeline.segments.batches import Ints
from coterie.pipeline.segments.transactions import StableOffset
from coterie.pipeline.sources.row_builder import BatchRun
from coterie.pipeline.sources.source import BatchPlace, Cuts, Head

_CUTS_PER_CHUNK: Final = 4_096
"""Of a chunk with more batches about this many cuts are kept, to bound the memory."""


class _Cuts(NamedTuple):
    """The last batch before each cut, with one array for each field; records and bytes
    are those since the cut before."""

    bases: Ints
    ends: Ints
    """The offset after each batch."""
    records: Ints
    size_bytes: Ints
    file: str
    """The segment file."""
    positions: Ints

    def place(self, index: int) -> BatchPlace:
        """Return the place of a batch."""
        position, base = self.positions[index], self.bases[index]
        return BatchPlace(self.file, int(position), int(base))


class HeadTracker:
    """The head of one log partition. See the module's docstring."""

    def __init__(self, begin: int) -> None:
        self.begin = begin
        """The offset from which cuts are known."""
        self.position = begin
        """The offset up to which the log is scanned."""
        self._stable = StableOffset()
        self._before: BatchPlace | None = None
        """The last batch before the first cut."""
        self._cuts: list[_Cuts] = []
        """Chunk by chunk."""

    def add(self, run: BatchRun) -> None:
        """Add the next batches."""
        self._stable.add(run.transactional(), run.bases, run.ends, self.position)
        self.position = int(run.ends[-1])
        records, sizes = run.headers.column("record_count"), run.headers.size_bytes
        # Every n-th batch, counted from the last one, which is always included.
        every = -(-len(run.ends) // _CUTS_PER_CHUNK)
        kept = np.arange(len(run.ends) - 1, -1, -every)[::-1]
        self._cuts.append(
            _Cuts(
                bases=run.bases[kept],
                ends=run.ends[kept],
                records=np.diff(np.cumsum(records)[kept], prepend=0),
                size_bytes=np.diff(np.cumsum(sizes)[kept], prepend=0),
                file=run.source,
                positions=run.places[kept],
            )
        )

    def forget(self, begin: int) -> None:
        """Drop the cuts up to `begin`, the position of the reader."""
        while self._cuts and self._cuts[0].ends[-1] <= begin:
            dropped = self._cuts.pop(0)
            self._before = dropped.place(-1)
            self.begin = int(dropped.ends[-1])

    @property
    def last_batch(self) -> BatchPlace | None:
        """The place of the last batch, from which the next scan continues."""
        return self._cuts[-1].place(-1) if self._cuts else self._before

    def head(self, start_offset: int) -> Head:
        """Return the head; the end offset is the end of the scan."""
        stable = self._stable.get(self.position)
        return Head(start_offset, stable, self.position, self._cuts_until(stable))

    def _cuts_until(self, stable: int) -> Cuts:
        """Return the cuts up to the stable offset."""
        # A copy, because batches may be added while ranges are planned.
        before, chunks = self._before, tuple(self._cuts)
        none = np.zeros(0, np.int64)
        ends = np.concatenate([none, *(each.ends for each in chunks)])
        records = np.concatenate([none, *(each.records for each in chunks)])
        sizes = np.concatenate([none, *(each.size_bytes for each in chunks)])
        upto = np.cumsum(sizes)
        count = min(int(np.searchsorted(ends, stable)) + 1, len(ends))
        firsts = np.cumsum([0, *(len(each.ends) for each in chunks)])

        def place_before(index: int) -> BatchPlace | None:
            if index == 0:
                return before
            chunk = int(np.searchsorted(firsts, index - 1, side="right")) - 1
            return chunks[chunk].place(index - 1 - int(firsts[chunk]))

        offsets = np.minimum(ends[:count], stable)
        return Cuts(offsets, np.cumsum(records[:count]), upto[:count], place_before)
