"""Commands that write to groups: plan, preview, confirm, snapshot, apply.

A command supplies `plan(run)`, which returns a `PlannedChange` and writes nothing.
`coterie groups plan` calls the same function and writes a plan file instead. Rules:
nothing is written without --execute or --yes; at a terminal --execute asks first; the
committed offsets are saved in a snapshot before the first write.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final, TypeAlias

from coterie import operations as ops
from coterie.cli import command
from coterie.cli.groups.change_rows import (
    PlannedChange,
    preview_outcome,
    written_outcome,
)
from coterie.cli.groups.selection import leave_out, left_out_note
from coterie.cli.output import emit
from coterie.cli.output.outcome import Outcome
from coterie.errors import UnsupportedGroupType
from coterie.files import user_directory

PlanFunction: TypeAlias = "Callable[[command.Run], Awaitable[PlannedChange]]"


def add_write_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options of every command that writes to groups."""
    add = command.add_execute_options(parser).add_argument
    add(
        "--force",
        action="store_true",
        help="write even to groups that changed since they were read",
    )
    add(
        "--snapshots",
        metavar="DIR",
        help="directory of the snapshots that `coterie groups undo` restores "
        "(default: coterie/snapshots in $XDG_STATE_HOME, or in ~/.local/state)",
    )


WRITE_OPTIONS: Final = (add_write_options, *command.CLUSTER_OPTIONS)


def writes(plan: PlanFunction) -> Callable[[argparse.Namespace], int]:
    """Return a `run` function that applies the change that `plan` returns."""
    return partial(command.run_on_cluster, work=partial(_plan_and_apply, plan))


async def _plan_and_apply(plan: PlanFunction, run: command.Run) -> Outcome:
    change = await make_change(plan, run)
    items = ops.items_of(change.planned)
    if not items or not may_write(run):
        hint = command.EXECUTE_HINT if items else ""
        return preview_outcome(run, change, change.summary, hint)
    if not confirm_write(run, preview_outcome(run, change), change.summary, len(items)):
        return preview_outcome(run, change, "nothing was written")
    snapshot = await open_snapshot(run)
    results = await apply_with_progress(run, items, snapshot)
    return written_outcome(run, change, results, snapshot)


async def make_change(plan: PlanFunction, run: command.Run) -> PlannedChange:
    """Plan a change. A group whose type does not support it is left out, with a note,
    unless the command line names the group."""
    change = await plan(run)
    named = getattr(run.options, "groups", None)
    if named is None:  # a command about one group
        return change
    ids = [
        each.group_id
        for each in change.planned
        if isinstance(each.error, UnsupportedGroupType) and each.group_id not in named
    ]
    others = leave_out(run.options, change.failures)
    return change._replace(
        planned=tuple(each for each in change.planned if each.group_id not in ids),
        failures=others.kept,
        summary="; ".join([change.summary, *left_out_note([*others.ids, *ids])]),
    )


def may_write(run: command.Run) -> bool:
    """Return whether --execute or --yes was given."""
    return bool(run.options.execute or run.options.yes)


def confirm_write(run: command.Run, preview: Outcome, summary: str, count: int) -> bool:
    """Print the groups to write to, and at a terminal ask for confirmation.

    Return True without a question when --yes was given or there is no terminal. Raises
    SettingError for --columns that the result does not have.
    """
    emit.check_columns(preview, run.options)
    run.progress.clear()
    emit.write_message(run.io, summary)
    if run.options.yes or not emit.is_interactive(run.io):
        return True
    groups = "1 group" if count == 1 else f"{count} groups"
    return emit.confirm(run.io, preview, run.options, f"Write to {groups}?")


async def apply_with_progress(
    run: command.Run,
    items: Sequence[ops.PlanItem],
    snapshot: ops.SnapshotWriter,
    on_result: ops.OnResult | None = None,
) -> tuple[ops.ItemResult, ...]:
    """Apply plan items and show a progress bar."""
    done = 0
    is_complete = False

    def count_result(result: ops.ItemResult) -> None:
        nonlocal done
        done += 1
        run.progress(done, len(items))
        if on_result is not None:
            on_result(result)

    try:
        results = await ops.apply_items(
            run.admin, items, snapshot, force=run.options.force, on_result=count_result
        )
        is_complete = True
    finally:
        if not is_complete and snapshot.has_groups:
            run.progress.clear()
            undo = f"coterie groups undo {snapshot.snapshot_id} --execute"
            emit.write_message(
                run.io,
                f"interrupted after {done} of {len(items)} groups; to undo: {undo}",
            )
    return results


async def open_snapshot(run: command.Run, plan_id: str = "") -> ops.SnapshotWriter:
    """Return the writer of the snapshot of this run."""
    return await ops.open_snapshot(
        run.admin,
        snapshot_directory(run.options),
        command=f"coterie {run.options.command}",
        plan_id=plan_id,
        now=run.io.clock(),
    )


def snapshot_directory(options: argparse.Namespace) -> Path:
    """Return the directory of --snapshots, or the default below XDG_STATE_HOME. Raises
    SettingError."""
    if options.snapshots:
        return Path(options.snapshots)
    state = user_directory(os.environ, "XDG_STATE_HOME", ".local/state")
    return state / "coterie" / "snapshots"
