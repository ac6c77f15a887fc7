"""Application of plan items to groups that have not changed since the plan was made.

Each group is read again just before the write. An item whose group changed is refused,
unless forced; one whose group is already in the planned state is skipped, so an
interrupted plan can be applied again. The prior offsets are synced to the disk before
the write. An item's failure does not affect the others.

Changes between that read and the write are not detected: when a group gains a member
then, the coordinator refuses the write (E17-02, D-10); a commit without a member id is
overwritten.
"""

from __future__ import annotations

import asyncio
from collections.abc import (
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from coterie import client
from coterie.errors import code_of
from coterie.operations.current_groups import CurrentGroup, read_current_groups
from coterie.operations.hidden_topics import DELETED_UNSEEN, may_hide_topics
from coterie.operations.plan_comparison import (
    changes_since,
    is_done,
    pending_members,
    pending_offsets,
)
from coterie.operations.plan_files import (
    Action,
    ItemResult,
    MemberEntry,
    PlanItem,
    Verdict,
    entries_of,
)
from coterie.operations.resets import write_offsets
from coterie.operations.snapshots import SnapshotGroup, SnapshotWriter
from coterie.operations.topic_ids import TopicIds, read_topic_ids
from coterie.types import GroupId, TopicName, TopicPartition

AT_ONCE_MAX: Final = 50
"""Groups that are read, and then written, together: a larger batch takes fewer
requests, a smaller one shortens the window between read and write."""

OnResult: TypeAlias = Callable[[ItemResult], None]
"""A callback that gets the result of each item."""


@dataclass(frozen=True, slots=True)
class _Checked:
    """An item and its current group, which is None when it could not be read."""

    result: ItemResult
    group: CurrentGroup | None
    topic_ids: TopicIds
    """The current ids of the topics of all items."""


async def check_items(
    admin: client.AdminClient, items: Sequence[PlanItem], *, force: bool = False
) -> tuple[ItemResult, ...]:
    """Return the results that items would have, in order, without writing."""
    return tuple(
        [
            each.result
            for batch in _batches(items)
            for each in await _check(admin, batch, force)
        ]
    )


async def apply_items(
    admin: client.AdminClient,
    items: Sequence[PlanItem],
    snapshot: SnapshotWriter,
    *,
    force: bool = False,
    on_result: OnResult | None = None,
) -> tuple[ItemResult, ...]:
    """Apply items in order; `on_result` gets each result.

    When the snapshot cannot be written, the item fails and nothing more is written.
    """
    results: list[ItemResult] = []
    snapshot_error: client.SettingError | None = None
    for batch in _batches(items):
        checked = await _check(admin, batch, force)
        ready = [each for each in checked if each.result.verdict is Verdict.READY]
        if snapshot_error is None:
            try:
                snapshot.add(
                    _snapshot_group(each)
                    for each in ready
                    if each.result.item.action is not Action.REMOVE_MEMBERS
                )
            except client.SettingError as error:
                snapshot_error = error
        written = (
            await _write_all(admin, ready)
            if snapshot_error is None
            else {
                each.result.item.item_id: _result(
                    each.result.item, 0, (str(snapshot_error),)
                )
                for each in ready
            }
        )
        for each in checked:
            result = written.get(each.result.item.item_id, each.result)
            result = replace(
                result, prior=each.result.prior, warnings=each.result.warnings
            )
            if result.verdict is Verdict.DONE and each.result.reasons:  # forced
                result = replace(result, reasons=each.result.reasons)
            results.append(result)
            if on_result is not None:
                on_result(result)
    return tuple(results)


def _batches(items: Sequence[PlanItem]) -> Iterator[Sequence[PlanItem]]:
    for start in range(0, len(items), AT_ONCE_MAX):
        yield items[start : start + AT_ONCE_MAX]


async def _check(
    admin: client.AdminClient, items: Sequence[PlanItem], force: bool
) -> list[_Checked]:
    """Read the groups of items and compare them with the plan."""
    planned = {item.group_id: list(item.wanted) for item in items}
    ids: TopicIds = {}
    hides_topics = False
    try:
        groups = await read_current_groups(admin, planned, planned)
        ids = await _read_topic_ids(admin, items, groups)
        hides_topics = await may_hide_topics(admin, _deleted(items, groups))
    except client.CoterieError as error:
        groups = client.Results({}, dict.fromkeys(planned, error))
    checked = []
    for item in items:
        group: CurrentGroup | None = None
        verdict = Verdict.READY
        reasons: tuple[str, ...] = ()
        if item.group_id in groups.errors:
            verdict, reasons = Verdict.FAILED, (str(groups.errors[item.group_id]),)
        else:
            group = groups.values[item.group_id]
            if is_done(item, group):
                verdict = Verdict.ALREADY
            elif reasons := changes_since(item, group, ids):
                verdict = Verdict.READY if force else Verdict.REFUSED
        prior = None if group is None else group.committed
        is_warned = (
            hides_topics
            and item.action is Action.DELETE_GROUP
            and verdict is Verdict.READY
        )
        warnings = (DELETED_UNSEEN,) if is_warned else ()
        result = ItemResult(item, verdict, reasons, prior=prior, warnings=warnings)
        checked.append(_Checked(result, group, ids))
    return checked


def _deleted(
    items: Iterable[PlanItem], groups: client.Results[GroupId, CurrentGroup]
) -> list[GroupId]:
    """Return the groups that will be deleted."""
    return [
        item.group_id
        for item in items
        if item.action is Action.DELETE_GROUP
        and item.group_id in groups.values
        and not is_done(item, groups.values[item.group_id])
    ]


async def _read_topic_ids(
    admin: client.AdminClient,
    items: Iterable[PlanItem],
    groups: client.Results[GroupId, CurrentGroup],
) -> TopicIds:
    """Return the ids of the topics whose offsets the items replace."""
    written: set[TopicName] = set()
    for item in items:
        group = groups.values.get(item.group_id)
        if group is None or is_done(item, group):
            continue
        written.update(at.topic for at in item.wanted)
        if item.action is Action.DELETE_GROUP:
            written.update(at.topic for at in group.committed)
    return await read_topic_ids(admin, written)


def _snapshot_group(checked: _Checked) -> SnapshotGroup:
    item, group = checked.result.item, checked.group
    assert group is not None
    wrote = entries_of(
        dict.fromkeys(group.committed)
        if item.action is Action.DELETE_GROUP
        else pending_offsets(item, group)
    )
    topics = sorted({entry.topic for entry in wrote})
    ids = checked.topic_ids
    return SnapshotGroup(
        item.group_id,
        item.action,
        existed=group.description is not None or bool(group.committed),
        offsets=entries_of(group.committed),
        is_share=_is_share(item, group),
        wrote=wrote,
        topic_ids={each: ids[each] for each in topics if each in ids},
        may_lack_topics=bool(checked.result.warnings),
    )


def _is_share(item: PlanItem, group: CurrentGroup) -> bool:
    """Return whether the item is about a share group, existing or to be created."""
    if group.description is None:
        return item.seen.type == client.GroupType.SHARE.value
    return group.is_share


async def _write_all(
    admin: client.AdminClient, ready: Sequence[_Checked]
) -> Mapping[str, ItemResult]:
    """Apply items concurrently and return the results by item id."""
    delete_ids: list[str] = []
    others: list[_Checked] = []
    for each in ready:
        if each.result.item.action is Action.DELETE_GROUP:
            delete_ids.append(each.result.item.group_id)
        else:
            others.append(each)
    deleted: client.Results[str, None] = client.Results()
    if delete_ids:
        try:
            deleted = await admin.groups.delete(delete_ids)
        except client.CoterieError as error:
            deleted = client.Results({}, dict.fromkeys(delete_ids, error))
    written = await asyncio.gather(*(_write(admin, each) for each in others))
    results = {each.item.item_id: each for each in written}
    for each in ready:
        item = each.result.item
        if item.action is Action.DELETE_GROUP:
            failure = deleted.errors.get(item.group_id)
            results[item.item_id] = (
                _failed(item, failure) if failure else _result(item, 1, ())
            )
    return results


async def _write(admin: client.AdminClient, checked: _Checked) -> ItemResult:
    """Commit and delete the offsets of an item, or remove its members."""
    item, group = checked.result.item, checked.group
    assert group is not None
    if item.action is Action.REMOVE_MEMBERS:
        return await _remove_members(admin, item, group)
    pending = pending_offsets(item, group)
    commits = {at: offset for at, offset in pending.items() if offset is not None}
    to_delete = [at for at, offset in pending.items() if offset is None]
    if _is_share(item, group):
        deleted, altered = await _write_share(admin, group, commits, to_delete)
    else:
        altered = await write_offsets(admin, item.group_id, commits)
        deleted = await _delete_offsets(admin, item.group_id, to_delete)
    errors = {**altered.errors, **deleted.errors}
    sentences = tuple(
        _sentence(f"{at.topic}-{at.partition}", errors[at]) for at in sorted(errors)
    )
    result = _result(item, len(altered.values) + len(deleted.values), sentences)
    is_answered = all(map(_is_answer, errors.values()))
    return replace(result, errors=dict(errors.items()), is_answered=is_answered)


async def _delete_offsets(
    admin: client.AdminClient, group_id: GroupId, partitions: Collection[TopicPartition]
) -> client.Results[TopicPartition, None]:
    if not partitions:
        return client.Results()
    try:
        return await admin.group_offsets.delete(group_id, partitions)
    except client.CoterieError as error:
        return client.Results({}, dict.fromkeys(partitions, error))


async def _write_share(
    admin: client.AdminClient,
    group: CurrentGroup,
    starts: Mapping[TopicPartition, client.CommittedOffset],
    to_delete: Collection[TopicPartition],
) -> tuple[client.Results[TopicPartition, None], client.Results[TopicPartition, None]]:
    """Delete and set start offsets of a share group. A deletion concerns whole topics,
    so that the start offsets to keep are set again."""
    group_id, topics = group.group_id, {at.topic for at in to_delete}
    kept = {
        at: start
        for at, start in group.committed.items()
        if at.topic in topics and at not in to_delete and at not in starts
    }
    gone: client.Results[TopicName, None] = client.Results()
    if topics:
        try:
            gone = await admin.share_groups.delete_offsets(group_id, sorted(topics))
        except client.CoterieError as error:
            gone = client.Results({}, dict.fromkeys(topics, error))
    deleted = client.Results(
        dict.fromkeys(at for at in to_delete if at.topic in gone.values),
        {at: gone.errors[at.topic] for at in to_delete if at.topic in gone.errors},
    )
    kept = {at: start for at, start in kept.items() if at.topic in gone.values}
    written = await write_offsets(admin, group_id, {**starts, **kept}, is_share=True)
    values = {at: None for at in written.values if at not in kept}
    return deleted, client.Results(values, written.errors)


async def _remove_members(
    admin: client.AdminClient, item: PlanItem, group: CurrentGroup
) -> ItemResult:
    pending = {
        client.MemberToRemove(each.member_id, each.instance_id): each
        for each in pending_members(item, group)
    }
    try:
        results = await admin.groups.remove_members(
            item.group_id, pending, reason=item.reason
        )
    except client.CoterieError as error:
        return _failed(item, error)
    errors: dict[TopicPartition | MemberEntry, client.CoterieError] = {}
    sentences: list[str] = []
    for each, failure in results.errors.items():
        # A member that has left already counts as removed.
        if code_of(failure) is client.ErrorCode.UNKNOWN_MEMBER_ID:
            continue
        errors[pending[each]] = failure
        sentences.append(_sentence(each.instance_id or each.member_id, failure))
    result = _result(item, len(pending) - len(sentences), tuple(sentences))
    return replace(result, errors=errors)


def _result(item: PlanItem, done: int, errors: tuple[str, ...]) -> ItemResult:
    if not errors:
        return ItemResult(item, Verdict.DONE)
    return ItemResult(item, Verdict.PARTIAL if done else Verdict.FAILED, errors)


def _failed(item: PlanItem, error: client.CoterieError) -> ItemResult:
    """Return the result of an item without a confirmed write."""
    result = _result(item, 0, (str(error),))
    return replace(result, is_answered=_is_answer(error))


def _is_answer(error: client.CoterieError) -> bool:
    """Return whether an error shows that nothing was written: a response, or the reason
    why no request was sent."""
    return not error.follows_lost_request and isinstance(
        error,
        client.ApiError
        | client.AuthenticationFailed
        | client.OperationRefused
        | client.UnsupportedByBroker,
    )


def _sentence(name: str, error: client.CoterieError) -> str:
    """Return an error's text with the name of the item it concerns."""
    text = str(error)
    return text if name in text else f"{name}: {text}"
