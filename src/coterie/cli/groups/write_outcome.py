"""Shows what is planned or was done: one item a partition, or a member."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from coterie.cli.groups.writing import Writing
from coterie.cli.output.values import (
    Column,
    Failure,
    Item,
    Outcome,
    error_item,
    show_error,
)
from coterie.cli.running import Run
from coterie.operations.apply import ItemResult, Verdict
from coterie.operations.plan import Action, MemberEntry, PlanItem
from coterie.operations.planning import Planned
from coterie.operations.reset import Note, ResetRow
from coterie.operations.snapshots import SnapshotWriter
from coterie.types import TopicPartition

OFFSET_COLUMNS: Final = (
    Column("group_id", "GROUP"),
    Column("topic", "TOPIC"),
    Column("partition", "PARTITION"),
    Column("prior_offset", "PRIOR"),
    Column("new_offset", "NEW"),
    Column("delta", "DELTA"),
    Column("lag_after", "LAG-AFTER"),
    Column("notes", "NOTE"),
    Column("result", "RESULT"),
    Column("item_id", "ITEM", is_wide=True),
    Column("log_start_offset", "LOG-START-OFFSET", is_wide=True),
    Column("log_end_offset", "LOG-END-OFFSET", is_wide=True),
    Column("leader_epoch", "LEADER-EPOCH", is_wide=True),
    Column("metadata", "METADATA", is_wide=True),
)
MEMBER_COLUMNS: Final = (
    Column("group_id", "GROUP"),
    Column("member_id", "CONSUMER-ID"),
    Column("instance_id", "INSTANCE-ID"),
    Column("result", "RESULT"),
    Column("item_id", "ITEM", is_wide=True),
    Column("error", "ERROR", is_wide=True, show=show_error),
)
_NOT_GOOD: Final = frozenset({Verdict.REFUSED, Verdict.FAILED, Verdict.PARTIAL})


def preview_of(run: Run, writing: Writing, *notes: str) -> Outcome:
    """What is planned."""
    empty = not any(
        each.item or each.error or any(row.error for row in each.rows)
        for each in writing.planned
    )
    return _outcome(
        run,
        writing,
        {},
        notes=(
            *_kafka_notes(run, writing),
            *notes,
            "there is nothing to do" if empty else "",
        ),
    )


def checked_of(
    run: Run, writing: Writing, results: Sequence[ItemResult], *notes: str
) -> Outcome:
    """What would become of a plan's items."""
    return _outcome(
        run,
        writing,
        {each.item.item_id: each for each in results},
        notes=(
            *_kafka_notes(run, writing),
            *_reasons(results),
            *notes,
        ),
    )


def done_of(
    run: Run,
    writing: Writing,
    results: Sequence[ItemResult],
    keeper: SnapshotWriter | None = None,
) -> Outcome:
    """What was done, and how to take it back."""
    kept = snapshot_of(keeper, results)
    outcome = _outcome(
        run,
        writing,
        {each.item.item_id: each for each in results},
        notes=(*_kafka_notes(run, writing), *_reasons(results), undo_note(kept)),
    )
    return replace(outcome, summary={"executed": True, "snapshot_id": kept})


def snapshot_of(
    keeper: SnapshotWriter | None, results: Iterable[ItemResult]
) -> str | None:
    """The snapshot that takes it back, if there may be anything to take back."""
    if keeper is None or not keeper.has_kept:
        return None
    written = any(each.may_have_written for each in results)
    return keeper.snapshot_id if written else None


def _failures(planned: Iterable[Planned]) -> Iterator[Failure]:
    for each in planned:
        if each.error is not None:
            yield Failure.of("group", each.group_id, each.error)


def undo_note(snapshot_id: str | None) -> str:
    """How to take back what was written, if anything was."""
    if snapshot_id is None:
        return ""
    return f"to take it back: coterie groups undo {snapshot_id} --execute"


def _outcome(
    run: Run,
    writing: Writing,
    results: Mapping[str, ItemResult],
    notes: Iterable[str] = (),
) -> Outcome:
    is_about_members = any(
        each.item is not None and each.item.action is Action.REMOVE_MEMBERS
        for each in writing.planned
    )
    make_items = member_items if is_about_members else offset_items
    items = tuple(
        item
        for each in writing.planned
        for item in make_items(each, _result(each, results))
    )
    return Outcome(
        schema=f"coterie.{run.options.command.replace(' ', '.')}",
        columns=MEMBER_COLUMNS if is_about_members else _offset_columns(items),
        items=items,
        failures=(*writing.failures, *_failures(writing.planned)),
        summary={"executed": False, "snapshot_id": None},
        notes=tuple(note for note in notes if note),
    )


def _offset_columns(items: Sequence[Item]) -> tuple[Column, ...]:
    """The columns; errors have one when it says more than the result."""
    has_errors = any(item["result"] == Verdict.FAILED.value for item in items)
    error = Column("error", "ERROR", is_wide=not has_errors, show=show_error)
    return (*OFFSET_COLUMNS, error)


def _result(planned: Planned, by_id: Mapping[str, ItemResult]) -> ItemResult | None:
    return None if planned.item is None else by_id.get(planned.item.item_id)


def offset_items(planned: Planned, result: ItemResult | None) -> Iterator[Item]:
    """One item for each row of a group."""
    for row in planned.rows:
        is_written = _is_written(planned, row)
        error = error_item(row.error)
        if error is None and is_written and result is not None:
            error = _error_of(result, row.at)
        yield {
            "item_id": None if planned.item is None else planned.item.item_id,
            "group_id": row.group_id,
            "topic": row.topic or None,
            "partition": None if row.partition < 0 else row.partition,
            "prior_offset": None if row.prior is None else row.prior.offset,
            "new_offset": None if row.new is None else row.new.offset,
            "delta": row.delta,
            "lag_after": row.lag_after,
            "notes": [note.value for note in row.notes],
            "result": _word(result, error, is_written),
            "log_start_offset": row.log_start,
            "log_end_offset": row.log_end,
            "leader_epoch": None if row.new is None else row.new.leader_epoch,
            "metadata": None if row.new is None else row.new.metadata,
            "error": error,
        }


def member_items(planned: Planned, result: ItemResult | None) -> Iterator[Item]:
    """One item for each member that is to leave."""
    if planned.item is None:
        return
    for member in planned.item.members:
        error = None if result is None else _error_of(result, member)
        yield {
            "item_id": planned.item.item_id,
            "group_id": planned.group_id,
            "member_id": member.member_id or None,
            "instance_id": member.instance_id,
            "result": _word(result, error),
            "error": error,
        }


def _is_written(planned: Planned, row: ResetRow) -> bool:
    """Whether a row is about something that the item writes."""
    return planned.item is not None and (
        row.at in planned.item.wanted or planned.item.action is Action.DELETE_GROUP
    )


def _error_of(result: ItemResult, part: TopicPartition | MemberEntry) -> Item | None:
    """Why a part of an item was not done: for its own reason, or that of the whole."""
    if part in result.errors:
        return error_item(result.errors[part])
    if result.errors or result.verdict not in _NOT_GOOD:
        return None
    return {"code": result.verdict.name, "message": "; ".join(result.reasons)}


def _word(
    result: ItemResult | None, error: Item | None, is_written: bool = True
) -> str:
    """What became of a part of an item, in a word."""
    verdict = None if result is None else result.verdict
    if error is not None:
        return "refused" if verdict is Verdict.REFUSED else "failed"
    if not is_written:
        return "nothing to do"
    if verdict is None or verdict is Verdict.READY:
        return "planned"
    return "done" if verdict is Verdict.PARTIAL else str(verdict.value)


def _kafka_notes(run: Run, writing: Writing) -> Iterator[str]:
    if run.options.print_kafka_command:
        yield "with Kafka's own script:"
        yield from (f"  {each}" for each in writing.kafka_commands)


def _reasons(results: Iterable[ItemResult]) -> Iterator[str]:
    """Why items were not done, or had to be forced; a sentence a group."""
    for each in results:
        how = "is written to by force"
        if each.verdict in _NOT_GOOD:
            how = {Verdict.REFUSED: "is refused"}.get(each.verdict, "failed")
        if each.reasons:
            yield f"group {each.item.group_id} {how}: {'; '.join(each.reasons)}"


def planned_of(item: PlanItem) -> Planned:
    """An item of a plan file for those who look at it, without the ends of the logs."""
    before = {entry.at: entry.committed for entry in item.seen.offsets}
    wanted = item.wanted
    if item.action is Action.DELETE_GROUP:
        wanted = dict.fromkeys(before)
    rows = tuple(
        ResetRow(
            item.group_id,
            *at,
            prior=before.get(at),
            new=new,
            notes=(Note.DELETED,) if new is None else (),
        )
        for at, new in wanted.items()
    )
    return Planned(item.group_id, item, rows or (ResetRow(item.group_id, "", -1),))
