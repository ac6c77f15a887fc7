"""A change to groups as rows: planned, checked against the cluster, or written.

Rows are partitions, or members for a plan that removes members.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from coterie import client
from coterie import operations as ops
from coterie.cli.command import Run
from coterie.cli.output import outcome as out
from coterie.types import TopicPartition


class PlannedChange(NamedTuple):
    """A change that a command has planned but not written."""

    planned: tuple[ops.GroupPlan, ...]
    failures: tuple[out.Failure, ...] = ()
    """Failures of groups and nodes before anything was planned."""
    summary: str = ""
    """A sentence with the groups that are concerned."""


OFFSET_COLUMNS: Final = (
    out.Column("group_id", "GROUP", role=out.Role.IDENTITY),
    out.Column("topic", "TOPIC", role=out.Role.IDENTITY),
    out.Column("partition", "PARTITION", role=out.Role.IDENTITY),
    out.Column("prior_offset", "PRIOR", drop=3),
    out.Column("new_offset", "NEW"),
    out.Column("delta", "DELTA", drop=2),
    out.Column("lag_after", "LAG-AFTER", drop=1),
    out.Column("notes", "NOTE", role=out.Role.TEXT),
    out.Column("result", "RESULT"),
    out.Column("item_id", "ITEM", is_wide=True),
    out.Column("log_start_offset", "LOG-START-OFFSET", is_wide=True),
    out.Column("log_end_offset", "LOG-END-OFFSET", is_wide=True),
    out.Column("leader_epoch", "LEADER-EPOCH", is_wide=True),
    out.Column("metadata", "METADATA", is_wide=True, role=out.Role.ID),
)
MEMBER_COLUMNS: Final = (
    out.Column("group_id", "GROUP", role=out.Role.IDENTITY),
    out.Column("member_id", "CONSUMER-ID", role=out.Role.ID),
    out.Column("instance_id", "INSTANCE-ID", role=out.Role.ID, drop=1),
    out.Column("result", "RESULT"),
    out.Column("item_id", "ITEM", is_wide=True),
    out.Column("error", "ERROR", is_wide=True, show=out.show_error),
)


def preview_outcome(run: Run, change: PlannedChange, *notes: str) -> out.Outcome:
    """Return the rows of a change that is not written yet."""
    is_empty = not any(
        each.item or each.error or any(row.error for row in each.rows)
        for each in change.planned
    )
    return checked_outcome(
        run, change, (), *notes, "there is nothing to do" if is_empty else ""
    )


def checked_outcome(
    run: Run, change: PlannedChange, results: Sequence[ops.ItemResult], *notes: str
) -> out.Outcome:
    """Return the outcome of a planned change: rows with results, `planned` without.

    Empty notes are left out.
    """
    by_id = {each.item.item_id: each for each in results}
    removes_members = any(
        each.item is not None and each.item.action is ops.Action.REMOVE_MEMBERS
        for each in change.planned
    )
    make_items = member_items if removes_members else offset_items
    items = tuple(
        item
        for each in change.planned
        for item in make_items(
            each, None if each.item is None else by_id.get(each.item.item_id)
        )
    )
    group_failures = (
        out.Failure.of("group", each.group_id, each.error)
        for each in change.planned
        if each.error is not None
    )
    failed_ids = {
        *(each.group_id for each in change.planned if each.error is not None),
        *(item["group_id"] for item in items if item["error"]),
    }
    columns: tuple[out.Column, ...] = MEMBER_COLUMNS
    if not removes_members:
        # The column RESULT shows the outcome; only a failure also has an error code.
        has_errors = any(item["result"] == ops.Verdict.FAILED.value for item in items)
        error = out.Column(
            "error", "ERROR", is_wide=not has_errors, show=out.show_error
        )
        columns = (*OFFSET_COLUMNS, error)
    all_notes = (*_warnings(change, results), *_reasons(results), *notes)
    return out.Outcome(
        schema=f"coterie.{run.options.command.replace(' ', '.')}",
        columns=columns,
        items=items,
        failures=(*change.failures, *group_failures),
        summary={"executed": False, "snapshot_id": None},
        notes=tuple(note for note in all_notes if note),
        unit="groups",
        counts=(
            len(change.planned) - len(failed_ids),
            len(failed_ids) + len(change.failures),
        ),
    )


def written_outcome(
    run: Run,
    change: PlannedChange,
    results: Sequence[ops.ItemResult],
    snapshot: ops.SnapshotWriter,
) -> out.Outcome:
    """Return the rows of a change that was written, and the command that undoes it."""
    undo = ""
    undo_id = snapshot.snapshot_id if snapshot.has_groups else None
    command = f"coterie groups undo {undo_id} --execute"
    unknown = [each.item.group_id for each in results if not each.is_answered]
    if undo_id and any(each.has_written for each in results):
        undo = f"to undo: {command}"
    elif undo_id and unknown:
        names = out.first_names(unknown)
        undo = f"no broker confirmed the write to {names}; if it happened: {command}"
    else:
        undo_id = None
        snapshot.discard()
    outcome = checked_outcome(run, change, results, undo)
    return outcome._replace(summary={"executed": True, "snapshot_id": undo_id})


def offset_items(
    planned: ops.GroupPlan, result: ops.ItemResult | None
) -> Iterator[out.Item]:
    """Return an item for each partition of a group."""
    plan_item = planned.item
    rows = planned.rows
    if result is not None and result.prior is not None:
        rows = _current_rows(planned, result.prior)
    for row in rows:
        is_written = plan_item is not None and (
            row.at in plan_item.wanted or plan_item.action is ops.Action.DELETE_GROUP
        )
        error = out.error_item(row.error)
        if error is None and is_written and result is not None:
            error = _error_of(result, row.at)
        yield {
            "item_id": None if plan_item is None else plan_item.item_id,
            "group_id": row.group_id,
            "topic": row.topic or None,
            "partition": None if row.partition < 0 else row.partition,
            "prior_offset": None if row.prior is None else row.prior.offset,
            "new_offset": None if row.new is None else row.new.offset,
            "delta": row.delta,
            "lag_after": row.lag_after,
            "notes": [note.value for note in row.notes],
            "result": _result_word(result, error, is_written),
            "log_start_offset": row.log_start,
            "log_end_offset": row.log_end,
            "leader_epoch": None if row.new is None else row.new.leader_epoch,
            "metadata": None if row.new is None else row.new.metadata,
            "error": error,
        }


def _current_rows(
    planned: ops.GroupPlan, prior: Mapping[TopicPartition, client.CommittedOffset]
) -> tuple[ops.ResetRow, ...]:
    """Return rows with the committed offsets just before the write, which differ from
    those of the plan when the group has changed since."""
    rows = tuple(
        row if row.partition < 0 else row.with_prior(prior.get(row.at))
        for row in planned.rows
    )
    if planned.item is None or planned.item.action is not ops.Action.DELETE_GROUP:
        return rows
    known = {row.at for row in rows}
    added = tuple(
        ops.ResetRow(planned.group_id, *at, prior=prior[at], notes=(ops.Note.DELETED,))
        for at in prior
        if at not in known
    )
    return (*(row for row in rows if row.partition >= 0 or not added), *added)


def member_items(
    planned: ops.GroupPlan, result: ops.ItemResult | None
) -> Iterator[out.Item]:
    """Yield an item for each member to remove."""
    if planned.item is None:
        return
    for member in planned.item.members:
        error = None if result is None else _error_of(result, member)
        yield {
            "item_id": planned.item.item_id,
            "group_id": planned.group_id,
            "member_id": member.member_id or None,
            "instance_id": member.instance_id,
            "result": _result_word(result, error),
            "error": error,
        }


def _error_of(
    result: ops.ItemResult, part: TopicPartition | ops.MemberEntry
) -> out.Item | None:
    """Return the error of a partition or member, or else that of the whole item."""
    if part in result.errors:
        return out.error_item(result.errors[part])
    if result.errors or not result.verdict.is_bad:
        return None
    return {"code": result.verdict.name, "message": "; ".join(result.reasons)}


def _result_word(
    result: ops.ItemResult | None, error: out.Item | None, is_written: bool = True
) -> str:
    """Return the word for the result of a partition or member."""
    verdict = None if result is None else result.verdict
    if error is not None:
        return "refused" if verdict is ops.Verdict.REFUSED else "failed"
    if not is_written:
        return "nothing to do"
    if verdict is None or verdict is ops.Verdict.READY:
        return "planned"
    return "done" if verdict is ops.Verdict.PARTIAL else str(verdict.value)


def _warnings(
    change: PlannedChange, results: Iterable[ops.ItemResult]
) -> Iterator[str]:
    """Return a sentence for the groups with the same warning."""
    alike: dict[str, dict[str, None]] = {}
    by_group = [(each.group_id, each.warnings) for each in change.planned]
    by_group += [(each.item.group_id, each.warnings) for each in results]
    for group_id, warnings in by_group:
        for warning in warnings:
            alike.setdefault(warning, {})[group_id] = None
    for warning, ids in alike.items():
        yield f"warning: {out.first_names([*ids])}: {warning}"


def _reasons(results: Iterable[ops.ItemResult]) -> Iterator[str]:
    """Return a sentence for the groups that were refused, failed or forced for the same
    reason."""
    alike: dict[tuple[str, str, str], list[str]] = {}
    for each in results:
        one, many = "is written with --force", "are written with --force"
        if each.verdict is ops.Verdict.REFUSED:
            one, many = "is refused", "are refused"
        elif each.verdict.is_bad:
            one = many = "failed"
        if each.reasons:
            key = (one, many, "; ".join(each.reasons))
            alike.setdefault(key, []).append(each.item.group_id)
    for (one, many, reason), ids in alike.items():
        if len(ids) == 1:
            yield f"group {ids[0]} {one}: {reason}"
        else:
            yield f"{len(ids)} groups ({out.first_names(ids)}) {many}: {reason}"


def planned_from_item(item: ops.PlanItem) -> ops.GroupPlan:
    """Return an item of a plan file as rows; a plan file has no log offsets."""
    prior = {entry.at: entry.committed for entry in item.seen.offsets}
    wanted = item.wanted
    if item.action is ops.Action.DELETE_GROUP:
        wanted = dict.fromkeys(prior)
    rows = tuple(
        ops.ResetRow(
            item.group_id,
            *at,
            prior=prior.get(at),
            new=new,
            notes=(ops.Note.DELETED,) if new is None else (),
        )
        for at, new in wanted.items()
    )
    return ops.GroupPlan(
        item.group_id, item, rows or (ops.ResetRow(item.group_id, "", -1),)
    )
