"""The `uniform` assignor for members with different subscriptions.

Members keep their partitions. Free partitions are assigned to the smallest subscribed
members, starting with the topics that have most partitions per subscriber. Then
partitions move from large members to small ones, topic by topic, for at most
`ROUNDS_MAX` rounds. A remaining imbalance is due to the subscriptions, or would take a
chain of moves or more rounds.

A cohort is the members with equal subscriptions. A topic is compared with cohorts, not
members, as there are few of them even in large groups.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

from coterie.broker.coordinator.assignors.spec import Assignment, GroupSpec
from coterie.broker.coordinator.assignors.survey import size_of, survey
from coterie.types import MemberId, TopicId

ROUNDS_MAX: Final = 16

_Owned: TypeAlias = dict[MemberId, dict[TopicId, Collection[int]]]
_Cohort: TypeAlias = dict[int, list[MemberId]]
"""The members of a cohort by their number of partitions."""


class _Topic(NamedTuple):
    topic_id: TopicId
    cohorts: Sequence[int]
    """The numbers of the cohorts that subscribe to it."""


def assign(spec: GroupSpec) -> Assignment:
    """Assign all partitions to members that subscribe to their topics.

    Raises:
        KeyError: A member is subscribed to a topic that does not exist.
    """
    members = _cohorts(spec)
    topics = _topics(spec, members)
    kept, free = survey(spec, (topic.topic_id for topic in topics))
    owned: _Owned = {member: {**kept[member]} for member in kept}
    cohorts = [_by_size(cohort, owned) for cohort in members.values()]
    for topic in topics:
        if free[topic.topic_id]:
            wanting = [cohorts[number] for number in topic.cohorts]
            _hand_out(topic.topic_id, free[topic.topic_id], wanting, owned)
    if any(_is_uneven(topic, cohorts) for topic in topics):
        _Balance(topics, cohorts, owned).run()
    return owned


def _cohorts(spec: GroupSpec) -> dict[frozenset[TopicId], list[MemberId]]:
    """Return the members by subscription, in the order of their first member's id."""
    cohorts: dict[frozenset[TopicId], list[MemberId]] = {}
    for member_id in sorted(spec.members):
        wanted = spec.members[member_id].subscribed_topic_ids
        cohorts.setdefault(wanted, []).append(member_id)
    return cohorts


def _topics(
    spec: GroupSpec, cohorts: Mapping[frozenset[TopicId], Sequence[MemberId]]
) -> list[_Topic]:
    """Return the topics in the order in which they are assigned.

    Most partitions per subscriber first, then the fewest subscribers, then by id.
    """
    wanting: dict[TopicId, list[int]] = {}
    subscribers: dict[TopicId, int] = {}
    for number, (wanted, members) in enumerate(cohorts.items()):
        for topic_id in wanted:
            wanting.setdefault(topic_id, []).append(number)
            subscribers[topic_id] = subscribers.get(topic_id, 0) + len(members)

    def place(topic_id: TopicId) -> tuple[float, int, TopicId]:
        count = subscribers[topic_id]
        return -spec.topics[topic_id].partition_count / count, count, topic_id

    return [_Topic(topic, wanting[topic]) for topic in sorted(wanting, key=place)]


def _by_size(members: Iterable[MemberId], owned: _Owned) -> _Cohort:
    cohort: _Cohort = {}
    for member in members:
        cohort.setdefault(size_of(owned[member]), []).append(member)
    return cohort


def _hand_out(
    topic: TopicId, free: Sequence[int], cohorts: Sequence[_Cohort], owned: _Owned
) -> None:
    """Add partitions to the smallest members evenly, until no partition is left."""
    assert cohorts, "a topic without subscribers"
    at = 0
    while left := len(free) - at:
        lowest = min(map(min, cohorts))
        lower = [cohort for cohort in cohorts if lowest in cohort]
        count = sum(len(cohort[lowest]) for cohort in lower)
        each = _raise_by(lowest, cohorts, left // count)
        for cohort in lower:
            members = cohort.pop(lowest)
            if each == 0:  # fewer partitions than members
                chosen = members[: len(free) - at]
                if len(chosen) < len(members):
                    cohort[lowest] = members[len(chosen) :]
            else:
                chosen = members
            by = max(each, 1)
            for member in chosen:
                mine, piece = owned[member], free[at : at + by]
                mine[topic] = (*mine[topic], *piece) if topic in mine else piece
                at += by
            if chosen:
                cohort.setdefault(lowest + by, []).extend(chosen)


def _raise_by(lowest: int, cohorts: Iterable[_Cohort], most: int) -> int:
    """Return the distance to the next larger size, at most `most`."""
    higher = (size - lowest for cohort in cohorts for size in cohort if size > lowest)
    return min(min(higher, default=most), most)


def _is_uneven(topic: _Topic, cohorts: Sequence[_Cohort]) -> bool:
    """Return whether a move of the topic's partitions could improve the balance."""
    smallest = min(min(cohorts[number]) for number in topic.cohorts)
    return any(max(cohorts[number]) > smallest + 1 for number in topic.cohorts)


class _Balance:
    """The balancing of an assignment: partitions move from large members to small ones.

    Each cohort has a heap of its members, smallest first. An entry with an outdated
    size is skipped.
    """

    def __init__(
        self, topics: Sequence[_Topic], cohorts: Sequence[_Cohort], owned: _Owned
    ) -> None:
        self._topics = topics
        self._owned = owned
        self._cohort: dict[MemberId, int] = {}
        self._sizes: dict[MemberId, int] = {}
        self._heaps: list[list[tuple[int, MemberId]]] = []
        self._owners: dict[TopicId, dict[MemberId, None]] = {}
        for number, cohort in enumerate(cohorts):
            heap = [(size, member) for size, some in cohort.items() for member in some]
            heapq.heapify(heap)
            self._heaps.append(heap)
            self._cohort.update((member, number) for _, member in heap)
            self._sizes.update((member, size) for size, member in heap)
        for member, partitions in owned.items():
            for topic_id in partitions:
                self._owners.setdefault(topic_id, {})[member] = None

    def run(self) -> None:
        """Iterate over the topics until nothing moves, for at most `ROUNDS_MAX`
        rounds."""
        for _ in range(ROUNDS_MAX):
            if not sum(self._even_out(topic) for topic in self._topics):
                return

    def _even_out(self, topic: _Topic) -> int:
        """Move partitions of a topic while that improves the balance; return the number
        of moves."""
        tops = (self._top(number) for number in topic.cohorts)
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
            if -size != sizes[giver]:  # an outdated entry
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
        heap = self._heaps[number]
        while heap[0][0] != self._sizes[heap[0][1]]:
            heapq.heappop(heap)
        return heap[0]

    def _smallest(self, heap: list[tuple[int, MemberId]]) -> MemberId:
        """Return the smallest member of the cohorts that subscribe to a topic.

        `heap` holds the smallest member of each, and maybe outdated entries.
        """
        while heap[0][0] != self._sizes[heap[0][1]]:
            heapq.heappop(heap)
        return heap[0][1]

    def _resize(
        self, member: MemberId, by: int, heap: list[tuple[int, MemberId]]
    ) -> None:
        """Record a new size in the heap of the cohort and in the topic's heap."""
        number = self._cohort[member]
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
        """Store the moved partitions of the topic in the assignment."""
        owners = self._owners[topic]
        for member, left in stock.items():
            self._owned[member][topic] = left
        for member, gained in gains.items():
            self._owned[member][topic] = [*self._owned[member].get(topic, ()), *gained]
            owners[member] = None
        for member in stock:
            if not self._owned[member][topic]:
                del self._owned[member][topic], owners[member]
