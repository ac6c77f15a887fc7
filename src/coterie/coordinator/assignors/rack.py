"""The `rack` assignor: rack-aware and sticky, which Apache Kafka has not (E11-47).

Balance comes first: sizes are those of `uniform`. Then as many partitions as possible
are served by a member in one of their racks; of those ways one that moves few: as few
as can be or nearly so (of tiny groups, one in a hundred moves one more). Where no racks
are known, of members or of partitions, the result is that of `uniform`.

With equal subscriptions no assignment with these sizes serves more partitions in their
own rack. With different ones that holds for the total that `uniform` gives each rack's
members, and only where there are at most `PARTIES_MAX` combinations of rack and
subscription; else members swap with those that want the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple, TypeAlias

from coterie.coordinator.assignors import uniform
from coterie.coordinator.assignors.rack_flow import Flow, Kind
from coterie.coordinator.assignors.spec import Assignment, GroupSpec, TopicSpec
from coterie.coordinator.assignors.survey import size_of, survey
from coterie.types import MemberId, TopicId

PARTIES_MAX: Final = 40

_Partition: TypeAlias = tuple[TopicId, int]
_ByKind: TypeAlias = dict[int, list[_Partition]]
_Owned: TypeAlias = dict[MemberId, dict[TopicId, list[int]]]


class _Party(NamedTuple):
    """Members of one rack that want the same topics."""

    rack: str | None
    wanted: frozenset[TopicId]
    members: list[MemberId]


def assign(spec: GroupSpec) -> Assignment:
    """Divide all partitions among the members that want them.

    Raises:
        KeyError: A member is subscribed to a topic that is not there (E11-27).
    """
    even = uniform.assign(spec)
    parties = _parties(spec)
    if not _knows_racks(spec.topics.values(), parties):
        return even
    topics = {topic for party in parties for topic in party.wanted}
    had = survey(spec, topics).kept
    rooms: Iterable[Sequence[_Party]] = [parties]
    if len(parties) > PARTIES_MAX:
        rooms = _by_subscription(parties)
    assignment = dict(even)
    for room in rooms:
        if any(party.rack is not None for party in room) and len(room) > 1:
            assignment.update(_Room(spec, room, even, had).arranged())
    return assignment


def _parties(spec: GroupSpec) -> list[_Party]:
    parties: dict[tuple[str | None, frozenset[TopicId]], _Party] = {}
    for member_id, member in sorted(spec.members.items()):
        rack, wanted = member.rack_id, member.subscribed_topic_ids
        party = parties.setdefault((rack, wanted), _Party(rack, wanted, []))
        party.members.append(member_id)
    return [*parties.values()]


def _knows_racks(topics: Iterable[TopicSpec], parties: Iterable[_Party]) -> bool:
    return any(party.rack is not None for party in parties) and any(
        any(topic.racks) for topic in topics
    )


def _by_subscription(parties: Iterable[_Party]) -> Iterable[list[_Party]]:
    rooms: dict[frozenset[TopicId], list[_Party]] = {}
    for party in parties:
        rooms.setdefault(party.wanted, []).append(party)
    return rooms.values()


class _Kinds:
    """Which kind a partition is of; numbers are given as kinds turn up."""

    def __init__(self, spec: GroupSpec, parties: Sequence[_Party]) -> None:
        self.kinds: list[Kind] = []
        self._topics = spec.topics
        self._parties = parties
        self._numbers: dict[tuple[frozenset[int], frozenset[str]], int] = {}
        self._wanted_by: dict[TopicId, frozenset[int]] = {}

    def of(self, topic: TopicId, partitions: Iterable[int]) -> Iterable[int]:
        """The kind of each of these partitions, by number."""
        wanted_by = self._wanted_by.get(topic)
        if wanted_by is None:
            parties = enumerate(self._parties)
            wanted_by = frozenset(at for at, one in parties if topic in one.wanted)
            self._wanted_by[topic] = wanted_by
        racks = self._topics[topic].racks
        for partition in partitions:
            places = frozenset(racks[partition]) if racks else frozenset()
            number = self._numbers.get((wanted_by, places))
            yield self._new(wanted_by, places) if number is None else number

    def _new(self, wanted_by: frozenset[int], places: frozenset[str]) -> int:
        near = frozenset(at for at in wanted_by if self._parties[at].rack in places)
        self.kinds.append(Kind(wanted_by, near))
        return self._numbers.setdefault((wanted_by, places), len(self.kinds) - 1)


class _Room:
    """Parties that swap partitions among themselves; what they have together, and how
    large their members are, stays what it is in the even assignment."""

    def __init__(
        self,
        spec: GroupSpec,
        parties: Sequence[_Party],
        even: Assignment,
        had: Assignment,
    ) -> None:
        self._parties = parties
        self._kinds = _Kinds(spec, parties)
        members = [member for party in parties for member in party.members]
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
        """Who has what when most are served in a rack of their own."""
        flow = self._flow()
        flow.run()
        self._resize(flow)
        owned: _Owned = {}
        missing: list[Counter[int]] = []
        for party, counts in zip(self._parties, flow.has, strict=True):
            left = Counter(dict(enumerate(counts)))
            for member, some in self._staying(party, left).items():
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
        smaller, larger = [0] * len(self._parties), [0] * len(self._parties)
        rich = [0] * len(self._parties)
        if most == least + 1:
            for at, party in enumerate(self._parties):
                larger[at] = sum(self._sizes[one] == most for one in party.members)
                smaller[at] = len(party.members) - larger[at]
                rich[at] = sum(_count(self._had[one]) > least for one in party.members)
        assert sum(larger) + sum(smaller) in {0, len(self._sizes)}
        return Flow(
            kinds=kinds,
            has=[self._counts(party, self._has, len(kinds)) for party in self._parties],
            had=[self._counts(party, self._had, len(kinds)) for party in self._parties],
            smaller=smaller,
            larger=larger,
            rich=rich,
        )

    def _counts(
        self, party: _Party, owned: Mapping[MemberId, _ByKind], kinds: int
    ) -> list[int]:
        counts = [0] * kinds
        for member in party.members:
            for kind, some in owned[member].items():
                counts[kind] += len(some)
        return counts

    def _resize(self, flow: Flow) -> None:
        """Who can keep most of what it had is one of its party's larger members."""
        if not any(flow.larger):
            return
        least = min(self._sizes.values())
        for at, party in enumerate(self._parties):
            both = zip(flow.has[at], flow.had[at], strict=True)
            stays = {kind for kind, (has, had) in enumerate(both) if had <= has}
            ranked = sorted(party.members, key=partial(self._rank, stays))
            for place, member in enumerate(ranked):
                self._sizes[member] = least + (place < flow.larger[at])

    def _rank(self, stays: Collection[int], member: MemberId) -> tuple[int, int]:
        had = self._had[member]
        staying = sum(len(some) for kind, some in had.items() if kind in stays)
        return -staying, -_count(had)

    def _staying(
        self, party: _Party, left: Counter[int]
    ) -> dict[MemberId, list[_Partition]]:
        """What members keep of what they had; takes it off what the party shall have.

        A member that has too much gives up first what its party has too much of.
        """
        had = {
            member: {kind: [*some] for kind, some in self._had[member].items()}
            for member in party.members
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
        assert min(left.values(), default=0) >= 0, "no more stays than the party has"
        return {
            member: [one for some in by_kind.values() for one in some]
            for member, by_kind in had.items()
        }

    def _fill(self, owned: _Owned, missing: Sequence[Counter[int]]) -> None:
        """Give what does not stay to the parties that shall have it, and there to
        members that have less than their size."""
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
        for party, left in zip(self._parties, missing, strict=True):
            pile = [
                free[kind].pop() for kind in sorted(left) for _ in range(left[kind])
            ]
            at = 0
            for member in party.members:
                lacks = self._sizes[member] - size_of(owned[member])
                assert lacks >= 0, member
                _put(owned[member], pile[at : at + lacks])
                at += lacks
            assert at == len(pile), "a party's sizes are what it has"


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
