"""The `uniform` assignor: equal sizes first, then as few moves as can be (E11-41).

When all members want the same topics, sizes differ by one at most, and no partition
moves that could have stayed: those that already have more than the others are the ones
that get one more (E11-43 tells how Apache Kafka, which goes by order, may move more).
When members want different topics, `uniform_mixed` balances as far as that allows.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import islice

from coterie.coordinator.assignors import uniform_mixed
from coterie.coordinator.assignors.kept import free_partitions, kept_partitions
from coterie.coordinator.assignors.spec import Assignment, GroupSpec
from coterie.types import MemberId, TopicId


def assign(spec: GroupSpec) -> Assignment:
    """Divide all partitions among the members that want them.

    The result depends on the members' ids and not on their order (E11-08).

    Raises:
        KeyError: A member is subscribed to a topic that is not there (E11-27).
    """
    wanted = {member.subscribed_topic_ids for member in spec.members.values()}
    if len(wanted) > 1:
        return uniform_mixed.assign(spec)
    topics = sorted(next(iter(wanted), ()))
    kept = kept_partitions(spec)
    sizes = _sizes(spec, topics, {member: _size(kept[member]) for member in kept})
    free = [
        (topic, partition)
        for topic, partitions in _free(spec, topics, kept, sizes).items()
        for partition in partitions
    ]
    return _filled(kept, sizes, free)


def _size(partitions: Mapping[TopicId, Collection[int]]) -> int:
    return sum(map(len, partitions.values()))


def _sizes(
    spec: GroupSpec, topics: Sequence[TopicId], kept: Mapping[MemberId, int]
) -> dict[MemberId, int]:
    """How many partitions each member gets; one more for those that have more already,
    and then by member id."""
    total = sum(spec.topics[topic].partition_count for topic in topics)
    members = sorted(kept)
    least, extra = divmod(total, len(members)) if members else (0, 0)
    sizes = dict.fromkeys(members, least)
    rich = [member for member in members if kept[member] > least]
    poor = (member for member in members if kept[member] <= least)
    for member in islice((*rich, *poor), extra):
        sizes[member] += 1
    return sizes


def _free(
    spec: GroupSpec,
    topics: Sequence[TopicId],
    kept: dict[MemberId, Mapping[TopicId, Collection[int]]],
    sizes: Mapping[MemberId, int],
) -> Mapping[TopicId, Sequence[int]]:
    """Take from members what is over their size, and say what nobody has."""
    for member, size in sizes.items():
        if _size(kept[member]) > size:
            kept[member] = _first(kept[member], size)
    return free_partitions(spec, topics, kept.values())


def _first(
    partitions: Mapping[TopicId, Collection[int]], count: int
) -> dict[TopicId, Sequence[int]]:
    """The first `count` of them, by topic and number."""
    first: dict[TopicId, Sequence[int]] = {}
    for topic in sorted(partitions):
        some = sorted(partitions[topic])[:count]
        if some:
            first[topic] = some
        count -= len(some)
    return first


def _filled(
    kept: Mapping[MemberId, Mapping[TopicId, Collection[int]]],
    sizes: Mapping[MemberId, int],
    free: Sequence[tuple[TopicId, int]],
) -> dict[MemberId, Mapping[TopicId, Collection[int]]]:
    """Fill every member up to its size."""
    filled: dict[MemberId, Mapping[TopicId, Collection[int]]] = {}
    at = 0
    for member, size in sizes.items():
        missing = size - _size(kept[member])
        if not missing:
            filled[member] = kept[member]
            continue
        more: dict[TopicId, list[int]] = {
            topic: [*partitions] for topic, partitions in kept[member].items()
        }
        for topic, partition in free[at : at + missing]:
            more.setdefault(topic, []).append(partition)
        at += missing
        filled[member] = more
    assert at == len(free), "every partition has its owner"
    return filled
