"""Plans that restore the offsets of a snapshot.

A group is restored only while it is unchanged since the write, so that later commits
are not lost. The offsets of a deleted group are committed again, without members and
epochs. A group that the write created is deleted. Removed members are not restored;
they may join again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coterie.errors import CoterieError, OperationRefused
from coterie.operations.current_groups import (
    CurrentGroup,
    read_current_groups,
    refuse_active,
)
from coterie.operations.plan_files import Action
from coterie.operations.plans import GroupPlan, as_share_group, plan_item
from coterie.operations.resets import Note, ResetRow
from coterie.operations.snapshots import Snapshot, SnapshotGroup

if TYPE_CHECKING:
    from coterie.client.admin.admin_client import AdminClient


async def plan_undo(
    admin: AdminClient, snapshot: Snapshot, *, force: bool = False
) -> tuple[GroupPlan, ...]:
    """Plan the restoration of every group of a snapshot, in its order.

    `force` includes groups whose offsets have moved since.
    """
    also = {each.group_id: list(each.offsets_written) for each in snapshot.groups}
    groups = await read_current_groups(admin, also, also)
    plans: list[GroupPlan] = []
    for kept in snapshot.groups:
        try:
            current = groups.one(kept.group_id)
            if kept.offsets_written:
                refuse_active(current)
            if not force:
                _refuse_moved(kept, current)
        except CoterieError as error:
            plans.append(GroupPlan(kept.group_id, error=error))
        else:
            plans.append(_plan(kept, current))
    return tuple(plans)


def _refuse_moved(kept: SnapshotGroup, current: CurrentGroup) -> None:
    """Raise OperationRefused when a written partition has another offset now."""
    moved = [
        f"{at.topic}-{at.partition}"
        for at, written in sorted(kept.offsets_written.items())
        if at in current.offsets.errors
        or current.committed.get(at) not in (written, kept.offsets_before.get(at))
    ]
    if moved:
        raise OperationRefused(
            f"{', '.join(moved)} moved on since the write: --force restores the"
            " offsets nevertheless and discards what was committed since"
        )


def _plan(kept: SnapshotGroup, current: CurrentGroup) -> GroupPlan:
    before, committed = kept.offsets_before, current.committed
    wanted = {
        at: before.get(at)
        for at in sorted(kept.offsets_written)
        if committed.get(at) != before.get(at)
    }
    if not wanted:
        return GroupPlan(kept.group_id)
    rows = []
    for at, offset in wanted.items():
        notes = (Note.DELETED,) if offset is None else ()
        if at not in committed:
            notes = (Note.NO_COMMIT,)
        prior = committed.get(at)
        rows.append(ResetRow(kept.group_id, *at, prior=prior, new=offset, notes=notes))
    action = Action.RESTORE
    if not kept.existed and set(committed) <= set(wanted):
        action, wanted = Action.DELETE_GROUP, {}
    item = plan_item(action, current, wanted)
    if kept.is_share:
        item = as_share_group(item)
    return GroupPlan(kept.group_id, item, tuple(rows))
