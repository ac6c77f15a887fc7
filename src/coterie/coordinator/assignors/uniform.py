"""The `uniform` assignor: equal sizes first, then as few moves as can be (E11-41).

When all members want the same topics, sizes differ by one at most, and no partition
moves that could have stayed: those that already have more than the others are the ones
that get one more (E11-43 tells how Apache Kafka, which goes by order, may move more).
When members want different topics, `uniform_mixed` balances as far as that allows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

from coterie.coordinator.assignors import uniform_mixed
from coterie.coordinator.assignors.spec import Assignment, GroupSpec
from coterie.coordinator.assignors.survey import (
    Partitions,
    cut,
    joined,
    size_of,
    survey,
)
from coterie.types import MemberId, TopicId


def assign(spec: GroupSpec) -> Assignment:
    """Divide all partitions among the members that want them.

    The result depends on the members' ids and not on their order (E11-08).

    Raises:
        KeyError: A member is subscribed to a topic that is not there (E11-27).
    """
    members = spec.members.values()
    wanted = {member.subscribed_topic_ids for member in members}
    if len(wanted) > 1:
        return uniform_mixed.assign(spec)
    topics = sorted(next(iter(wanted), ()))
    if any(member.partitions for member in members):
        return _again(spec, topics)
    return _at_first(spec, topics)


def _at_first(spec: GroupSpec, topics: Sequence[TopicId]) -> Assignment:
    """Nobody has anything: everyone gets a run of the line of all partitions."""
    sizes = _sizes(_total(spec, topics), dict.fromkeys(sorted(spec.members), 0))
    line = ((topic, range(spec.topics[topic].partition_count)) for topic in topics)
    assignment = dict(zip(sizes, cut(line, sizes.values()), strict=True))
    assert next(line, None) is None, "every partition has its owner"
    return assignment


def _again(spec: GroupSpec, topics: Sequence[TopicId]) -> Assignment:
    """Members keep what they have up to their size; who has less gets the others."""
    kept, free = survey(spec, topics)
    counts = {member: size_of(partitions) for member, partitions in kept.items()}
    sizes = _sizes(_total(spec, topics), counts)
    freed: list[tuple[TopicId, Sequence[int]]] = [*free.items()]
    for member, size in sizes.items():
        if counts[member] > size:
            kept[member], over = _parted(kept[member], size)
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
    """How many partitions each member gets; one more for those that have more already,
    and then in their order."""
    least, extra = divmod(total, len(counts)) if counts else (0, 0)
    sizes = dict.fromkeys(counts, least)
    for member in islice(_richest_first(counts, least), extra):
        sizes[member] = least + 1
    return sizes


def _richest_first(counts: Mapping[MemberId, int], least: int) -> Iterator[MemberId]:
    yield from (member for member, count in counts.items() if count > least)
    yield from (member for member, count in counts.items() if count <= least)


def _parted(
    partitions: Partitions, count: int
) -> tuple[dict[TopicId, Sequence[int]], dict[TopicId, Sequence[int]]]:
    """The first `count` of them, by topic and number, and the others."""
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
