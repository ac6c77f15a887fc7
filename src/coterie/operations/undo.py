"""Plans that restore the offsets of a snapshot.

A group is restored only while it is unchanged since the write, so that later commits
are not lost. Offsets of a topic that was created again since are not restored. The
offsets of a deleted group are committed again, without members and epochs. A group that
the write created is deleted. Removed members are not restored; they may join again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Final

from coterie import client
from coterie.errors import CoterieError, OperationRefused
from coterie.operations import resets
from coterie.operations.current_groups import (
    CurrentGroup,
    read_current_groups,
    refuse_active,
)
from coterie.operations.hidden_topics import NOT_IN_SNAPSHOT
from coterie.operations.plan_files import Action
from coterie.operations.plans import GroupPlan, as_share_group, plan_item
from coterie.operations.snapshots import Snapshot, SnapshotGroup
from coterie.operations.topic_ids import TopicIds, read_topic_ids, recreated_topics
from coterie.types import GroupId, TopicName, TopicPartition


async def plan_undo(
    admin: client.AdminClient, snapshot: Snapshot, *, force: bool = False
) -> tuple[GroupPlan, ...]:
    """Plan the restoration of every group of a snapshot, in its order.

    `force` includes groups whose offsets have moved since, and topics that were created
    again since.
    """
    also = {each.group_id: list(each.offsets_written) for each in snapshot.groups}
    groups = await read_current_groups(admin, also, also)
    written = sorted({at for each in also.values() for at in each})
    logs = await _Logs.read(admin, written)
    plans: list[GroupPlan] = []
    for kept in snapshot.groups:
        recreated = recreated_topics(kept.topic_ids, logs.topic_ids)
        try:
            current = groups.one(kept.group_id)
            if kept.offsets_written:
                refuse_active(current)
            if not force:
                _refuse_moved(kept, current, recreated)
        except CoterieError as error:
            plans.append(GroupPlan(kept.group_id, error=error))
        else:
            plan = _plan(kept, current, logs, recreated, force)
            if kept.may_lack_topics:
                plan = replace(plan, warnings=(NOT_IN_SNAPSHOT,))
            plans.append(plan)
    return tuple(plans)


@dataclass(frozen=True, slots=True)
class _Logs:
    """The logs of the partitions of a snapshot."""

    starts: client.Results[TopicPartition, client.LogOffsetInfo]
    ends: client.Results[TopicPartition, client.LogOffsetInfo]
    topic_ids: TopicIds

    @classmethod
    async def read(
        cls, admin: client.AdminClient, partitions: Collection[TopicPartition]
    ) -> _Logs:
        if not partitions:
            return cls(client.Results(), client.Results(), {})
        starts, ends, topic_ids = await asyncio.gather(
            admin.logs.list_offsets(dict.fromkeys(partitions, client.EARLIEST)),
            admin.logs.list_offsets(dict.fromkeys(partitions, client.LATEST)),
            read_topic_ids(admin, (each.topic for each in partitions)),
        )
        return cls(starts, ends, topic_ids)


def _refuse_moved(
    kept: SnapshotGroup, current: CurrentGroup, recreated: Collection[TopicName]
) -> None:
    """Raise OperationRefused when a written partition has another offset now."""
    moved = [
        f"{at.topic}-{at.partition}"
        for at, written in sorted(kept.offsets_written.items())
        if at in current.offsets.errors
        or (
            at.topic not in recreated
            and current.committed.get(at) not in (written, kept.offsets_before.get(at))
        )
    ]
    if moved:
        raise OperationRefused(
            f"{', '.join(moved)} moved on since the write: --force restores the"
            " offsets nevertheless and discards what was committed since"
        )


def _plan(
    kept: SnapshotGroup,
    current: CurrentGroup,
    logs: _Logs,
    recreated: Collection[TopicName],
    force: bool,
) -> GroupPlan:
    before, committed = kept.offsets_before, current.committed
    changed = {
        at: before.get(at)
        for at in sorted(kept.offsets_written)
        if committed.get(at) != before.get(at)
    }
    if not changed:
        return GroupPlan(kept.group_id)
    rows = tuple(
        _row(kept.group_id, at, offset, committed.get(at), logs)
        for at, offset in changed.items()
    )
    rows = tuple(
        _of_recreated(row, force)
        if row.topic in recreated and row.new is not None
        else row
        for row in rows
    )
    wanted = {row.at: row.new for row in rows if row.error is None}
    action = Action.RESTORE
    if not kept.existed and set(committed) <= set(wanted):
        action, wanted = Action.DELETE_GROUP, {}
    elif not wanted:
        return GroupPlan(kept.group_id, rows=rows)
    item = plan_item(action, current, wanted)
    topics = sorted({at.topic for at in wanted})
    ids = {each: logs.topic_ids[each] for each in topics if each in logs.topic_ids}
    item = replace(item, topic_ids=ids)
    if kept.is_share:
        item = as_share_group(item)
    return GroupPlan(kept.group_id, item, rows)


_NOTES: Final = frozenset({resets.Note.NO_COMMIT, resets.Note.OUT_OF_RANGE})
"""The notes of a restored offset. A reset has more of them, which are no news about an
offset that was committed before."""


def _row(
    group_id: GroupId,
    at: TopicPartition,
    offset: client.CommittedOffset | None,
    prior: client.CommittedOffset | None,
    logs: _Logs,
) -> resets.ResetRow:
    if offset is None:
        return resets.ResetRow(group_id, *at, prior=prior, notes=(resets.Note.DELETED,))
    log = resets.PartitionOffsets(
        prior,
        logs.starts.values.get(at),
        logs.ends.values.get(at),
        log_error=logs.starts.errors.get(at) or logs.ends.errors.get(at),
    )
    (row,) = resets.plan_rows(group_id, resets.ToCommits({at: offset}), {at: log})
    return replace(row, notes=tuple(each for each in row.notes if each in _NOTES))


def _of_recreated(row: resets.ResetRow, force: bool) -> resets.ResetRow:
    """Return the row of a topic that is not the one of the snapshot."""
    if force or row.error is not None:
        return replace(row, notes=(*row.notes, resets.Note.RECREATED))
    refused = OperationRefused(
        f"topic {row.topic} was deleted and created again since the write, and the old"
        " offset is of other records: --force restores it nevertheless"
    )
    return replace(row, new=None, error=refused)
