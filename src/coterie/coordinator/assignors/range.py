"""The `range` assignor: each subscriber gets a run of each topic (E11-20 to E11-27).

Static members come first, by instance id, then the others by member id: a static
member that restarts under a new member id keeps its place (E11-26). Every topic is
divided by itself, so members that subscribe to the same topics get the same numbers of
topics of the same size. As in Apache Kafka 4, nothing of the current target is
considered (E11-24): the result depends on the members' order alone. Sticky is that
order, for static members; a run that stayed where it was would not be the same run in
every topic, and topics would be co-partitioned no longer.
"""

from __future__ import annotations

from coterie.coordinator.assignors.spec import Assignment, GroupSpec, MemberSpec
from coterie.types import MemberId, TopicId


def assign(spec: GroupSpec) -> Assignment:
    """Divide every topic among its subscribers.

    Raises:
        KeyError: A member is subscribed to a topic that is not there (E11-27).
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
    """The first P mod N members get one more; those who would get none are left out."""
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
