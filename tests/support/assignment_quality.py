"""Measure an assignment: balance, partitions moved, and rack locality."""

from __future__ import annotations

from typing import NamedTuple

from coterie.broker.coordinator.assignors.spec import Assignment, GroupSpec, MemberSpec
from coterie.broker.coordinator.assignors.survey import size_of
from coterie.types import TopicId


class Quality(NamedTuple):
    """The measured properties of an assignment.

    `spread` is the difference between the largest and the smallest number of partitions
    of a member. `moved` is the number of partitions revoked from their previous owner.
    `moves_needed` is the smallest number of moves in any assignment of equal balance:
    partitions of topics to which the owner no longer subscribes and, with equal
    subscriptions, partitions above the member's share. `near_share` is the share of
    partitions with known racks that are assigned to a member in one of those racks; 1
    when no racks are known.
    """

    spread: int
    moved: int
    moves_needed: int
    near_share: float


def quality(spec: GroupSpec, assignment: Assignment) -> Quality:
    """Measure an assignment; `spec` holds the previous target of each member.

    A partition without a previous owner does not count as moved.
    """
    members = spec.members.values()
    sizes = [size_of(assignment.get(member.member_id, {})) for member in members]
    moved = sum(
        len({*some}.difference(assignment.get(member.member_id, {}).get(topic, ())))
        for member in members
        for topic, some in member.partitions.items()
    )
    return Quality(
        spread=max(sizes, default=0) - min(sizes, default=0),
        moved=moved,
        moves_needed=moves_needed(spec),
        near_share=_near_share(spec, assignment),
    )


def moves_needed(spec: GroupSpec) -> int:
    """Return the smallest number of partitions that a balanced assignment moves."""
    members = spec.members.values()
    had = [size_of(member.partitions) for member in members]
    kept = [len(_still_wanted(spec, member)) for member in members]
    lost = sum(had) - sum(kept)
    wanted = {member.subscribed_topic_ids for member in members}
    if len(wanted) != 1:
        return lost
    total = sum(spec.topics[topic].partition_count for topic in wanted.pop())
    least, extra = divmod(total, len(kept))
    over = sum(max(0, count - least) for count in kept)
    assert over >= 0 <= lost, "a number of moves is not negative"
    return lost + over - min(extra, sum(count > least for count in kept))


def _still_wanted(spec: GroupSpec, member: MemberSpec) -> list[tuple[TopicId, int]]:
    return [
        (topic, partition)
        for topic, some in member.partitions.items()
        if topic in member.subscribed_topic_ids
        for partition in some
        if partition < spec.topics[topic].partition_count
    ]


def _near_share(spec: GroupSpec, assignment: Assignment) -> float:
    near = known = 0
    for member_id, partitions in assignment.items():
        rack = spec.members[member_id].rack_id
        for topic, some in partitions.items():
            racks = spec.topics[topic].racks
            of_partitions = [racks[partition] for partition in some] if racks else []
            known += sum(map(bool, of_partitions))
            near += sum(rack in places for places in of_partitions)
    assert near <= known, "a partition without known racks counts as near"
    return near / known if known else 1.0
