"""How many partitions of which kind each party of members shall have, so that most are
served in a rack of their own and, of those ways, one that moves few.

A party is members of one rack that want the same; a kind is partitions that the same
parties want and whose replicas are in the same racks. There are few of both, and only
numbers to move: round a cycle of parties, of each to the next a partition, as long as a
cycle is left that gains something. When none is, nothing better exists: that is the
theorem on circulations. A cycle may also be closed by a size: what one party's member
has more than a member of another, the other gets instead.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

_NO_GAIN: Final = -(10**9)
_UNBOUND: Final = 10**9


class Kind(NamedTuple):
    """Partitions that are the same to us: who wants them, and whose rack they are in,
    both as numbers of parties."""

    wanted_by: Collection[int]
    near: Collection[int]


class _Arc(NamedTuple):
    """The best thing to move from one party to another; without a kind, a size."""

    gain: int = _NO_GAIN
    kind: int = -1
    at_most: int = 0


@dataclass(slots=True)
class Flow:
    """Numbers of partitions by party and kind, which `run` makes better in place.

    `had` are those that members of a party had before. When members are of two sizes
    only, `smaller` and `larger` count those of each party; else they are all zero.
    `rich` counts those that had more than the smaller size before.
    """

    kinds: Sequence[Kind]
    has: list[list[int]]
    had: Sequence[Sequence[int]]
    smaller: list[int]
    larger: list[int]
    rich: Sequence[int]

    def run(self) -> None:
        """Go round cycles until none gains anything."""
        parties = range(len(self.has))
        arcs = [[self._best(one, other) for other in parties] for one in parties]
        while cycle := _cycle_that_gains(arcs):
            self._go_round(cycle, arcs)
            for one in cycle:
                for other in parties:
                    arcs[one][other] = self._best(one, other)
                    arcs[other][one] = self._best(other, one)

    def _best(self, one: int, other: int) -> _Arc:
        """The partition that one party would best give to another."""
        if one == other:
            return _Arc()
        best = self._by_size(one, other)
        near_worth = 2 * len(self.has) + 2  # more than all that a cycle can move
        has, had = self.has, self.had
        for kind, count in enumerate(has[one]):
            if not count or other not in self.kinds[kind].wanted_by:
                continue
            near = self.kinds[kind].near
            over = count - had[one][kind]
            room = had[other][kind] - has[other][kind]
            gain = near_worth * ((other in near) - (one in near))
            gain += (room > 0) - (over <= 0)
            if gain > best.gain or (gain == best.gain and best.kind < 0):
                most = min(over if over > 0 else count, room if room > 0 else _UNBOUND)
                best = _Arc(gain, kind, most)
        return best

    def _by_size(self, one: int, other: int) -> _Arc:
        """No partition, but a size: `one` has got one more than it had, and `other` one
        less, which is as even as before if members of theirs swap their sizes."""
        most = min(self.smaller[one], self.larger[other])
        if not most:
            return _Arc()
        over = self.larger[other] - self.rich[other]
        room = self.rich[one] - self.larger[one]
        most = min(most, over if over > 0 else most, room if room > 0 else most)
        return _Arc((room > 0) - (over <= 0), -1, most)

    def _go_round(self, cycle: Sequence[int], arcs: Sequence[Sequence[_Arc]]) -> None:
        steps = list(zip(cycle, [*cycle[1:], cycle[0]], strict=True))
        count = min(arcs[one][other].at_most for one, other in steps)
        assert count > 0, "a cycle that gains has something to move"
        for one, other in steps:
            kind = arcs[one][other].kind
            if kind < 0:
                self._swap_sizes(one, other, count)
            else:
                self.has[one][kind] -= count
                self.has[other][kind] += count
                assert self.has[one][kind] >= 0, kind

    def _swap_sizes(self, smaller: int, larger: int, count: int) -> None:
        self.smaller[smaller] -= count
        self.larger[smaller] += count
        self.smaller[larger] += count
        self.larger[larger] -= count
        assert self.smaller[smaller] >= 0 <= self.larger[larger], "it has members so"


def _cycle_that_gains(arcs: Sequence[Sequence[_Arc]]) -> list[int]:
    """A cycle of parties with a gain over all (Bellman and Ford); empty if none has."""
    parties = range(len(arcs))
    best = [0] * len(arcs)
    before = [-1] * len(arcs)
    last = -1
    for _ in parties:
        last = -1
        for one in parties:
            for other, arc in enumerate(arcs[one]):
                if arc.gain != _NO_GAIN and best[one] + arc.gain > best[other]:
                    best[other] = best[one] + arc.gain
                    before[other] = one
                    last = other
        if last < 0:
            return []
    for _ in parties:  # back into the cycle, wherever it was found
        last = before[last]
    cycle = [last]
    while before[cycle[-1]] != last:
        cycle.append(before[cycle[-1]])
    return cycle[::-1]
