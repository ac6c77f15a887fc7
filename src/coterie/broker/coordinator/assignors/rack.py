"""The `rack` assignor: rack-aware and sticky; not part of Apache Kafka.

Balance comes first: sizes are those of `uniform`. Then as many partitions as possible
are assigned to a member in one of their racks. Among the assignments with that many, it
chooses one with few moves (rarely one more than the minimum, in about one of a hundred
tiny groups). Without racks of members or partitions the result is that of `uniform`.

With equal subscriptions no assignment of these sizes has more partitions in their own
rack. With different subscriptions this is true only for the totals that `uniform` gives
to each rack, and only up to `COHORTS_MAX` combinations of rack and subscription; beyond
that members swap only with members of equal subscription.

The search moves counts of partitions. A cohort is the members of one rack with equal
subscriptions; a kind is the partitions whose topics the same cohorts subscribe to and
whose replicas are in the same racks. There are few of both. Partitions move round a
cycle of cohorts as long as a cycle with a gain is left; without one the circulation is
optimal (Klein's cycle cancelling). A cycle may also contain a swap of sizes: a member
of one cohort gets a partition less, and a member of another cohort one more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, NamedTuple, TypeAlias

from coterie.broker.coordinator.assignors import uniform
from coterie.broker.coordinator.assignors.spec import Assignment, GroupSpec, TopicSpec
from coterie.broker.coordinator.assignors.survey import size_of, survey
from coterie.types import MemberId, TopicId

_NO_GAIN: Final = -(10**9)
_UNBOUND: Final = 10**9


class Kind(NamedTuple):
    """A set of equivalent partitions: the numbers of the cohorts that subscribe to
    them, and of those in a rack of their replicas."""

    wanted_by: Collection[int]
    near: Collection[int]


class _Arc(NamedTuple):
    """The best move from one cohort to another. Kind -1 stands for a swap of sizes."""

    gain: int = _NO_GAIN
    kind: int = -1
    at_most: int = 0


@dataclass(slots=True)
class Flow:
    """The numbers of partitions by cohort and kind, which `run` improves in place.

    `had` holds the numbers of the previous assignment. When members have two sizes,
    `smaller` and `larger` count the members of each cohort by size; otherwise both are
    zero. `rich` counts the members of each cohort that had more than the smaller size
    before.
    """

    kinds: Sequence[Kind]
    has: list[list[int]]
    had: Sequence[Sequence[int]]
    smaller: list[int]
    larger: list[int]
    rich: Sequence[int]

    def run(self) -> None:
        """Move partitions round cycles until no cycle has a gain."""
        cohorts = range(len(self.has))
        arcs = [[self._best(one, other) for other in cohorts] for one in cohorts]
        while cycle := _cycle_that_gains(arcs):
            self._go_round(cycle, arcs)
            for one in cycle:
                for other in cohorts:
                    arcs[one][other] = self._best(one, other)
                    arcs[other][one] = self._best(other, one)

    def _best(self, one: int, other: int) -> _Arc:
        """Return the best move from one cohort to another."""
        if one == other:
            return _Arc()
        best = self._by_size(one, other)
        near_worth = 2 * len(self.has) + 2  # more than all moves of a cycle are worth
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
        """Return the swap of sizes of two cohorts.

        `one` gets one partition more than it had, and `other` one less, which keeps the
        balance if two of their members swap their sizes.
        """
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
        assert self.smaller[smaller] >= 0 <= self.larger[larger], (
            "more swaps than members"
        )


def _cycle_that_gains(arcs: Sequence[Sequence[_Arc]]) -> list[int]:
    """Return a cycle of cohorts with a gain in total (Bellman-Ford), or an empty
    list."""
    cohorts = range(len(arcs))
    best = [0] * len(arcs)
    before = [-1] * len(arcs)
    last = -1
    for _ in cohorts:
        last = -1
        for one in cohorts:
            for other, arc in enumerate(arcs[one]):
                if arc.gain != _NO_GAIN and best[one] + arc.gain > best[other]:
                    best[other] = best[one] + arc.gain
                    before[other] = one
                    last = other
        if last < 0:
            return []
    for _ in cohorts:  # walk back until inside the cycle
        last = before[last]
    cycle = [last]
    while before[cycle[-1]] != last:
        cycle.append(before[cycle[-1]])
    return cycle[::-1]


COHORTS_MAX: Final = 40

_Partition: TypeAlias = tuple[TopicId, int]
_ByKind: TypeAlias = dict[int, list[_Partition]]
_Owned: TypeAlias = dict[MemberId, dict[TopicId, list[int]]]


class _Cohort(NamedTuple):
    """The members of one rack with equal subscriptions."""

    rack: str | None
    wanted: frozenset[TopicId]
    members: list[MemberId]


def assign(spec: GroupSpec) -> Assignment:
    """Assign all partitions to members that subscribe to their topics.

    Raises:
        KeyError: A member is subscribed to a topic that does not exist.
    """
    even = uniform.assign(spec)
    cohorts = _cohorts(spec)
    if not _has_racks(spec.topics.values(), cohorts):
        return even
    topics = {topic for cohort in cohorts for topic in cohort.wanted}
    had = survey(spec, topics).kept
    swap_groups: Iterable[Sequence[_Cohort]] = [cohorts]
    if len(cohorts) > COHORTS_MAX:
        swap_groups = _by_subscription(cohorts)
    assignment = dict(even)
    for cohorts_of_group in swap_groups:
        if (
            any(cohort.rack is not None for cohort in cohorts_of_group)
            and len(cohorts_of_group) > 1
        ):
            assignment.update(_SwapGroup(spec, cohorts_of_group, even, had).arranged())
    return assignment


def _cohorts(spec: GroupSpec) -> list[_Cohort]:
    cohorts: dict[tuple[str | None, frozenset[TopicId]], _Cohort] = {}
    for member_id, member in sorted(spec.members.items()):
        rack, wanted = member.rack_id, member.subscribed_topic_ids
        cohort = cohorts.setdefault((rack, wanted), _Cohort(rack, wanted, []))
        cohort.members.append(member_id)
    return [*cohorts.values()]


def _has_racks(topics: Iterable[TopicSpec], cohorts: Iterable[_Cohort]) -> bool:
    return any(cohort.rack is not None for cohort in cohorts) and any(
        any(topic.racks) for topic in topics
    )


def _by_subscription(cohorts: Iterable[_Cohort]) -> Iterable[list[_Cohort]]:
    swap_groups: dict[frozenset[TopicId], list[_Cohort]] = {}
    for cohort in cohorts:
        swap_groups.setdefault(cohort.wanted, []).append(cohort)
    return swap_groups.values()


class _Kinds:
    """The kinds of partitions, numbered in order of appearance."""

    def __init__(self, spec: GroupSpec, cohorts: Sequence[_Cohort]) -> None:
        self.kinds: list[Kind] = []
        self._topics = spec.topics
        self._cohorts = cohorts
        self._numbers: dict[tuple[frozenset[int], frozenset[str]], int] = {}
        self._wanted_by: dict[TopicId, frozenset[int]] = {}

    def of(self, topic: TopicId, partitions: Iterable[int]) -> Iterable[int]:
        """Yield the number of the kind of each partition."""
        wanted_by = self._wanted_by.get(topic)
        if wanted_by is None:
            cohorts = enumerate(self._cohorts)
            wanted_by = frozenset(at for at, one in cohorts if topic in one.wanted)
            self._wanted_by[topic] = wanted_by
        racks = self._topics[topic].racks
        for partition in partitions:
            places = frozenset(racks[partition]) if racks else frozenset()
            number = self._numbers.get((wanted_by, places))
            yield self._new(wanted_by, places) if number is None else number

    def _new(self, wanted_by: frozenset[int], places: frozenset[str]) -> int:
        near = frozenset(at for at in wanted_by if self._cohorts[at].rack in places)
        self.kinds.append(Kind(wanted_by, near))
        return self._numbers.setdefault((wanted_by, places), len(self.kinds) - 1)


class _SwapGroup:
    """Cohorts that swap partitions; their total and their sizes stay those of
    `uniform`."""

    def __init__(
        self,
        spec: GroupSpec,
        cohorts: Sequence[_Cohort],
        even: Assignment,
        had: Assignment,
    ) -> None:
        self._cohorts = cohorts
        self._kinds = _Kinds(spec, cohorts)
        members = [member for cohort in cohorts for member in cohort.members]
        self._sizes = {member: size_of(even.get(member, {})) for member in members}
        self._has = {member: self._sorted(even.get(member, {})) for member in members}
        ours = {
            one for some in self._has.values() for each in some.values() for one in each
        }
        self._had = {
            member: {
                kind: kept
                for kind, some in self._sorted(had[member]).items()
                if (kept := [one for one in some if one in ours])
            }
            for member in members
        }

    def arranged(self) -> Assignment:
        """Return the assignment with most partitions in a rack of their member."""
        flow = self._flow()
        flow.run()
        self._resize(flow)
        owned: _Owned = {}
        missing: list[Counter[int]] = []
        for cohort, counts in zip(self._cohorts, flow.has, strict=True):
            left = Counter(dict(enumerate(counts)))
            for member, some in self._staying(cohort, left).items():
                _put(owned.setdefault(member, {}), some)
            missing.append(left)
        self._fill(owned, missing)
        return owned

    def _sorted(self, partitions: Mapping[TopicId, Collection[int]]) -> _ByKind:
        by_kind: _ByKind = {}
        for topic in sorted(partitions):
            some = sorted(partitions[topic])
            for partition, kind in zip(some, self._kinds.of(topic, some), strict=True):
                by_kind.setdefault(kind, []).append((topic, partition))
        return by_kind

    def _flow(self) -> Flow:
        kinds = self._kinds.kinds
        least, most = min(self._sizes.values()), max(self._sizes.values())
        smaller, larger = [0] * len(self._cohorts), [0] * len(self._cohorts)
        rich = [0] * len(self._cohorts)
        if most == least + 1:
            for at, cohort in enumerate(self._cohorts):
                larger[at] = sum(self._sizes[one] == most for one in cohort.members)
                smaller[at] = len(cohort.members) - larger[at]
                rich[at] = sum(_count(self._had[one]) > least for one in cohort.members)
        assert sum(larger) + sum(smaller) in {0, len(self._sizes)}
        return Flow(
            kinds=kinds,
            has=[
                self._counts(cohort, self._has, len(kinds)) for cohort in self._cohorts
            ],
            had=[
                self._counts(cohort, self._had, len(kinds)) for cohort in self._cohorts
            ],
            smaller=smaller,
            larger=larger,
            rich=rich,
        )

    def _counts(
        self, cohort: _Cohort, owned: Mapping[MemberId, _ByKind], kinds: int
    ) -> list[int]:
        counts = [0] * kinds
        for member in cohort.members:
            for kind, some in owned[member].items():
                counts[kind] += len(some)
        return counts

    def _resize(self, flow: Flow) -> None:
        """Give the larger size to those members of a cohort that can keep most."""
        if not any(flow.larger):
            return
        least = min(self._sizes.values())
        for at, cohort in enumerate(self._cohorts):
            both = zip(flow.has[at], flow.had[at], strict=True)
            stays = {kind for kind, (has, had) in enumerate(both) if had <= has}
            ranked = sorted(cohort.members, key=partial(self._rank, stays))
            for place, member in enumerate(ranked):
                self._sizes[member] = least + (place < flow.larger[at])

    def _rank(self, stays: Collection[int], member: MemberId) -> tuple[int, int]:
        had = self._had[member]
        staying = sum(len(some) for kind, some in had.items() if kind in stays)
        return -staying, -_count(had)

    def _staying(
        self, cohort: _Cohort, left: Counter[int]
    ) -> dict[MemberId, list[_Partition]]:
        """Return the previous partitions that members keep; subtract them from `left`.

        A member with too many partitions loses first those of which its cohort has too
        many.
        """
        had = {
            member: {kind: [*some] for kind, some in self._had[member].items()}
            for member in cohort.members
        }
        surplus = Counter[int]()
        for by_kind in had.values():
            surplus.update({kind: len(some) for kind, some in by_kind.items()})
        surplus.subtract(left)
        for member, by_kind in had.items():
            over = _count(by_kind) - self._sizes[member]
            for kind in sorted(by_kind, key=lambda one: (-surplus[one], one)):
                drop = min(max(over, 0), max(surplus[kind], 0), len(by_kind[kind]))
                over -= _drop(by_kind, kind, drop, surplus)
            for kind in sorted(by_kind):
                drop = min(max(over, 0), len(by_kind[kind]))
                over -= _drop(by_kind, kind, drop, surplus)
        for by_kind in had.values():
            for kind in sorted(by_kind):
                drop = min(max(surplus[kind], 0), len(by_kind[kind]))
                _drop(by_kind, kind, drop, surplus)
        for by_kind in had.values():
            left.subtract({kind: len(some) for kind, some in by_kind.items()})
        assert min(left.values(), default=0) >= 0, "no more stays than the cohort has"
        return {
            member: [one for some in by_kind.values() for one in some]
            for member, by_kind in had.items()
        }

    def _fill(self, owned: _Owned, missing: Sequence[Counter[int]]) -> None:
        """Assign the other partitions to their cohorts' members that are below their
        size."""
        stays = {
            (topic, partition)
            for partitions in owned.values()
            for topic, some in partitions.items()
            for partition in some
        }
        free: _ByKind = {}
        for by_kind in self._has.values():
            for kind, some in by_kind.items():
                free.setdefault(kind, []).extend(
                    one for one in some if one not in stays
                )
        for some in free.values():
            some.sort(reverse=True)
        for cohort, left in zip(self._cohorts, missing, strict=True):
            pile = [
                free[kind].pop() for kind in sorted(left) for _ in range(left[kind])
            ]
            at = 0
            for member in cohort.members:
                lacks = self._sizes[member] - size_of(owned[member])
                assert lacks >= 0, member
                _put(owned[member], pile[at : at + lacks])
                at += lacks
            assert at == len(pile), "a cohort's sizes are what it has"


def _count(by_kind: _ByKind) -> int:
    return sum(map(len, by_kind.values()))


def _drop(by_kind: _ByKind, kind: int, count: int, surplus: Counter[int]) -> int:
    assert 0 <= count <= len(by_kind[kind])
    if count:
        del by_kind[kind][-count:]
        surplus[kind] -= count
    return count


def _put(owned: dict[TopicId, list[int]], some: Iterable[_Partition]) -> None:
    for topic, partition in some:
        owned.setdefault(topic, []).append(partition)
