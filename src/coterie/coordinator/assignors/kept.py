"""What members may keep of their targets, and which partitions nobody keeps."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TypeAlias

from coterie.coordinator.assignors.spec import GroupSpec, MemberSpec
from coterie.types import MemberId, TopicId

Partitions: TypeAlias = Mapping[TopicId, Collection[int]]
"""Partitions by topic; no topic without one."""


def kept_partitions(spec: GroupSpec) -> dict[MemberId, Partitions]:
    """What each member has of topics it wants, by member id, and the member's own
    mapping when that is all of it.

    Of a partition that two members have, which no target says, the second loses it.
    """
    kept = {
        member_id: _still_wanted(spec, member)
        for member_id, member in sorted(spec.members.items())
    }
    count = sum(len(some) for each in kept.values() for some in each.values())
    taken: dict[TopicId, set[int]] = {}
    for partitions in kept.values():
        for topic, some in partitions.items():
            taken.setdefault(topic, set()).update(some)
    if count == sum(map(len, taken.values())):
        return kept
    return _without_doubles(kept)


def free_partitions(
    spec: GroupSpec, topics: Iterable[TopicId], kept: Iterable[Partitions]
) -> dict[TopicId, Sequence[int]]:
    """The partitions of these topics that nobody has, in order."""
    taken: dict[TopicId, set[int]] = {}
    for partitions in kept:
        for topic, some in partitions.items():
            taken.setdefault(topic, set()).update(some)
    free: dict[TopicId, Sequence[int]] = {}
    for topic in topics:
        everything = range(spec.topics[topic].partition_count)
        of_topic = taken.get(topic)
        if of_topic is None:
            free[topic] = everything
        elif len(of_topic) < len(everything):
            free[topic] = sorted({*everything} - of_topic)
    return free


def _still_wanted(spec: GroupSpec, member: MemberSpec) -> Partitions:
    wanted = member.subscribed_topic_ids
    if all(
        topic in wanted and max(some) < spec.topics[topic].partition_count
        for topic, some in member.partitions.items()
    ):
        return member.partitions
    left = {
        topic: [p for p in some if p < spec.topics[topic].partition_count]
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
