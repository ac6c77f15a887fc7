"""Take back what an earlier command wrote.

Before anything is written, the offsets of its groups are kept in a snapshot. A group
is brought back only while it is as the write left it; a deleted group comes back with
its offsets. This, too, can be undone. Members that were removed do not come back by
it. Without --execute, it is only shown what would be done.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final

from coterie.cli.connect import add_connection_options
from coterie.cli.groups.writing import add_write_options
from coterie.cli.output.options import add_output_options

if TYPE_CHECKING:
    from coterie.cli.groups.writing import Writing
    from coterie.cli.output.values import Outcome
    from coterie.cli.running import Run

EXAMPLES: Final = """\
examples:
  coterie groups undo --list
      what can be taken back, the newest first
  coterie groups undo 20261121-104700-3f2a
      show what would change
  coterie groups undo 20261121-104700-3f2a --execute
      bring the old offsets back
  coterie groups undo 20261121-104700-3f2a --force --execute
      also of groups that went on since

exit codes: 0 all well, 1 a group could not be brought back, 2 asked for wrongly
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("snapshot", metavar="ID", nargs="?", help="the snapshot's id")
    which.add_argument("--list", action="store_true", help="show what there is")
    add_write_options(parser)
    add_output_options(parser)
    add_connection_options(parser)


def run(options: argparse.Namespace) -> int:
    """Bring it back, or show what that would be; or list what there is."""
    from coterie.cli.groups.writing import run_writing

    if options.list:
        from coterie.cli.output.emit import emit

        return emit(listed(options), options)
    return run_writing(options, plan)


async def plan(run: Run) -> Writing:
    """What bringing the groups of a snapshot back comes to. Raises SettingError."""
    from coterie.cli.groups.writing import Writing, snapshot_directory
    from coterie.errors import SettingError
    from coterie.operations.snapshots import read_snapshot
    from coterie.operations.undo import plan_undo

    options = run.options
    snapshot = read_snapshot(snapshot_directory(options), options.snapshot)
    cluster = await run.admin.describe_cluster()
    if cluster.cluster_id != snapshot.head.cluster_id and not options.force:
        raise SettingError(
            f"the snapshot is of cluster {snapshot.head.cluster_id}, and this is"
            f" {cluster.cluster_id}"
        )
    planned = await plan_undo(run.admin, snapshot, force=options.force)
    groups = len(snapshot.groups)
    count = "1 group" if groups == 1 else f"{groups} groups"
    said = f"{count} of {snapshot.head.command}, {snapshot.head.taken_at}"
    return Writing(planned, (), said, ("(it has no undo)",))


def listed(options: argparse.Namespace) -> Outcome:
    """The snapshots that there are. Raises SettingError."""
    from coterie.cli.groups.writing import snapshot_directory
    from coterie.cli.output.values import Column, Outcome
    from coterie.operations.snapshots import list_snapshots

    directory = snapshot_directory(options)
    return Outcome(
        schema="coterie.groups.undo.list",
        columns=(
            Column("snapshot_id", "ID"),
            Column("taken_at", "TAKEN-AT"),
            Column("command", "COMMAND"),
            Column("group_count", "GROUPS"),
            Column("group_ids", "IDS", is_wide=True),
            Column("plan_id", "PLAN", is_wide=True),
            Column("cluster_id", "CLUSTER", is_wide=True),
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
            for each in list_snapshots(directory)
        ),
        notes=(f"in {directory}",),
    )
