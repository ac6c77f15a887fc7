"""The `range` assignor: each subscriber gets a run of consecutive partitions of each
topic.

Static members come first, by instance id, then the others by member id, so a static
member that restarts with a new member id keeps its place. Each topic is
divided on its own, so members with equal subscriptions get the same partitions of
topics of equal size (co-partitioning). As in Apache Kafka 4, the previous target is not
used: keeping a run in one topic would break the co-partitioning.
"""

from __future__ import annotations

from coterie.broker.coordinator.assignors.spec import Assignment, GroupSpec, MemberSpec
from coterie.types import MemberId, TopicId


def assign(spec: GroupSpec) -> Assignment:
    """Divide each topic among its subscribers.

    Raises:
        KeyError: A member is subscribed to a topic that does not exist.
    """
    subscribers: dict[TopicId, list[MemberId]] = {}
    for member in sorted(spec.members.values(), key=_place):
        for topic_id in member.subscribed_topic_ids:
            subscribers.setdefault(topic_id, []).append(member.member_id)
    assignment: dict[MemberId, dict[TopicId, range]] = {
        member_id: {} for member_id in spec.members
    }
    for topic_id in sorted(subscribers):
        owners = subscribers[topic_id]
        runs = _runs(spec.topics[topic_id].partition_count, len(owners))
        for member_id, run in zip(owners, runs, strict=False):
            assignment[member_id][topic_id] = run
    return assignment


def _place(member: MemberSpec) -> tuple[bool, str, str]:
    is_dynamic = member.instance_id is None
    return is_dynamic, member.instance_id or "", member.member_id


def _runs(partitions: int, members: int) -> list[range]:
    """Return the runs of P partitions for N members; the first P mod N get one more."""
    assert members > 0, "a topic that is divided has a subscriber"
    least, extra = divmod(partitions, members)
    runs = []
    start = 0
    for number in range(min(members, partitions)):
        end = start + least + (number < extra)
        runs.append(range(start, end))
        start = end
    assert start == partitions, "every partition has its owner"
    return runs
