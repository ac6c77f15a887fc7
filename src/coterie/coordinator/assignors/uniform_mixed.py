"""`uniform` for members that want different topics (E11-44, E11-45).

Whoever had a partition keeps it; what is free goes to the smallest of those that want
it, beginning with the topics that have most partitions for each of theirs. Then
partitions move from large members to small ones, topic by topic, for at most
`ROUNDS_MAX` rounds. What is left uneven is so because of what members want, or because
it would take a chain of moves or more rounds.

Members that want the same topics are a party; a topic looks at parties and not at
members, as there are few of those even in large groups.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

from coterie.coordinator.assignors.spec import Assignment, GroupSpec
from coterie.coordinator.assignors.survey import size_of, survey
from coterie.types import MemberId, TopicId

ROUNDS_MAX: Final = 16

_Owned: TypeAlias = dict[MemberId, dict[TopicId, Collection[int]]]
_Party: TypeAlias = dict[int, list[MemberId]]
"""Members that want the same topics, by how many partitions they have."""


class _Topic(NamedTuple):
    topic_id: TopicId
    parties: Sequence[int]
    """Who wants it, by number."""


def assign(spec: GroupSpec) -> Assignment:
    """Divide all partitions among the members that want them.

    Raises:
        KeyError: A member is subscribed to a topic that is not there (E11-27).
    """
    members = _parties(spec)
    topics = _topics(spec, members)
    kept, free = survey(spec, (topic.topic_id for topic in topics))
    owned: _Owned = {member: {**kept[member]} for member in kept}
    parties = [_by_size(party, owned) for party in members.values()]
    for topic in topics:
        if free[topic.topic_id]:
            wanting = [parties[number] for number in topic.parties]
            _hand_out(topic.topic_id, free[topic.topic_id], wanting, owned)
    if any(_is_uneven(topic, parties) for topic in topics):
        _Balance(topics, parties, owned).run()
    return owned


def _parties(spec: GroupSpec) -> dict[frozenset[TopicId], list[MemberId]]:
    """The members by what they want, in the order of their first member's id."""
    parties: dict[frozenset[TopicId], list[MemberId]] = {}
    for member_id in sorted(spec.members):
        wanted = spec.members[member_id].subscribed_topic_ids
        parties.setdefault(wanted, []).append(member_id)
    return parties


def _topics(
    spec: GroupSpec, parties: Mapping[frozenset[TopicId], Sequence[MemberId]]
) -> list[_Topic]:
    """The topics in their order: most partitions for each subscriber first, then the
    fewest subscribers, then by id (E11-44)."""
    wanting: dict[TopicId, list[int]] = {}
    subscribers: dict[TopicId, int] = {}
    for number, (wanted, members) in enumerate(parties.items()):
        for topic_id in wanted:
            wanting.setdefault(topic_id, []).append(number)
            subscribers[topic_id] = subscribers.get(topic_id, 0) + len(members)

    def place(topic_id: TopicId) -> tuple[float, int, TopicId]:
        count = subscribers[topic_id]
        return -spec.topics[topic_id].partition_count / count, count, topic_id

    return [_Topic(topic, wanting[topic]) for topic in sorted(wanting, key=place)]


def _by_size(members: Iterable[MemberId], owned: _Owned) -> _Party:
    party: _Party = {}
    for member in members:
        party.setdefault(size_of(owned[member]), []).append(member)
    return party


def _hand_out(
    topic: TopicId, free: Sequence[int], parties: Sequence[_Party], owned: _Owned
) -> None:
    """Raise the smallest members together, until no partition is left."""
    assert parties, "somebody wants a topic, or it would not be here"
    at = 0
    while left := len(free) - at:
        lowest = min(map(min, parties))
        lower = [party for party in parties if lowest in party]
        count = sum(len(party[lowest]) for party in lower)
        each = _raise_by(lowest, parties, left // count)
        for party in lower:
            members = party.pop(lowest)
            if each == 0:  # too few for all of them
                lucky = members[: len(free) - at]
                if len(lucky) < len(members):
                    party[lowest] = members[len(lucky) :]
            else:
                lucky = members
            by = max(each, 1)
            for member in lucky:
                mine, piece = owned[member], free[at : at + by]
                mine[topic] = (*mine[topic], *piece) if topic in mine else piece
                at += by
            if lucky:
                party.setdefault(lowest + by, []).extend(lucky)


def _raise_by(lowest: int, parties: Iterable[_Party], most: int) -> int:
    """As far as the next size that a member has, and not further than `most`."""
    higher = (size - lowest for party in parties for size in party if size > lowest)
    return min(min(higher, default=most), most)


def _is_uneven(topic: _Topic, parties: Sequence[_Party]) -> bool:
    """Whether a partition of the topic could move to some use, by sizes alone."""
    smallest = min(min(parties[number]) for number in topic.parties)
    return any(max(parties[number]) > smallest + 1 for number in topic.parties)


class _Balance:
    """Moves partitions from large members to small ones.

    For each party there is a heap of its members, smallest first. An entry that does
    not say a member's size any more is passed over.
    """

    def __init__(
        self, topics: Sequence[_Topic], parties: Sequence[_Party], owned: _Owned
    ) -> None:
        self._topics = topics
        self._owned = owned
        self._party: dict[MemberId, int] = {}
        self._sizes: dict[MemberId, int] = {}
        self._heaps: list[list[tuple[int, MemberId]]] = []
        self._owners: dict[TopicId, dict[MemberId, None]] = {}
        for number, party in enumerate(parties):
            heap = [(size, member) for size, some in party.items() for member in some]
            heapq.heapify(heap)
            self._heaps.append(heap)
            self._party.update((member, number) for _, member in heap)
            self._sizes.update((member, size) for size, member in heap)
        for member, partitions in owned.items():
            for topic_id in partitions:
                self._owners.setdefault(topic_id, {})[member] = None

    def run(self) -> None:
        """Go over all topics until nothing moves, for at most `ROUNDS_MAX` rounds."""
        for _ in range(ROUNDS_MAX):
            if not sum(self._even_out(topic) for topic in self._topics):
                return

    def _even_out(self, topic: _Topic) -> int:
        """Move partitions of a topic as long as that makes sizes more alike; says how
        many moved."""
        tops = (self._top(number) for number in topic.parties)
        smallest = [(size, member) for size, member in tops]
        heapq.heapify(smallest)
        sizes = self._sizes
        givers = [
            (-sizes[member], member)
            for member in self._owners.get(topic.topic_id, ())
            if sizes[member] > smallest[0][0] + 1
        ]
        if not givers:
            return 0
        heapq.heapify(givers)
        stock = {
            member: sorted(self._owned[member][topic.topic_id]) for _, member in givers
        }
        gains: dict[MemberId, list[int]] = {}
        moves = 0
        while givers:
            size, giver = givers[0]
            if -size != sizes[giver]:  # it has been given some itself
                heapq.heapreplace(givers, (-sizes[giver], giver))
                continue
            taker = self._smallest(smallest)
            if -size - sizes[taker] < 2:
                break
            gains.setdefault(taker, []).append(stock[giver].pop())
            moves += 1
            self._resize(giver, -1, smallest)
            self._resize(taker, 1, smallest)
            if stock[giver]:
                heapq.heapreplace(givers, (size + 1, giver))
            else:
                heapq.heappop(givers)
        self._settle(topic.topic_id, stock, gains)
        return moves

    def _top(self, number: int) -> tuple[int, MemberId]:
        """The smallest member of a party."""
        heap = self._heaps[number]
        while heap[0][0] != self._sizes[heap[0][1]]:
            heapq.heappop(heap)
        return heap[0]

    def _smallest(self, heap: list[tuple[int, MemberId]]) -> MemberId:
        """The smallest member of all parties that want a topic; `heap` holds the
        smallest of each, and may hold entries of the past."""
        while heap[0][0] != self._sizes[heap[0][1]]:
            heapq.heappop(heap)
        return heap[0][1]

    def _resize(
        self, member: MemberId, by: int, heap: list[tuple[int, MemberId]]
    ) -> None:
        """Note a size, in its party and among the smallest of a topic's parties."""
        number = self._party[member]
        self._sizes[member] += by
        assert self._sizes[member] >= 0, member
        heapq.heappush(self._heaps[number], (self._sizes[member], member))
        heapq.heappush(heap, self._top(number))

    def _settle(
        self,
        topic: TopicId,
        stock: Mapping[MemberId, list[int]],
        gains: Mapping[MemberId, list[int]],
    ) -> None:
        """Write down who has what of a topic now."""
        owners = self._owners[topic]
        for member, left in stock.items():
            self._owned[member][topic] = left
        for member, gained in gains.items():
            self._owned[member][topic] = [*self._owned[member].get(topic, ()), *gained]
            owners[member] = None
        for member in stock:
            if not self._owned[member][topic]:
                del self._owned[member][topic], owners[member]
