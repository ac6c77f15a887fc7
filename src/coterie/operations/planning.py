"""Makes plan items: reads groups, and says what would be done to each and why not.

Nothing is written here. What a plan cannot do for one group or partition is told of
it, and the rest is planned.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from coterie.client.admin.offset_values import CommittedOffset
from coterie.client.admin.remove_members import MemberToRemove
from coterie.client.admin.results import Results
from coterie.errors import ApiError, CoterieError, OperationRefused
from coterie.operations.admin import GroupReader
from coterie.operations.compare import member_is, seen_group
from coterie.operations.plan import (
    Action,
    MemberEntry,
    PlanItem,
    entries_of,
    item_id_of,
)
from coterie.operations.reset import Note, ResetRow, Scenario, ToCommits, drop_metadata
from coterie.operations.resetting import GroupReset, plan_resets
from coterie.operations.scope import ALL_COMMITTED, Scope, is_in_scope
from coterie.operations.seen import GroupSeen, see_groups
from coterie.types import GroupId, TopicPartition
from coterie.wire.error_codes import ErrorCode


@dataclass(frozen=True, slots=True)
class Planned:
    """What is planned for one group."""

    group_id: GroupId
    item: PlanItem | None = None
    """None when there is nothing to do, and with an error."""
    rows: tuple[ResetRow, ...] = ()
    """For those who review it; a row's own error leaves the others in the item."""
    error: CoterieError | None = None
    """Why nothing can be done to the group."""


def items_of(planned: Sequence[Planned]) -> tuple[PlanItem, ...]:
    """The items that there are."""
    return tuple(each.item for each in planned if each.item is not None)


async def plan_offsets(
    admin: GroupReader,
    action: Action,
    scenarios: Mapping[GroupId, Scenario],
    scope: Scope = ALL_COMMITTED,
    *,
    keeps_metadata: bool = True,
) -> tuple[Planned, ...]:
    """Commit what scenarios come to, for groups without members."""
    resets = await plan_resets(admin, scenarios, scope)
    return tuple(_planned_offsets(action, each, keeps_metadata) for each in resets)


def _planned_offsets(
    action: Action, reset: GroupReset, keeps_metadata: bool
) -> Planned:
    rows = reset.rows if keeps_metadata else drop_metadata(reset.rows)
    if reset.seen is not None and reset.seen.state.is_active:
        return Planned(reset.group_id, error=_still_active(reset.seen))
    if reset.error is not None or reset.seen is None:
        return Planned(reset.group_id, error=reset.error)
    if not rows and reset.seen.description is None:
        missing = "there is no such group; choose partitions, and it is made"
        error = ApiError(ErrorCode.GROUP_ID_NOT_FOUND, missing)
        return Planned(reset.group_id, error=error)
    item = _item(action, reset.seen, {row.at: row.new for row in rows if row.is_write})
    return Planned(reset.group_id, item if item.offsets else None, rows)


async def plan_clone(
    admin: GroupReader,
    source: GroupId,
    destination: GroupId,
    topics: Collection[str] = (),
) -> Planned:
    """Commit for one group what another has committed, metadata and epochs included;
    of some topics only, if any are named."""
    try:
        seen = (await see_groups(admin, [source])).one(source)
        commits = _to_clone(seen, topics)
    except CoterieError as error:
        return Planned(destination, error=error)
    scenario = ToCommits(commits)
    (planned,) = await plan_offsets(admin, Action.CLONE, {destination: scenario})
    if planned.item is None:
        return planned
    return replace(planned, item=replace(planned.item, source=source))


def _to_clone(
    seen: GroupSeen, topics: Collection[str]
) -> Mapping[TopicPartition, CommittedOffset]:
    for error in seen.offsets.errors.values():
        raise error
    commits = {
        at: committed
        for at, committed in seen.committed.items()
        if not topics or at.topic in topics
    }
    if not commits:
        raise OperationRefused(f"group {seen.group_id} has no offsets to clone")
    return commits


async def plan_delete_groups(
    admin: GroupReader, group_ids: Iterable[GroupId]
) -> tuple[Planned, ...]:
    """Forget groups without members, and all their offsets."""
    ids = tuple(dict.fromkeys(group_ids))
    groups = await see_groups(admin, ids)
    return tuple(_planned_delete(each, groups) for each in ids)


def _planned_delete(group_id: GroupId, groups: Results[GroupId, GroupSeen]) -> Planned:
    try:
        seen = _existing(group_id, groups)
        if seen.state.is_active:
            raise _still_active(seen)
        for error in seen.offsets.errors.values():
            raise error
    except CoterieError as error:
        return Planned(group_id, error=error)
    rows = _deleted_rows(seen, seen.committed) or (ResetRow(group_id, "", -1),)
    return Planned(group_id, _item(Action.DELETE_GROUP, seen, {}), rows)


def _still_active(seen: GroupSeen) -> ApiError:
    return ApiError(
        ErrorCode.NON_EMPTY_GROUP,
        f"the group has members, its state is {seen.state.value}: stop them, or"
        " remove them with `coterie groups remove-members`",
    )


async def plan_delete_offsets(
    admin: GroupReader, group_ids: Iterable[GroupId], scope: Scope
) -> tuple[Planned, ...]:
    """Forget some of the groups' offsets; those of topics that no member reads."""
    ids = tuple(dict.fromkeys(group_ids))
    named = {
        TopicPartition(each.topic, partition)
        for each in scope or ()
        for partition in each.partitions or ()
    }
    groups = await see_groups(admin, ids, dict.fromkeys(ids, named))
    return tuple(_planned_delete_offsets(each, groups, scope, named) for each in ids)


def _planned_delete_offsets(
    group_id: GroupId,
    groups: Results[GroupId, GroupSeen],
    scope: Scope,
    named: Collection[TopicPartition],
) -> Planned:
    try:
        seen = _existing(group_id, groups)
    except CoterieError as error:
        return Planned(group_id, error=error)
    known = (*seen.committed, *seen.offsets.errors)
    meant = {at for at in known if is_in_scope(at, scope)}
    deleted = [at for at in sorted(meant) if at in seen.committed]
    rows = _deleted_rows(seen, deleted) + tuple(
        ResetRow(group_id, at.topic, at.partition, error=seen.offsets.errors[at])
        for at in sorted(meant)
        if at in seen.offsets.errors
    )
    rows += tuple(
        ResetRow(group_id, *at, notes=(Note.NO_COMMIT,))
        for at in sorted(set(named) - meant)
    )
    if not deleted:
        return Planned(group_id, rows=rows)
    item = _item(Action.DELETE_OFFSETS, seen, dict.fromkeys(deleted))
    return Planned(group_id, item, rows)


async def plan_remove_members(
    admin: GroupReader,
    group_id: GroupId,
    members: Collection[MemberToRemove] | None,
) -> Planned:
    """Make members leave; None: all that are there now. Static members go by their
    instance ids, so that they may not come back under another member id meanwhile."""
    groups = await see_groups(admin, [group_id])
    try:
        seen = _existing(group_id, groups)
        entries = _to_remove(seen, members)
    except CoterieError as error:
        return Planned(group_id, error=error)
    item = _item(Action.REMOVE_MEMBERS, seen, {}, entries)
    return Planned(group_id, item if entries else None)


def _to_remove(
    seen: GroupSeen, members: Collection[MemberToRemove] | None
) -> tuple[MemberEntry, ...]:
    there = () if seen.description is None else seen.description.members
    if members is None:
        return tuple(
            MemberEntry(each.member_id)
            if each.instance_id is None
            else MemberEntry(instance_id=each.instance_id)
            for each in there
        )
    entries = tuple(MemberEntry(each.member_id, each.instance_id) for each in members)
    for entry in entries:
        if not any(member_is(entry, each) for each in there):
            name = entry.instance_id or entry.member_id
            raise ApiError(
                ErrorCode.UNKNOWN_MEMBER_ID,
                f"there is no member {name!r}: `coterie groups members"
                f" {seen.group_id}` shows those that there are",
            )
    return entries


def _existing(group_id: GroupId, groups: Results[GroupId, GroupSeen]) -> GroupSeen:
    seen = groups.one(group_id)
    if seen.description is None and not seen.committed:
        raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, "there is no such group")
    return seen


def _deleted_rows(
    seen: GroupSeen, partitions: Iterable[TopicPartition]
) -> tuple[ResetRow, ...]:
    return tuple(
        ResetRow(
            seen.group_id,
            at.topic,
            at.partition,
            prior=seen.committed[at],
            notes=(Note.DELETED,),
        )
        for at in partitions
    )


def _item(
    action: Action,
    seen: GroupSeen,
    wanted: Mapping[TopicPartition, CommittedOffset | None],
    members: tuple[MemberEntry, ...] = (),
) -> PlanItem:
    return PlanItem(
        item_id_of(action, seen.group_id),
        action,
        seen.group_id,
        seen_group(seen),
        entries_of(wanted),
        members,
    )
