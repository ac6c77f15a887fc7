"""Comparison of plan items with groups that may have changed since.

A planned partition may have its old offset or the planned one: so an interrupted plan
can be applied again, and a second application changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from coterie import client
from coterie.operations.current_groups import CurrentGroup
from coterie.operations.plan_files import (
    Action,
    ExpectedGroup,
    MemberEntry,
    PlanItem,
    entries_of,
)
from coterie.operations.topic_ids import TopicIds, recreated_topics
from coterie.types import TopicPartition


def expected_group(group: CurrentGroup) -> ExpectedGroup:
    """Return the current state of a group as a plan contains it."""
    offsets = entries_of(group.committed)
    described = group.description
    if described is None:
        return ExpectedGroup(exists=False, state=group.state.value, offsets=offsets)
    return ExpectedGroup(
        exists=True,
        state=described.state.value,
        type=described.type.value,
        group_epoch=described.group_epoch,
        assignment_epoch=described.assignment_epoch,
        generation_id=described.generation_id,
        members=tuple(sorted(member.member_id for member in described.members)),
        offsets=offsets,
    )


def changes_since(
    item: PlanItem, group: CurrentGroup, topic_ids: TopicIds
) -> tuple[str, ...]:
    """Return one sentence for each change of the group since the plan was made, and for
    each topic that was created again; `topic_ids` are the current ones."""
    of_topics = (
        *(
            f"topic {topic} was deleted and created again"
            for topic in recreated_topics(item.topic_ids, topic_ids)
        ),
        *(
            f"{at.topic}-{at.partition} cannot be read: {error}"
            for at, error in sorted(group.offsets.errors.items())
        ),
    )
    wanted, description = item.wanted, group.description
    # A simple group whose commits are all planned was created by this plan, when it was
    # applied before and interrupted.
    is_created_by_plan = (
        not item.seen.exists
        and description is not None
        and (description.is_simple or (group.is_share and not description.members))
        and bool(group.committed)
        and all(wanted.get(at) == offset for at, offset in group.committed.items())
    )
    if is_created_by_plan:
        return of_topics
    changes = (*_changes_of_group(item.seen, group), *of_topics)
    if item.action is Action.REMOVE_MEMBERS:  # members commit at any time
        return changes
    return (*changes, *_changes_of_offsets(item, group))


def _changes_of_group(expected: ExpectedGroup, group: CurrentGroup) -> Iterator[str]:
    actual = expected_group(group)
    if expected.exists != actual.exists:
        yield "the group is new" if actual.exists else "the group is gone"
    if not expected.exists or not actual.exists:
        return
    for name in ("state", "type", "group_epoch", "assignment_epoch", "generation_id"):
        before, after = getattr(expected, name), getattr(actual, name)
        # Apache Kafka returns no generation.
        is_known = after is not None or name != "generation_id"
        if before is not None and before != after and is_known:
            yield f"{name.replace('_', ' ')} was {before} and is {after}"
    joined = sorted(set(actual.members) - set(expected.members))
    if joined:
        yield f"joined: {', '.join(joined)}"


def _changes_of_offsets(item: PlanItem, group: CurrentGroup) -> Iterator[str]:
    expected = {entry.at: entry.committed for entry in item.seen.offsets}
    wanted = item.wanted
    compared = {*expected, *group.committed}
    if item.action is Action.DELETE_OFFSETS:  # members may commit for other topics
        compared &= wanted.keys()
    for partition in sorted(compared):
        before, after = expected.get(partition), group.committed.get(partition)
        is_as_planned = partition in wanted and after == wanted[partition]
        if partition in group.offsets.errors or after == before or is_as_planned:
            continue
        was, now = _offset_text(before), _offset_text(after)
        change = f"was at {was} and is at {now}"
        if was == now:
            change = "was committed again with other metadata"
        yield f"{partition.topic}-{partition.partition} {change}"


def _offset_text(committed: client.CommittedOffset | None) -> str:
    if committed is None:
        return "no commit"
    epoch = committed.leader_epoch
    return f"{committed.offset}" + ("" if epoch is None else f" (epoch {epoch})")


def is_done(item: PlanItem, group: CurrentGroup) -> bool:
    """Return whether the group is already in the planned state."""
    match item.action:
        case Action.DELETE_GROUP:
            return group.description is None and not group.committed
        case Action.REMOVE_MEMBERS:
            return not pending_members(item, group)
        case _:
            return not pending_offsets(item, group)


def pending_offsets(
    item: PlanItem, group: CurrentGroup
) -> Mapping[TopicPartition, client.CommittedOffset | None]:
    """Return the offsets that remain to be committed or, with None, deleted."""
    return {
        at: wanted
        for at, wanted in item.wanted.items()
        if at in group.offsets.errors or group.committed.get(at) != wanted
    }


def pending_members(item: PlanItem, group: CurrentGroup) -> tuple[MemberEntry, ...]:
    """Return the members that remain to be removed."""
    current = () if group.description is None else group.description.members
    return tuple(
        entry
        for entry in item.members
        if any(matches_member(entry, each) for each in current)
    )


def matches_member(entry: MemberEntry, member: client.MemberDescription) -> bool:
    """Return whether an entry identifies a member."""
    if entry.instance_id is not None:
        return entry.instance_id == member.instance_id
    return entry.member_id == member.member_id
