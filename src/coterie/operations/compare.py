"""What changed of a group since a plan was made, and whether the plan is done. Pure.

A partition that the plan is about may stand where it stood or where the plan wants it:
so a plan that was broken off can be taken up again, and one that is applied twice does
nothing the second time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from coterie.client.admin.group_values import GroupDescription, MemberDescription
from coterie.client.admin.offset_values import CommittedOffset
from coterie.operations.plan import (
    Action,
    MemberEntry,
    PlanItem,
    SeenGroup,
    entries_of,
)
from coterie.operations.seen import GroupSeen
from coterie.types import TopicPartition


def seen_group(now: GroupSeen) -> SeenGroup:
    """A group as a plan tells of it."""
    offsets = entries_of(now.committed)
    described = now.description
    if described is None:
        return SeenGroup(exists=False, state=now.state.value, offsets=offsets)
    return SeenGroup(
        exists=True,
        state=described.state.value,
        type=described.type.value,
        group_epoch=described.group_epoch,
        assignment_epoch=described.assignment_epoch,
        generation_id=described.generation_id,
        members=_member_ids(described),
        offsets=offsets,
    )


def changes_since(item: PlanItem, now: GroupSeen) -> tuple[str, ...]:
    """What is no longer as the plan saw it, a sentence each; nothing: go on."""
    if not item.seen.exists and now.description is not None and _is_ours(item, now):
        return tuple(_open_transactions(now))
    told = [*_changes_of_group(item.seen, now), *_open_transactions(now)]
    if item.action is not Action.REMOVE_MEMBERS:  # a live group commits all the time
        told += _changes_of_offsets(item, now)
    return tuple(told)


def is_done(item: PlanItem, now: GroupSeen) -> bool:
    """Whether the group is as the plan wants it already."""
    match item.action:
        case Action.DELETE_GROUP:
            return now.description is None and not now.committed
        case Action.REMOVE_MEMBERS:
            return not members_left(item, now)
        case _:
            return not offsets_left(item, now)


def offsets_left(
    item: PlanItem, now: GroupSeen
) -> Mapping[TopicPartition, CommittedOffset | None]:
    """What is still to be committed, or deleted (None)."""
    return {
        at: wanted
        for at, wanted in item.wanted.items()
        if at in now.offsets.errors or now.committed.get(at) != wanted
    }


def members_left(item: PlanItem, now: GroupSeen) -> tuple[MemberEntry, ...]:
    """Who is still to be removed."""
    there = () if now.description is None else now.description.members
    return tuple(
        entry for entry in item.members if any(member_is(entry, each) for each in there)
    )


def member_is(entry: MemberEntry, member: MemberDescription) -> bool:
    """Whether an entry means that member."""
    if entry.instance_id is not None:
        return entry.instance_id == member.instance_id
    return entry.member_id == member.member_id


def _is_ours(item: PlanItem, now: GroupSeen) -> bool:
    """Whether a group that was not there is one that this plan began to make: commits
    without membership, none of them but what is wanted."""
    wanted = item.wanted
    assert now.description is not None
    return (
        now.description.is_simple
        and bool(now.committed)
        and all(wanted.get(at) == offset for at, offset in now.committed.items())
    )


def _member_ids(described: GroupDescription) -> tuple[str, ...]:
    return tuple(sorted(member.member_id for member in described.members))


def _changes_of_group(seen: SeenGroup, now: GroupSeen) -> Iterator[str]:
    there = seen_group(now)
    if seen.exists != there.exists:
        yield "the group is new" if there.exists else "the group is gone"
        return
    for name in ("state", "type", "group_epoch", "assignment_epoch", "generation_id"):
        before, after = getattr(seen, name), getattr(there, name)
        is_told = after is not None or name != "generation_id"  # Apache keeps quiet
        if before is not None and before != after and is_told:
            yield f"{name.replace('_', ' ')} was {before} and is {after}"
    joined = sorted(set(there.members) - set(seen.members))
    if joined:
        yield f"joined: {', '.join(joined)}"


def _changes_of_offsets(item: PlanItem, now: GroupSeen) -> Iterator[str]:
    before = {entry.at: entry.committed for entry in item.seen.offsets}
    wanted = item.wanted
    compared = {*before, *now.committed}
    if item.action is Action.DELETE_OFFSETS:  # members may go on with other topics
        compared &= wanted.keys()
    for at in sorted(compared):
        seen, is_now = before.get(at), now.committed.get(at)
        allowed = (seen, wanted.get(at, seen))
        if at not in now.offsets.errors and is_now not in allowed:
            yield f"{at.topic}-{at.partition} {_change(seen, is_now)}"


def _change(before: CommittedOffset | None, after: CommittedOffset | None) -> str:
    was, now = _offset(before), _offset(after)
    if was == now:
        return "was committed again with other metadata"
    return f"was at {was} and is at {now}"


def _open_transactions(now: GroupSeen) -> Iterator[str]:
    for at, error in sorted(now.offsets.errors.items()):
        yield f"{at.topic}-{at.partition} cannot be read: {error}"


def _offset(committed: CommittedOffset | None) -> str:
    if committed is None:
        return "no commit"
    epoch = (
        "" if committed.leader_epoch is None else f" (epoch {committed.leader_epoch})"
    )
    return f"{committed.offset}{epoch}"
