"""`uniform` for members that want different topics (E11-44, E11-45).

Whoever had a partition keeps it; what is free goes to the smallest of those that want
it, beginning with the topics that have most partitions for each of theirs. Then
partitions move from large members to small ones, topic by topic, for at most
`ROUNDS_MAX` rounds. What is left uneven is so because of what members want, or because
it would take more rounds.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from typing import Final

from coterie.coordinator.assignors.kept import free_partitions, kept_partitions
from coterie.coordinator.assignors.spec import Assignment, GroupSpec
from coterie.types import MemberId, TopicId

ROUNDS_MAX: Final = 16

_Owned = dict[MemberId, dict[TopicId, list[int]]]


def assign(spec: GroupSpec) -> Assignment:
    """Divide all partitions among the members that want them.

    Raises:
        KeyError: A member is subscribed to a topic that is not there (E11-27).
    """
    subscribers = _subscribers(spec)
    topics = sorted(subscribers, key=lambda topic: _place(spec, subscribers, topic))
    kept = kept_partitions(spec)
    owned: _Owned = {
        member: {topic: sorted(some) for topic, some in partitions.items()}
        for member, partitions in kept.items()
    }
    sizes = {
        member: sum(map(len, partitions.values()))
        for member, partitions in owned.items()
    }
    for topic, free in free_partitions(spec, topics, kept.values()).items():
        _hand_out(topic, free, subscribers[topic], owned, sizes)
    for _ in range(ROUNDS_MAX):
        moves = [_even_out(topic, subscribers[topic], owned, sizes) for topic in topics]
        if not any(moves):
            break
    return {
        member: {topic: some for topic, some in partitions.items() if some}
        for member, partitions in owned.items()
    }


def _subscribers(spec: GroupSpec) -> dict[TopicId, list[MemberId]]:
    """The members that want each topic, by member id."""
    subscribers: dict[TopicId, list[MemberId]] = {}
    for member_id, member in sorted(spec.members.items()):
        for topic in member.subscribed_topic_ids:
            subscribers.setdefault(topic, []).append(member_id)
    return subscribers


def _place(
    spec: GroupSpec, subscribers: Mapping[TopicId, Sequence[MemberId]], topic: TopicId
) -> tuple[float, int, TopicId]:
    count = len(subscribers[topic])
    return -spec.topics[topic].partition_count / count, count, topic


def _hand_out(
    topic: TopicId,
    free: Sequence[int],
    members: Sequence[MemberId],
    owned: _Owned,
    sizes: dict[MemberId, int],
) -> None:
    """Each free partition to the smallest member; of those, to the first by id."""
    heap = [(sizes[member], member) for member in members]
    heapq.heapify(heap)
    for partition in free:
        size, member = heap[0]
        owned[member].setdefault(topic, []).append(partition)
        sizes[member] = size + 1
        heapq.heapreplace(heap, (size + 1, member))


def _even_out(
    topic: TopicId,
    members: Sequence[MemberId],
    owned: _Owned,
    sizes: dict[MemberId, int],
) -> int:
    """Move partitions of a topic from the largest members to the smallest, as long as
    that makes them more alike; how many moved."""
    smallest = min(sizes[member] for member in members)
    givers = [
        (-sizes[member], member)
        for member in members
        if sizes[member] > smallest + 1 and owned[member].get(topic)
    ]
    if not givers:
        return 0
    heapq.heapify(givers)
    takers = [(sizes[member], member) for member in members]
    heapq.heapify(takers)
    moves = 0
    while givers:
        size, giver = givers[0]
        while takers[0][0] != sizes[takers[0][1]]:
            heapq.heapreplace(takers, (sizes[takers[0][1]], takers[0][1]))
        taken, taker = takers[0]
        if -size - taken < 2:
            break
        owned[taker].setdefault(topic, []).append(owned[giver][topic].pop())
        sizes[giver] -= 1
        sizes[taker] += 1
        moves += 1
        if owned[giver][topic]:
            heapq.heapreplace(givers, (size + 1, giver))
        else:
            heapq.heappop(givers)
    return moves
