"""Brings back what a snapshot kept, as plan items that `apply` can do.

A group is brought back only while it is as our write left it: what it committed since
would be lost. A group that was deleted comes back with its offsets, without members
and epochs. A group that a write made is deleted again. Members that were removed do
not come back by this; they may join by themselves.
"""

from __future__ import annotations

from coterie.client.admin.offset_values import CommittedOffset
from coterie.errors import CoterieError, OperationRefused
from coterie.operations.admin import GroupReader
from coterie.operations.compare import seen_group
from coterie.operations.plan import Action, PlanItem, entries_of, item_id_of
from coterie.operations.planning import Planned
from coterie.operations.reset import Note, ResetRow
from coterie.operations.seen import GroupSeen, refuse_active, see_groups
from coterie.operations.snapshots import GroupBefore, Snapshot
from coterie.types import TopicPartition


async def plan_undo(
    admin: GroupReader, snapshot: Snapshot, *, force: bool = False
) -> tuple[Planned, ...]:
    """What it takes to bring back every group of a snapshot, in its order.

    `force`: also where a group went on since.
    """
    groups = snapshot.groups
    also = {each.group_id: list(each.written) for each in groups}
    seen = await see_groups(admin, also, also)
    planned: list[Planned] = []
    for before in groups:
        try:
            now = seen.one(before.group_id)
            if before.written:
                refuse_active(now)
            if not force:
                _refuse_moved(before, now)
        except CoterieError as error:
            planned.append(Planned(before.group_id, error=error))
        else:
            planned.append(_planned(before, now))
    return tuple(planned)


def _refuse_moved(before: GroupBefore, now: GroupSeen) -> None:
    """Raises OperationRefused when a partition that we wrote is somewhere else now."""
    moved = [
        f"{at.topic}-{at.partition}"
        for at, wrote in sorted(before.written.items())
        if at in now.offsets.errors
        or now.committed.get(at) not in (wrote, before.before.get(at))
    ]
    if moved:
        raise OperationRefused(
            f"{', '.join(moved)} moved on since the write: --force takes it back all"
            " the same, and forgets what was committed since"
        )


def _planned(before: GroupBefore, now: GroupSeen) -> Planned:
    wanted = {
        at: before.before.get(at)
        for at in sorted(before.written)
        if now.committed.get(at) != before.before.get(at)
    }
    if not wanted:
        return Planned(before.group_id)
    rows = tuple(_row(before, now, at, back) for at, back in wanted.items())
    action = Action.RESTORE
    if not before.existed and set(now.committed) <= set(wanted):
        action, wanted = Action.DELETE_GROUP, {}
    item = PlanItem(
        item_id_of(action, before.group_id),
        action,
        before.group_id,
        seen_group(now),
        entries_of(wanted),
    )
    return Planned(before.group_id, item, rows)


def _row(
    before: GroupBefore,
    now: GroupSeen,
    at: TopicPartition,
    back: CommittedOffset | None,
) -> ResetRow:
    notes = (Note.DELETED,) if back is None else ()
    if at not in now.committed:
        notes = (Note.NO_COMMIT,)
    return ResetRow(
        before.group_id,
        at.topic,
        at.partition,
        prior=now.committed.get(at),
        new=back,
        notes=notes,
    )
