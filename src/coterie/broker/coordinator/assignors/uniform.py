"""The `uniform` assignor: equal sizes first, then as few moves as possible.

With equal subscriptions sizes differ by one at most, and a partition moves only when no
assignment of these sizes could keep it: the members that had more than others get the
one extra partition.
With different subscriptions `uniform_mixed` balances as far as they allow.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain, islice

from coterie.broker.coordinator.assignors import uniform_mixed
from coterie.broker.coordinator.assignors.spec import Assignment, GroupSpec
from coterie.broker.coordinator.assignors.survey import (
    Partitions,
    cut,
    joined,
    size_of,
    survey,
)
from coterie.types import MemberId, TopicId


def assign(spec: GroupSpec) -> Assignment:
    """Assign all partitions to members that subscribe to their topics.

    The result depends on the members' ids, not on their order.

    Raises:
        KeyError: A member is subscribed to a topic that does not exist.
    """
    members = spec.members.values()
    wanted = {member.subscribed_topic_ids for member in members}
    if len(wanted) > 1:
        return uniform_mixed.assign(spec)
    topics = sorted(next(iter(wanted), ()))
    if any(member.partitions for member in members):
        return _assign_with_previous(spec, topics)
    return _assign_without_previous(spec, topics)


def _assign_without_previous(spec: GroupSpec, topics: Sequence[TopicId]) -> Assignment:
    """Assign without previous targets: each member gets a run of the sorted
    partitions."""
    sizes = _sizes(_total(spec, topics), dict.fromkeys(sorted(spec.members), 0))
    line = ((topic, range(spec.topics[topic].partition_count)) for topic in topics)
    assignment = dict(zip(sizes, cut(line, sizes.values()), strict=True))
    assert next(line, None) is None, "every partition has its owner"
    return assignment


def _assign_with_previous(spec: GroupSpec, topics: Sequence[TopicId]) -> Assignment:
    """Assign with previous targets: members keep their partitions up to their size."""
    kept, free = survey(spec, topics)
    counts = {member: size_of(partitions) for member, partitions in kept.items()}
    sizes = _sizes(_total(spec, topics), counts)
    freed: list[tuple[TopicId, Sequence[int]]] = [*free.items()]
    for member, size in sizes.items():
        if counts[member] > size:
            kept[member], over = _split(kept[member], size)
            freed.extend(over.items())
    assert sum(sizes.values()) == _total(spec, topics) or not sizes
    missing = {
        member: size - counts[member]
        for member, size in sizes.items()
        if size > counts[member]
    }
    more = cut(freed, missing.values())
    for member, partitions in zip(missing, more, strict=True):
        kept[member] = joined(kept[member], partitions)
    return kept


def _total(spec: GroupSpec, topics: Sequence[TopicId]) -> int:
    return sum(spec.topics[topic].partition_count for topic in topics)


def _sizes(total: int, counts: Mapping[MemberId, int]) -> dict[MemberId, int]:
    """Return the number of partitions of each member.

    Members that have more than the smaller size get the extra partitions first, then
    the others in their order.
    """
    least, extra = divmod(total, len(counts)) if counts else (0, 0)
    sizes = dict.fromkeys(counts, least)
    richest_first = chain(
        (member for member, count in counts.items() if count > least),
        (member for member, count in counts.items() if count <= least),
    )
    for member in islice(richest_first, extra):
        sizes[member] = least + 1
    return sizes


def _split(
    partitions: Partitions, count: int
) -> tuple[dict[TopicId, Sequence[int]], dict[TopicId, Sequence[int]]]:
    """Return the first `count` partitions by topic and number, and the others."""
    assert 0 <= count < size_of(partitions), "some are over"
    first: dict[TopicId, Sequence[int]] = {}
    others: dict[TopicId, Sequence[int]] = {}
    for topic in sorted(partitions):
        some = sorted(partitions[topic])
        if count:
            first[topic] = some[:count]
        if some[count:]:
            others[topic] = some[count:]
        count -= min(count, len(some))
    return first, others
