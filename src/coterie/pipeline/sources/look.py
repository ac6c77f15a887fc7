"""How far a driver has looked at a log partition: what is decided, and where ranges may
end. It is kept from one look to the next, so that each header is seen once."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np

from coterie.pipeline.segments.transactions import Transactions
from coterie.pipeline.segments.varints import Ints
from coterie.pipeline.sources.log_walk import Place, Step
from coterie.pipeline.sources.outcomes import Followed, follow_one
from coterie.pipeline.sources.source import Cuts, Head, Hint
from coterie.wire.record_batch import TRANSACTIONAL

_CUTS_A_STEP: Final = 4_096
"""A step of more batches is cut into about so many parts: cuts of a whole log are kept
in memory."""


def transactional(step: Step) -> list[Followed]:
    """The transactional batches of a step that can be read."""
    found = step.stretch
    new = step.new[found.batches.has(TRANSACTIONAL)[step.new]]
    followed = [follow_one(found.batch(i)) for i in new.tolist()]
    return [each for each in followed if each is not None]


class StepCuts(NamedTuple):
    """Where ranges may end, in one step."""

    file: str
    ends: Ints
    """The offset after a cut's last batch."""
    records: Ints
    """Since the cut before; bytes likewise."""
    size_bytes: Ints
    positions: Ints
    """Where the last batch is, and its first offset."""
    bases: Ints

    @classmethod
    def of(cls, step: Step) -> StepCuts:
        """Some cuts of a step; its end is one."""
        found, new = step.stretch, step.new
        every = -(-len(new) // _CUTS_A_STEP)
        kept = np.arange(len(new) - 1, -1, -every)[::-1]
        last = new[kept]
        records = np.cumsum(found.batches.column("record_count")[new])[kept]
        size_bytes = np.cumsum(found.batches.size_bytes[new])[kept]
        return cls(
            step.file.name,
            found.ends[last],
            np.diff(records, prepend=0),
            np.diff(size_bytes, prepend=0),
            found.at + found.batches.position[last],
            found.bases[last],
        )

    def place(self, index: int) -> Place:
        """Where the last batch before a cut is."""
        return Place(self.file, int(self.positions[index]), int(self.bases[index]))


@dataclass
class Look:
    """See the module's docstring."""

    begin: int
    """From here on cuts are known."""
    position: int
    """Up to here it was walked over."""
    transactions: Transactions = field(default_factory=Transactions)
    before: Place | None = None
    """Where the last batch before the cuts is."""
    cuts: list[StepCuts] = field(default_factory=list)
    _decided: dict[int, int] = field(default_factory=dict)
    """Of each open transaction by its first offset: where the batch before it ends."""

    def add(self, step: Step) -> None:
        """Walk on."""
        followed = transactional(step)
        if followed:
            self.transactions, _ = self.transactions.follow(followed)
            self._keep_decided(step)
        self.position = int(step.stretch.ends[step.new[-1]])
        self.cuts.append(StepCuts.of(step))

    def _keep_decided(self, step: Step) -> None:
        bases, ends = step.stretch.bases[step.new], step.stretch.ends[step.new]
        decided = {}
        for first in self.transactions.open.values():
            index = int(np.searchsorted(bases, first))
            before = int(ends[index - 1]) if index else self.position
            decided[first] = self._decided.get(first, before)
        self._decided = decided

    def forget(self, begin: int) -> None:
        """Drop cuts that nobody asks for any more: all is read up to `begin`."""
        while self.cuts and self.cuts[0].ends[-1] <= begin:
            gone = self.cuts.pop(0)
            self.before = gone.place(-1)
            self.begin = int(gone.ends[-1])

    def hint(self) -> Hint | None:
        """Where to walk on."""
        place = self.cuts[-1].place(-1) if self.cuts else self.before
        return None if place is None else place._asdict()

    def head(self, start_offset: int) -> Head:
        """What it says of the log partition."""
        stable = min(self._decided.values(), default=self.position)
        return Head(start_offset, stable, self.position, self._cuts(stable))

    def _cuts(self, stable: int) -> Cuts:
        """The cuts up to the stable offset, which is the last of them."""
        ends, records, size_bytes = (
            np.concatenate([np.zeros(0, np.int64), *(each[i] for each in self.cuts)])
            for i in (1, 2, 3)
        )
        count = int(np.searchsorted(ends, stable))
        end = min(count + 1, len(ends))
        offsets = np.minimum(ends[:end], stable)
        places = _Places(self.before, self.cuts, np.cumsum(size_bytes))
        return Cuts(offsets, np.cumsum(records[:end]), places.sizes[:end], places.hint)


class _Places:
    """Where the batches between cuts are."""

    def __init__(self, before: Place | None, cuts: list[StepCuts], sizes: Ints) -> None:
        self._before, self._cuts = before, tuple(cuts)
        self._firsts = np.cumsum([0, *(len(each.ends) for each in cuts)])
        self.sizes = sizes
        """Bytes up to each cut."""

    def hint(self, first: int, after: int) -> Hint | None:
        """Where to begin to read from one cut to before another: with the last batch
        before."""
        place = self._place(first)
        if place is None:
            return None
        size = int(self.sizes[after - 1]) - (int(self.sizes[first - 1]) if first else 0)
        return {**place._asdict(), "size_bytes": size}

    def _place(self, first: int) -> Place | None:
        if first == 0:
            return self._before
        step = int(np.searchsorted(self._firsts, first - 1, side="right")) - 1
        return self._cuts[step].place(first - 1 - int(self._firsts[step]))
