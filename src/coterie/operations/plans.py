"""Creation of plan items from the current groups.

Creating items does not write. A group or partition with an error is not in the plan;
the others are.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from coterie import client
from coterie.operations import plan_files, resets
from coterie.operations.current_groups import CurrentGroup, read_current_groups
from coterie.operations.hidden_topics import (
    DELETED_UNSEEN,
    LEFT_OUT,
    may_hide_topics,
)
from coterie.operations.plan_comparison import expected_group, matches_member
from coterie.operations.selection import ALL_COMMITTED, Scope, is_in_scope
from coterie.operations.topic_ids import TopicIds, read_topic_ids, recreated_topics
from coterie.types import GroupId, TopicName, TopicPartition


@dataclass(frozen=True, slots=True)
class GroupPlan:
    """The plan for one group."""

    group_id: GroupId
    item: plan_files.PlanItem | None = None
    """None when there is nothing to do, and with an error."""
    rows: tuple[resets.ResetRow, ...] = ()
    """The rows for review; a row's error leaves the others in the item."""
    error: client.CoterieError | None = None
    """The reason why the group has no item."""
    warnings: tuple[str, ...] = ()
    """What the rows cannot show, one sentence each."""


def items_of(plans: Sequence[GroupPlan]) -> tuple[plan_files.PlanItem, ...]:
    """Return the items of plans that have one."""
    return tuple(each.item for each in plans if each.item is not None)


async def plan_offsets(
    admin: client.AdminClient,
    action: plan_files.Action,
    scenarios: Mapping[GroupId, resets.Scenario],
    scope: Scope = ALL_COMMITTED,
    *,
    keeps_metadata: bool = True,
) -> tuple[GroupPlan, ...]:
    """Plan the commits of reset scenarios for groups without members."""
    plans = []
    for reset in await resets.plan_resets(admin, scenarios, scope):
        rows = reset.rows if keeps_metadata else resets.drop_metadata(reset.rows)
        error, current = reset.error, reset.current
        if current is not None and current.is_share:
            rows = tuple(map(_without_epoch, resets.drop_metadata(rows)))
        if current is not None and current.state.is_active:
            error = _active_group_error(current)
        elif current is not None and not rows and current.description is None:
            error = client.ApiError(
                client.ErrorCode.GROUP_ID_NOT_FOUND,
                "there is no such group; name partitions to create it",
            )
        if error is not None or current is None:
            plans.append(GroupPlan(reset.group_id, error=error))
            continue
        wanted = {row.at: row.new for row in rows if row.is_write}
        item = plan_item(action, current, wanted) if wanted else None
        plans.append(GroupPlan(reset.group_id, item, rows))
    with_ids = await _with_topic_ids(admin, plans, scenarios)
    if scope is not ALL_COMMITTED:
        return with_ids
    unnamed = [
        each
        for each, scenario in scenarios.items()
        if not isinstance(scenario, resets.ToRows | resets.ToExact | resets.ToCommits)
    ]
    return await _with_warning(admin, with_ids, unnamed, LEFT_OUT)


async def _with_warning(
    admin: client.AdminClient,
    plans: Iterable[GroupPlan],
    group_ids: Collection[GroupId],
    warning: str,
) -> tuple[GroupPlan, ...]:
    """Return plans, with a warning for these groups if the principal may not describe
    some topics."""
    plans = tuple(plans)
    warned = {each.group_id for each in plans if each.error is None}.intersection(
        group_ids
    )
    if not await may_hide_topics(admin, warned):
        return plans
    return tuple(
        replace(each, warnings=(*each.warnings, warning))
        if each.group_id in warned
        else each
        for each in plans
    )


async def _with_topic_ids(
    admin: client.AdminClient,
    plans: Iterable[GroupPlan],
    scenarios: Mapping[GroupId, resets.Scenario],
) -> tuple[GroupPlan, ...]:
    """Return plans whose items have the ids of their topics, and whose rows show which
    topics were created again since the offsets were exported."""
    plans = tuple(plans)
    ids = await read_topic_ids(
        admin, (each.topic for item in items_of(plans) for each in item.offsets)
    )
    return tuple(
        plan
        if plan.item is None
        else replace(
            plan,
            item=replace(plan.item, topic_ids=_ids_of(plan.item, ids)),
            rows=_with_recreated(plan.rows, scenarios[plan.group_id], ids),
        )
        for plan in plans
    )


def _with_recreated(
    rows: tuple[resets.ResetRow, ...], scenario: resets.Scenario, ids: TopicIds
) -> tuple[resets.ResetRow, ...]:
    if not isinstance(scenario, resets.ToCommits):
        return rows
    recreated = recreated_topics(scenario.topic_ids, ids)
    return tuple(
        replace(row, notes=(*row.notes, resets.Note.RECREATED))
        if row.topic in recreated
        else row
        for row in rows
    )


def _ids_of(item: plan_files.PlanItem, ids: TopicIds) -> TopicIds:
    topics = sorted({each.topic for each in item.offsets})
    return {each: ids[each] for each in topics if each in ids}


def _without_epoch(row: resets.ResetRow) -> resets.ResetRow:
    """Return the row of a share group, whose start offsets have no leader epochs."""
    if row.new is None:
        return row
    return replace(row, new=client.CommittedOffset(row.new.offset))


async def plan_clone(
    admin: client.AdminClient,
    source: GroupId,
    destination: GroupId,
    topics: Collection[str] = (),
) -> GroupPlan:
    """Plan to commit the offsets of one group for another, with metadata and leader
    epochs. `topics` restricts the offsets to some topics. A destination that does not
    exist gets the type of the source, a share group or a group of consumers."""
    try:
        group = _existing(source, await read_current_groups(admin, [source]))
        for error in group.offsets.errors.values():
            raise error
    except client.CoterieError as error:
        return GroupPlan(source, error=error)
    commits = {
        at: offset
        for at, offset in group.committed.items()
        if not topics or at.topic in topics
    }
    missing = sorted({*topics}.difference(at.topic for at in commits))
    if missing or not commits:
        of_topics = f" of topic {', '.join(missing)}" if missing else ""
        refusal = client.OperationRefused(
            f"group {source} has no offsets{of_topics} to clone"
        )
        return GroupPlan(destination, error=refusal)
    (plan,) = await plan_offsets(
        admin, plan_files.Action.CLONE, {destination: resets.ToCommits(commits)}
    )
    if plan.item is not None:
        item = replace(plan.item, source=source)
        plan = replace(plan, item=as_share_group(item) if group.is_share else item)
    if not topics and plan.error is None and await may_hide_topics(admin, [source]):
        plan = replace(plan, warnings=(LEFT_OUT,))
    return plan


def as_share_group(item: plan_files.PlanItem) -> plan_files.PlanItem:
    """Return the item; if its group does not exist, the write creates a share group."""
    if item.seen.exists:
        return item
    return replace(item, seen=replace(item.seen, type=client.GroupType.SHARE.value))


async def plan_delete_groups(
    admin: client.AdminClient, group_ids: Iterable[GroupId]
) -> tuple[GroupPlan, ...]:
    """Plan the deletion of groups without members, with their offsets."""
    ids = tuple(dict.fromkeys(group_ids))
    groups = await read_current_groups(admin, ids)
    plans = []
    for group_id in ids:
        try:
            group = _existing(group_id, groups)
            if group.state.is_active:
                raise _active_group_error(group)
            for error in group.offsets.errors.values():
                raise error
        except client.CoterieError as error:
            plans.append(GroupPlan(group_id, error=error))
            continue
        rows = _deletions(group, group.committed) or (
            resets.ResetRow(group_id, "", -1),
        )
        item = plan_item(plan_files.Action.DELETE_GROUP, group, {})
        plans.append(GroupPlan(group_id, item, rows))
    return await _with_warning(admin, plans, ids, DELETED_UNSEEN)


def _active_group_error(group: CurrentGroup) -> client.ApiError:
    what = "stop them, or remove them with `coterie groups remove-members`"
    if group.description is not None and not _can_remove_members(group.description):
        what = "stop them first"
    return client.ApiError(
        client.ErrorCode.NON_EMPTY_GROUP,
        f"the group has members, its state is {group.state.value}: {what}",
    )


def _can_remove_members(group: client.GroupDescription) -> bool:
    """Return whether the group has members that a LeaveGroup request can remove."""
    return group.type not in {client.GroupType.SHARE, client.GroupType.STREAMS}


async def plan_delete_offsets(
    admin: client.AdminClient, group_ids: Iterable[GroupId], scope: Scope
) -> tuple[GroupPlan, ...]:
    """Plan the deletion of committed offsets of topics that no member subscribes to, or
    of all offsets of topics of share groups without members.

    What a coordinator would refuse is an error of its row: offsets of subscribed or
    missing topics (D-53, D-54). A missing topic of the scope is an error, too, if no
    group has offsets of it.
    """
    ids = tuple(dict.fromkeys(group_ids))
    named = {
        TopicPartition(each.topic, partition)
        for each in scope or ()
        for partition in each.partitions or ()
    }
    groups = await read_current_groups(admin, ids, dict.fromkeys(ids, named))
    with_offsets = {
        at.topic
        for group in groups.values.values()
        for at in (*group.committed, *group.offsets.errors)
    }
    topics = {each.topic for each in scope} if scope else with_offsets
    described = (
        await admin.topics.describe(sorted(topics)) if topics else client.Results()
    )
    unknown = {
        each: described.errors[each]
        for each in topics - with_offsets
        if each in described.errors
    }
    plans = []
    for group_id in ids:
        try:
            group = _existing(group_id, groups)
            if not group.is_share:
                _refuse_foreign_members(group)
        except client.CoterieError as error:
            plans.append(GroupPlan(group_id, error=error))
            continue
        errors = group.offsets.errors
        selected = sorted(
            {at for at in (*group.committed, *errors) if is_in_scope(at, scope)}
        )
        present = [at for at in selected if at in group.committed]
        refused = (
            {} if group.is_share else _refused_deletions(group, present, described)
        )
        deleted = [at for at in present if at not in refused]
        if group.is_share and (refusal := _refuse_share_deletion(group, deleted)):
            plans.append(GroupPlan(group_id, error=refusal))
            continue
        rows = (
            *_deletions(group, deleted),
            *(
                resets.ResetRow(group_id, *at, group.committed[at], error=error)
                for at, error in refused.items()
            ),
            *(
                resets.ResetRow(group_id, *at, error=errors[at])
                for at in selected
                if at in errors
            ),
            *(
                resets.ResetRow(group_id, topic, -1, error=error)
                for topic, error in sorted(unknown.items())
            ),
            *(
                _without_commit(group_id, at, _unknown_partition(at, described))
                for at in sorted(named.difference(selected))
            ),
        )
        item = None
        if deleted:
            item = plan_item(
                plan_files.Action.DELETE_OFFSETS, group, dict.fromkeys(deleted)
            )
        plans.append(GroupPlan(group_id, item, rows))
    return tuple(plans)


def _refuse_foreign_members(group: CurrentGroup) -> None:
    """Raise the error of a classic group with members of another protocol than the
    consumers' (D-52)."""
    described = group.description
    if (
        described is not None
        and described.type is client.GroupType.CLASSIC
        and described.members
        and described.protocol_type != "consumer"
    ):
        raise _active_group_error(group)


def _refused_deletions(
    group: CurrentGroup,
    partitions: Iterable[TopicPartition],
    topics: client.Results[TopicName, client.TopicDescription],
) -> dict[TopicPartition, client.CoterieError]:
    """Return the offsets that the coordinator would not delete, with the reason."""
    members = () if group.description is None else group.description.members
    subscribed = {
        topic
        for member in members
        for topic in (
            *(member.subscribed_topics or ()),
            # Those of a regular expression are known only to the coordinator.
            *(
                at.topic
                for at in (*member.assignment, *(member.target_assignment or ()))
            ),
        )
    }
    refused: dict[TopicPartition, client.CoterieError] = {}
    for at in partitions:
        if at.topic in topics.errors:
            refused[at] = topics.errors[at.topic]
        elif unknown := _unknown_partition(at, topics):
            refused[at] = unknown
        elif at.topic in subscribed:
            refused[at] = client.ApiError(
                client.ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,
                f"a member of {group.group_id} subscribes to topic {at.topic}: stop the"
                " members first",
            )
    return refused


def _unknown_partition(
    at: TopicPartition, topics: client.Results[TopicName, client.TopicDescription]
) -> client.ApiError | None:
    """Return the error of a partition that its topic does not have."""
    topic = topics.values.get(at.topic)
    # Partitions are numbered from 0 without gaps.
    if topic is None or at.partition < len(topic.partitions):
        return None
    return client.ApiError(
        client.ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        f"topic {at.topic} has {len(topic.partitions)} partitions",
    )


def _refuse_share_deletion(
    group: CurrentGroup, deleted: Collection[TopicPartition]
) -> client.CoterieError | None:
    """Return why offsets of a share group cannot be deleted, if so: they are deleted by
    topic, and only without members (KIP-932)."""
    if group.state.is_active:
        return _active_group_error(group)
    topics = {at.topic for at in deleted}
    kept = [at for at in group.committed if at.topic in topics and at not in deleted]
    if not kept:
        return None
    return client.UnsupportedGroupType(
        f"{group.group_id} is a share group, whose offsets are deleted by topic: name"
        f" the whole topic, as in --partitions {kept[0].topic}"
    )


async def plan_remove_members(
    admin: client.AdminClient,
    group_id: GroupId,
    members: Collection[client.MemberToRemove] | None,
    reason: str = "",
) -> GroupPlan:
    """Plan the removal of members; None removes all current members, static ones by
    instance id, because their member id changes when they rejoin. `reason` is for the
    coordinator's log."""
    groups = await read_current_groups(admin, [group_id])
    try:
        group = _existing(group_id, groups)
    except client.CoterieError as error:
        return GroupPlan(group_id, error=error)
    if group.description is not None and not _can_remove_members(group.description):
        kind = group.description.type.value
        unsupported = client.UnsupportedGroupType(
            f"{group_id} is a {kind} group, whose members no request can remove: stop"
            " them, or wait until their sessions time out"
        )
        return GroupPlan(group_id, error=unsupported)
    current = () if group.description is None else group.description.members
    if members is None:
        entries = tuple(
            plan_files.MemberEntry(each.member_id)
            if each.instance_id is None
            else plan_files.MemberEntry(instance_id=each.instance_id)
            for each in current
        )
    else:
        entries = tuple(
            plan_files.MemberEntry(each.member_id, each.instance_id) for each in members
        )
    for entry in entries:
        if not any(matches_member(entry, each) for each in current):
            unknown = client.ApiError(
                client.ErrorCode.UNKNOWN_MEMBER_ID,
                f"there is no member {entry.instance_id or entry.member_id!r}: `coterie"
                f" groups members {group_id}` lists the members",
            )
            return GroupPlan(group_id, error=unknown)
    if not entries:
        return GroupPlan(group_id)
    item = plan_item(plan_files.Action.REMOVE_MEMBERS, group, {}, entries)
    return GroupPlan(group_id, replace(item, reason=reason))


def _existing(
    group_id: GroupId, groups: client.Results[GroupId, CurrentGroup]
) -> CurrentGroup:
    group = groups.one(group_id)
    if group.description is None and not group.committed:
        raise client.ApiError(
            client.ErrorCode.GROUP_ID_NOT_FOUND, f"there is no group {group_id}"
        )
    return group


def _without_commit(
    group_id: GroupId, at: TopicPartition, error: client.CoterieError | None
) -> resets.ResetRow:
    notes = () if error else (resets.Note.NO_COMMIT,)
    return resets.ResetRow(group_id, *at, notes=notes, error=error)


def _deletions(
    group: CurrentGroup, partitions: Iterable[TopicPartition]
) -> tuple[resets.ResetRow, ...]:
    return tuple(
        resets.ResetRow(
            group.group_id, *at, prior=group.committed[at], notes=(resets.Note.DELETED,)
        )
        for at in partitions
    )


def plan_item(
    action: plan_files.Action,
    group: CurrentGroup,
    wanted: Mapping[TopicPartition, client.CommittedOffset | None],
    members: tuple[plan_files.MemberEntry, ...] = (),
) -> plan_files.PlanItem:
    """Return an item that expects the group in its current state."""
    return plan_files.PlanItem(
        plan_files.item_id_of(action, group.group_id),
        action,
        group.group_id,
        expected_group(group),
        plan_files.entries_of(wanted),
        members,
    )
