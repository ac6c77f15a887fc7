"""Does what a plan says, to groups that are still as the plan saw them.

Each group is read again just before. What changed since is refused, unless forced;
what is already as it is wanted is left alone, so a plan may be applied again after it
was broken off. Old offsets are on the disk before anything is written. One item's
failure leaves the others alone.

Between that reading and the write a moment remains: a group that gains a member in it
is safe, because the coordinator refuses such writes itself (E17-02, D-10); a commit
without membership in that moment is overwritten.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Final, Protocol, TypeAlias

from coterie.client.admin.remove_members import MemberToRemove
from coterie.client.admin.results import Results
from coterie.errors import ApiError, CoterieError, SettingError
from coterie.operations.admin import GroupReader, GroupWriter
from coterie.operations.compare import (
    changes_since,
    is_done,
    members_left,
    offsets_left,
)
from coterie.operations.plan import Action, MemberEntry, PlanItem, entries_of
from coterie.operations.resetting import write_offsets
from coterie.operations.seen import GroupSeen, see_groups
from coterie.operations.snapshots import GroupBefore
from coterie.types import GroupId, TopicPartition
from coterie.wire.error_codes import ErrorCode

AT_ONCE_MAX: Final = 50
"""Groups that are read, and then written, together. The more, the fewer requests; the
fewer, the shorter the moment between reading a group and writing to it."""


class Verdict(Enum):
    """What becomes of an item."""

    READY = "ready"
    """It may be done; only before it is."""
    DONE = "done"
    ALREADY = "already"
    """The group was as wanted before; nothing was written."""
    REFUSED = "refused"
    """The group is no longer as the plan saw it; nothing was written."""
    PARTIAL = "partial"
    """Some of it was done."""
    FAILED = "failed"
    """Nothing of it was done."""

    @property
    def is_good(self) -> bool:
        """Whether there is nothing left to do about it."""
        return self in {Verdict.DONE, Verdict.ALREADY}


@dataclass(frozen=True, slots=True)
class ItemResult:
    """What became of an item, and why."""

    item: PlanItem
    verdict: Verdict
    reasons: tuple[str, ...] = ()
    """What changed, or what went wrong; a sentence each."""
    errors: Mapping[TopicPartition | MemberEntry, CoterieError] = field(
        default_factory=dict
    )
    """Of partitions that were not written, and members that were not removed."""
    is_answered: bool = True
    """Whether the cluster answered; without an answer it may have been done."""

    @property
    def may_have_written(self) -> bool:
        """Whether there may be something to take back."""
        return self.verdict in {Verdict.DONE, Verdict.PARTIAL} or not self.is_answered


class Keeper(Protocol):
    """Where groups are kept before they are written to."""

    def keep(self, groups: Sequence[GroupBefore]) -> None:
        """Returns when they are safe."""
        ...


OnResult: TypeAlias = Callable[[ItemResult], None]


async def check_items(
    admin: GroupReader, items: Sequence[PlanItem], *, force: bool = False
) -> tuple[ItemResult, ...]:
    """What would become of items, in their order; nothing is written."""
    return tuple(
        [
            each.result
            for batch in _batches(items)
            for each in await _check(admin, batch, force)
        ]
    )


async def apply_items(
    admin: GroupWriter,
    items: Sequence[PlanItem],
    keeper: Keeper,
    *,
    force: bool = False,
    on_result: OnResult | None = None,
) -> tuple[ItemResult, ...]:
    """Do items, in their order; `on_result` hears of each when it is over.

    When old offsets cannot be kept, the item fails and nothing more is written.
    """
    results: list[ItemResult] = []
    full: SettingError | None = None
    for batch in _batches(items):
        checked = await _check(admin, batch, force)
        ready = [each for each in checked if each.result.verdict is Verdict.READY]
        full = full or _keep(keeper, ready)
        written = (
            await _write_all(admin, ready) if full is None else _failed(ready, full)
        )
        for each in checked:
            result = written.get(each.result.item.item_id, each.result)
            if result.verdict is Verdict.DONE and each.result.reasons:
                result = replace(result, reasons=each.result.reasons)  # by force
            results.append(result)
            if on_result is not None:
                on_result(result)
    return tuple(results)


def _keep(keeper: Keeper, ready: Sequence[_Checked]) -> SettingError | None:
    """Keep the groups whose offsets are about to be written; why they cannot be."""
    kept = [
        _before(each.result.item, each.seen)
        for each in ready
        if each.result.item.action is not Action.REMOVE_MEMBERS
    ]
    try:
        keeper.keep(kept)
    except SettingError as error:
        return error
    return None


def _failed(ready: Sequence[_Checked], error: SettingError) -> Mapping[str, ItemResult]:
    items = [each.result.item for each in ready]
    return {item.item_id: _result(item, 0, (str(error),)) for item in items}


def refuse_cluster(
    items: Sequence[PlanItem], planned: str | None, found: str | None
) -> tuple[ItemResult, ...]:
    """The results when the plan is for another cluster."""
    reason = f"the plan is for cluster {planned}, and this is {found}"
    return tuple(ItemResult(item, Verdict.REFUSED, (reason,)) for item in items)


@dataclass(frozen=True, slots=True)
class _Checked:
    """An item beside its group as it is now; `seen` is None only with an error."""

    result: ItemResult
    seen: GroupSeen | None


def _batches(items: Sequence[PlanItem]) -> Iterator[Sequence[PlanItem]]:
    for start in range(0, len(items), AT_ONCE_MAX):
        yield items[start : start + AT_ONCE_MAX]


async def _check(
    admin: GroupReader, items: Sequence[PlanItem], force: bool
) -> list[_Checked]:
    """Read the groups of some items, and judge each."""
    also = {item.group_id: list(item.wanted) for item in items}
    try:
        groups = await see_groups(admin, [item.group_id for item in items], also)
    except CoterieError as error:
        return [_broken(item, error) for item in items]
    return [
        _broken(item, groups.errors[item.group_id])
        if item.group_id in groups.errors
        else _judge(item, groups.values[item.group_id], force)
        for item in items
    ]


def _broken(item: PlanItem, error: CoterieError) -> _Checked:
    return _Checked(ItemResult(item, Verdict.FAILED, (str(error),)), None)


def _judge(item: PlanItem, seen: GroupSeen, force: bool) -> _Checked:
    if is_done(item, seen):
        return _Checked(ItemResult(item, Verdict.ALREADY), seen)
    changes = changes_since(item, seen)
    if changes and not force:
        return _Checked(ItemResult(item, Verdict.REFUSED, changes), seen)
    return _Checked(ItemResult(item, Verdict.READY, changes), seen)


def _before(item: PlanItem, seen: GroupSeen | None) -> GroupBefore:
    """What is kept of a group that is about to be written to."""
    assert seen is not None
    wrote = (
        dict.fromkeys(seen.committed)
        if item.action is Action.DELETE_GROUP
        else offsets_left(item, seen)
    )
    return GroupBefore(
        item.group_id,
        item.action,
        existed=seen.description is not None or bool(seen.committed),
        offsets=entries_of(seen.committed),
        wrote=entries_of(wrote),
    )


async def _write_all(
    admin: GroupWriter, ready: Sequence[_Checked]
) -> Mapping[str, ItemResult]:
    """Do some items, all at once; the results by item id."""
    deletes = [each.result.item for each in ready if _is_delete(each)]
    others = [each for each in ready if not _is_delete(each)]
    deleted = await _delete_groups(admin, deletes)
    written = await asyncio.gather(*(_write(admin, each) for each in others))
    return {each.item.item_id: each for each in (*deleted, *written)}


def _is_delete(checked: _Checked) -> bool:
    return checked.result.item.action is Action.DELETE_GROUP


async def _delete_groups(
    admin: GroupWriter, items: Sequence[PlanItem]
) -> tuple[ItemResult, ...]:
    if not items:
        return ()
    try:
        results = await admin.delete_groups([item.group_id for item in items])
    except CoterieError as error:
        return tuple(_unwritten(item, error) for item in items)
    return tuple(
        _unwritten(item, results.errors[item.group_id])
        if item.group_id in results.errors
        else _result(item, 1, ())
        for item in items
    )


def _unwritten(item: PlanItem, error: CoterieError) -> ItemResult:
    """Nothing of an item was done, as far as is known."""
    return replace(_result(item, 0, (str(error),)), is_answered=_is_refusal(error))


def _is_refusal(error: CoterieError) -> bool:
    return isinstance(error, ApiError)


async def _write(admin: GroupWriter, checked: _Checked) -> ItemResult:
    """Do one item; an error of the whole group is its result."""
    item, seen = checked.result.item, checked.seen
    assert seen is not None
    if item.action is Action.REMOVE_MEMBERS:
        return await _remove_members(admin, item, seen)
    left = offsets_left(item, seen)
    commits = {at: offset for at, offset in left.items() if offset is not None}
    deleted = [at for at, offset in left.items() if offset is None]
    altered = await write_offsets(admin, item.group_id, commits)
    forgotten = await _delete_offsets(admin, item.group_id, deleted)
    errors = {**altered.errors, **forgotten.errors}
    told = tuple(
        _told(f"{at.topic}-{at.partition}", errors[at]) for at in sorted(errors)
    )
    result = _result(item, len(altered.values) + len(forgotten.values), told)
    is_answered = all(_is_refusal(each) for each in errors.values())
    return replace(result, errors=dict(errors.items()), is_answered=is_answered)


async def _delete_offsets(
    admin: GroupWriter, group_id: GroupId, partitions: Sequence[TopicPartition]
) -> Results[TopicPartition, None]:
    if not partitions:
        return Results()
    try:
        return await admin.delete_group_offsets(group_id, partitions)
    except CoterieError as error:
        return Results({}, dict.fromkeys(partitions, error))


async def _remove_members(
    admin: GroupWriter, item: PlanItem, seen: GroupSeen
) -> ItemResult:
    left = {
        MemberToRemove(each.member_id, each.instance_id): each
        for each in members_left(item, seen)
    }
    try:
        results = await admin.remove_members(item.group_id, left, reason=item.reason)
    except CoterieError as error:
        return _unwritten(item, error)
    errors: dict[TopicPartition | MemberEntry, CoterieError] = {
        left[each]: error
        for each, error in results.errors.items()
        if not _has_left(error)
    }
    told = tuple(
        _told(each.instance_id or each.member_id, error)
        for each, error in results.errors.items()
        if left[each] in errors
    )
    return replace(_result(item, len(left) - len(told), told), errors=errors)


def _has_left(error: CoterieError) -> bool:
    """Whether a member cannot be removed because it is gone, which is what we want."""
    return isinstance(error, ApiError) and error.code is ErrorCode.UNKNOWN_MEMBER_ID


def _result(item: PlanItem, done: int, errors: tuple[str, ...]) -> ItemResult:
    if not errors:
        return ItemResult(item, Verdict.DONE)
    return ItemResult(item, Verdict.PARTIAL if done else Verdict.FAILED, errors)


def _told(name: str, error: CoterieError) -> str:
    """An error with the name of what it is about."""
    text = str(error)
    return text if name in text else f"{name}: {text}"
