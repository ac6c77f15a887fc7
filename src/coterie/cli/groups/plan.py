"""`coterie groups plan`, `apply` and `undo`: changes that are reviewed, applied later,
and undone."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from coterie import operations as ops
from coterie.cli.command import CLUSTER_OPTIONS, EXECUTE_HINT, Command, Run, on_cluster
from coterie.cli.groups import change_rows, delete, offsets, reset, write
from coterie.cli.groups.selection import add_selection_options, create_file
from coterie.cli.output.emit import emit, write_message
from coterie.cli.output.outcome import Column, Outcome, Role
from coterie.errors import OperationRefused, OutputError, SettingError


class _Action(NamedTuple):
    """A change that can be written to a plan file."""

    name: str
    summary: str
    command: Command
    declare: Callable[[argparse.ArgumentParser], None]
    """The function that declares the options of the groups and the change."""
    plan: write.PlanFunction
    example: str


_ACTIONS: Final = (
    _Action(
        "reset",
        "Reset committed offsets",
        *(reset.RESET, reset.declare_reset, reset.plan_reset),
        "billing --to-earliest",
    ),
    _Action(
        "set",
        "Commit exact offsets",
        *(offsets.SET, offsets.declare_set, offsets.plan_set),
        "billing orders:0=1500",
    ),
    _Action(
        "import",
        "Commit the offsets of a file",
        *(offsets.IMPORT, offsets.declare_import, offsets.plan_import),
        "offsets.json",
    ),
    _Action(
        "delete-offsets",
        "Delete committed offsets",
        *(offsets.DELETE, offsets.declare_delete, offsets.plan_delete),
        "billing --partitions refunds",
    ),
    _Action(
        "delete",
        "Delete groups that have no members",
        *(delete.DELETE, add_selection_options, delete.plan_delete),
        "--empty --orphaned",
    ),
    _Action(
        "clone",
        "Copy the offsets of a group to another",
        *(reset.CLONE, reset.declare_clone, reset.plan_clone_offsets),
        "billing billing-v2",
    ),
    _Action(
        "remove-members",
        "Remove members from a group",
        *(delete.REMOVE_MEMBERS, delete.declare_members, delete.plan_remove),
        "billing --all",
    ),
)


def _declare_plan(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("plan_file", metavar="FILE", help="path of the new plan file")
    actions = parser.add_subparsers(metavar="ACTION", required=True)
    for action in _ACTIONS:
        example = f"coterie groups plan FILE {action.name} {action.example}"
        subparser = actions.add_parser(
            action.name,
            help=action.summary,
            description=action.command.description,
            epilog=f"example:\n  {example}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        for declare in (action.declare, *CLUSTER_OPTIONS):
            declare(subparser)
        subparser.set_defaults(make_plan=action.plan)


async def write_plan(run: Run) -> Outcome:
    """Plan a change, write it to the plan file, and return its rows."""
    change = await write.make_change(run.options.make_plan, run)
    items = ops.items_of(change.planned)
    if not items:
        return change_rows.preview_outcome(
            run, change, change.summary, "no plan was written"
        )
    file = run.options.plan_file
    cluster = await run.admin.brokers.describe()
    plan = ops.Plan(
        ops.new_id(run.io.clock()),
        ops.utc_text(run.io.now_ms()),
        cluster.cluster_id,
        items,
        f"coterie {run.options.command}",
    )
    create_file(file, ops.encode_plan(plan))
    count = "1 item is" if len(items) == 1 else f"{len(items)} items are"
    hint = f"{count} in {file}: coterie groups apply {file} --execute"
    return change_rows.preview_outcome(run, change, change.summary, hint)


PLAN: Final = Command(
    description="""\
Write a change of groups to a plan file, to be reviewed and then applied.

The file contains every group as it was read: state, members, epochs and offsets.
`coterie groups apply` refuses a group that has changed since. This command writes to no
group. docs/plan-files.md describes the file.
""",
    examples="""\
examples:
  coterie groups plan cleanup.json delete --empty --orphaned
      delete groups whose topics no longer exist
  coterie groups plan monday.json reset --glob 'billing-*' --by-duration 2d
      reset many groups
  coterie groups plan move.json clone billing billing-v2
  coterie groups apply cleanup.json --execute
      after the review

exit codes: 0 success, 1 a group could not be planned for (the file has the others),
2 usage error
""",
    options=(_declare_plan,),
    run=on_cluster(write_plan),
)


def _declare_apply(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("plan_file", metavar="FILE", help="path of the plan file")
    parser.add_argument(
        "--item", metavar="ID", action="append", help="item to apply; may be repeated"
    )
    parser.add_argument(
        "--results",
        metavar="FILE",
        help="path of the result file (default: the plan file's plus .results.jsonl)",
    )


async def apply(run: Run) -> Outcome:
    """Check the items of a plan file against the cluster; write them with --execute."""
    options = run.options
    plan = ops.read_plan(Path(options.plan_file))
    result_path = Path(options.results or options.plan_file + ops.RESULTS_SUFFIX)
    result_file = ops.ResultFile(result_path, plan)
    items = chosen_items(plan, options.item)
    open_items = [each for each in items if not result_file.is_done(each.item_id)]
    checked = await _check(run, plan, open_items)
    summary = f"items left to do: {len(open_items)} of {len(plan.items)}"
    change = change_rows.PlannedChange(
        tuple(change_rows.planned_from_item(item) for item in items),
        summary=summary,
    )
    earlier = tuple(
        result_file.result_of(each) for each in items if each not in open_items
    )
    results = (*earlier, *checked)
    count = sum(1 for each in checked if each.verdict is ops.Verdict.READY)
    if not count or not write.may_write(run):
        hint = EXECUTE_HINT if count else ""
        return change_rows.checked_outcome(run, change, results, summary, hint)
    if not write.confirm_write(
        run, change_rows.checked_outcome(run, change, results), summary, count
    ):
        return change_rows.checked_outcome(run, change, results, "nothing was written")
    ready = [each.item for each in checked if each.verdict is not ops.Verdict.REFUSED]
    refused = [each for each in checked if each.verdict is ops.Verdict.REFUSED]
    snapshot = await write.open_snapshot(run, plan.plan_id)
    result_file.begin()

    def record(result: ops.ItemResult) -> None:
        may_be_written = result.has_written or not result.is_answered
        snapshot_id = snapshot.snapshot_id if may_be_written else ""
        try:
            result_file.add(result, run.io.now_ms(), snapshot_id)
        except (OutputError, SettingError) as error:
            # Only the result line is missing. A second run compares the item with the
            # cluster and skips it, because it is already applied.
            item_id = result.item.item_id
            run.progress.clear()
            write_message(run.io, f"cannot record the result of {item_id}: {error}")

    for each in refused:
        record(each)
    applied = await write.apply_with_progress(run, ready, snapshot, record)
    return change_rows.written_outcome(
        run, change, (*earlier, *refused, *applied), snapshot
    )


async def _check(
    run: Run, plan: ops.Plan, items: Sequence[ops.PlanItem]
) -> tuple[ops.ItemResult, ...]:
    """Return for each item whether it can be applied.

    Raises OperationRefused for a plan of another cluster.
    """
    cluster = await run.admin.brokers.describe()
    if cluster.cluster_id != plan.cluster_id and not run.options.force:
        raise OperationRefused(
            f"the plan {run.options.plan_file} is for cluster {plan.cluster_id}, and "
            f"this is {cluster.cluster_id}: nothing was written; connect to the other "
            "cluster, or use --force"
        )
    return await ops.check_items(run.admin, items, force=run.options.force)


def chosen_items(plan: ops.Plan, ids: Sequence[str] | None) -> tuple[ops.PlanItem, ...]:
    """Return the items with these ids in the plan's order, or all items.

    Raises SettingError for an unknown id.
    """
    known = {item.item_id for item in plan.items}
    for each in ids or ():
        if each not in known:
            raise SettingError(f"the plan has no item {each!r}; --wide shows its ids")
    return tuple(item for item in plan.items if not ids or item.item_id in ids)


APPLY: Final = Command(
    description="""\
Apply a plan file to groups that have not changed since the plan was written.

Every group is read again just before. A group that has changed is refused; an item that
is already applied is skipped, so an interrupted plan can be applied again. The result
of each item is written to a file beside the plan. Without --execute, the change is only
shown.
""",
    examples="""\
examples:
  coterie groups apply cleanup.json
      read every group again; show what would be written and what refused
  coterie groups apply cleanup.json --execute
      write it
  coterie groups apply cleanup.json --item delete-group:billing-test --execute
      one item of it
  coterie groups apply cleanup.json --execute --yes --output jsonl
      in a script, with a line for each partition

exit codes: 0 success, 1 an item was refused or failed, 2 usage error
""",
    options=(_declare_apply, *write.WRITE_OPTIONS),
    run=on_cluster(apply),
)


def _declare_undo(parser: argparse.ArgumentParser) -> None:
    group = parser.add_mutually_exclusive_group(required=True)
    group.add_argument("snapshot", metavar="ID", nargs="?", help="snapshot id")
    group.add_argument("--list", action="store_true", help="list the snapshots")


def undo(options: argparse.Namespace) -> int:
    """Restore a snapshot, or list the snapshots."""
    if options.list:
        return emit(list_snapshots(options), options)
    return write.writes(plan_undo)(options)


async def plan_undo(run: Run) -> change_rows.PlannedChange:
    """Plan to restore the groups of a snapshot. Raises SettingError."""
    options = run.options
    snapshot = ops.read_snapshot(write.snapshot_directory(options), options.snapshot)
    cluster = await run.admin.brokers.describe()
    if cluster.cluster_id != snapshot.head.cluster_id and not options.force:
        raise SettingError(
            f"snapshot {options.snapshot} is of cluster {snapshot.head.cluster_id}, "
            f"but this is cluster {cluster.cluster_id}: connect to the other cluster, "
            "or use --force"
        )
    planned = await ops.plan_undo(run.admin, snapshot, force=options.force)
    groups = len(snapshot.groups)
    count = "1 group" if groups == 1 else f"{groups} groups"
    return change_rows.PlannedChange(
        planned,
        summary=f"{count} of {snapshot.head.command}, {snapshot.head.taken_at}",
    )


def list_snapshots(options: argparse.Namespace) -> Outcome:
    """Return a row for each snapshot. Raises SettingError."""
    directory = write.snapshot_directory(options)
    return Outcome(
        schema="coterie.groups.undo.list",
        columns=(
            Column("snapshot_id", "ID", role=Role.IDENTITY),
            Column("taken_at", "TAKEN-AT", drop=1),
            Column("command", "COMMAND", role=Role.TEXT),
            Column("group_count", "GROUPS"),
            Column("group_ids", "IDS", is_wide=True, role=Role.TEXT),
            Column("plan_id", "PLAN", is_wide=True),
            Column("cluster_id", "CLUSTER", is_wide=True, role=Role.ID),
        ),
        items=tuple(
            {
                "snapshot_id": each.head.snapshot_id,
                "taken_at": each.head.taken_at,
                "command": each.head.command,
                "group_count": len(each.groups),
                "group_ids": [group.group_id for group in each.groups],
                "plan_id": each.head.plan_id or None,
                "cluster_id": each.head.cluster_id,
            }
            for each in ops.list_snapshots(directory)
        ),
        notes=(f"in {directory}",),
    )


UNDO: Final = Command(
    description="""\
Undo an earlier command by restoring the committed offsets that it replaced.

Every command that writes saves the offsets of its groups in a snapshot first. A group
is restored only while it is unchanged since the write; a deleted group is created again
with its offsets. Offsets of a topic that was created again since are refused. The undo
saves a snapshot too. Removed members are not restored. Without --execute, the change is
only shown.
""",
    examples="""\
examples:
  coterie groups undo --list
      the snapshots, newest first
  coterie groups undo 20261121-104700-3f2a
      show the change
  coterie groups undo 20261121-104700-3f2a --execute
      restore the old offsets
  coterie groups undo 20261121-104700-3f2a --force --execute
      restore groups that have changed since, too

exit codes: 0 success, 1 a group could not be restored, 2 usage error
""",
    options=(_declare_undo, *write.WRITE_OPTIONS),
    run=undo,
)
