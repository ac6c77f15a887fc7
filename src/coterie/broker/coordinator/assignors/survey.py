"""The partitions that members can keep of their previous targets, and the free ones."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from coterie.broker.coordinator.assignors.spec import GroupSpec, MemberSpec
from coterie.types import MemberId, TopicId

Partitions: TypeAlias = Mapping[TopicId, Collection[int]]
"""Partitions by topic; no topic is without a partition."""


class Survey(NamedTuple):
    """The previous partitions of each member that it still subscribes to, and the free
    ones.

    `kept` is sorted by member id.
    """

    kept: dict[MemberId, Partitions]
    free: dict[TopicId, Sequence[int]]


def survey(spec: GroupSpec, topics: Iterable[TopicId]) -> Survey:
    """Return the partitions that members keep, and the free partitions of these topics.

    A valid target assigns each partition once; if two members had the same partition,
    only the first keeps it.

    Raises:
        KeyError: A topic does not exist.
    """
    kept = {
        member_id: _still_wanted(spec, member) if member.partitions else {}
        for member_id, member in sorted(spec.members.items())
    }
    taken: dict[TopicId, set[int]] = {topic: set() for topic in topics}
    count = 0
    for partitions in kept.values():
        for topic, some in partitions.items():
            taken[topic].update(some)
            count += len(some)
    if count != sum(map(len, taken.values())):
        kept = _without_doubles(kept)
    return Survey(kept, {topic: _others(spec, topic, taken[topic]) for topic in taken})


def size_of(partitions: Partitions) -> int:
    """Return the number of partitions."""
    return sum(map(len, partitions.values()))


def joined(some: Partitions, more: Partitions) -> Partitions:
    """Return the union of two collections without a common partition."""
    if not some:
        return more
    both = dict(some)
    for topic, partitions in more.items():
        both[topic] = (*both.get(topic, ()), *partitions)
    return both


def cut(
    line: Iterable[tuple[TopicId, Sequence[int]]], sizes: Iterable[int]
) -> Iterator[Partitions]:
    """Cut a sequence of partitions into pieces of these sizes; ranges stay ranges.

    The sequence must be long enough; a topic may occur twice in it.
    """
    pieces = iter(line)
    topic: TopicId = b""
    piece: Sequence[int] = ()
    start = length = 0
    for size in sizes:
        end = start + size
        if end <= length:
            yield {topic: piece[start:end]} if size else {}
            start = end
            continue
        several: Partitions = {}
        missing = size
        while missing > length - start:
            if start < length:
                several = joined(several, {topic: piece[start:]})
            missing -= length - start
            topic, piece = next(pieces)
            start, length = 0, len(piece)
        several = joined(several, {topic: piece[:missing]})
        start = missing
        yield several


def _others(spec: GroupSpec, topic: TopicId, taken: set[int]) -> Sequence[int]:
    everything = range(spec.topics[topic].partition_count)
    if not taken:
        return everything
    if len(taken) == len(everything):
        return ()
    return sorted({*everything} - taken)


def _still_wanted(spec: GroupSpec, member: MemberSpec) -> Partitions:
    wanted, topics = member.subscribed_topic_ids, spec.topics
    for topic, some in member.partitions.items():
        if topic not in wanted or max(some) >= topics[topic].partition_count:
            break
    else:
        return member.partitions
    left = {
        topic: [p for p in some if p < topics[topic].partition_count]
        for topic, some in member.partitions.items()
        if topic in wanted
    }
    return {topic: some for topic, some in left.items() if some}


def _without_doubles(kept: Mapping[MemberId, Partitions]) -> dict[MemberId, Partitions]:
    seen: set[tuple[TopicId, int]] = set()
    once: dict[MemberId, Partitions] = {}
    for member_id, partitions in kept.items():
        left: dict[TopicId, list[int]] = {}
        for topic, some in partitions.items():
            for partition in some:
                if (topic, partition) not in seen:
                    seen.add((topic, partition))
                    left.setdefault(topic, []).append(partition)
        once[member_id] = left
    return once
