"""What an assignment is worth, in numbers that can be compared and published."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from coterie.coordinator.assignors.spec import Assignment, GroupSpec, MemberSpec
from coterie.coordinator.assignors.survey import size_of
from coterie.types import TopicId


class Quality(NamedTuple):
    """`spread` is the largest size less the smallest. `moved` counts partitions that
    their owner lost; `moves_needed` those that had to be lost at least: of topics that
    their owner no longer wants, and, when all want the same, for even sizes.
    `near_share` is the share of partitions with known racks that a member in one of
    those racks has; 1 when no racks are known.
    """

    spread: int
    moved: int
    moves_needed: int
    near_share: float


def quality(spec: GroupSpec, assignment: Assignment) -> Quality:
    """Measure an assignment; `spec` says what members had before.

    A partition that nobody had before does not move.
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
    """How many partitions their owners lose in any assignment as even as can be."""
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
    assert over >= 0 <= lost, "what is needed is a number of partitions"
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
            racks = _racks(spec, topic, some)
            known += sum(map(bool, racks))
            near += sum(rack in places for places in racks)
    assert near <= known, "who is near is in a known rack"
    return near / known if known else 1.0


def _racks(
    spec: GroupSpec, topic: TopicId, partitions: Collection[int]
) -> list[Collection[str]]:
    racks = spec.topics[topic].racks
    return [racks[partition] for partition in partitions] if racks else []
