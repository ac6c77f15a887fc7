"""Delete groups that have no members, with all their offsets.

Each group is read again just before it is deleted, and left alone if it gained a
member or a commit meanwhile. Its offsets are kept first: `coterie groups undo` brings
them back. Without --execute, it is only shown what would be done.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final

from coterie.cli.connect import add_connection_options
from coterie.cli.groups.selecting import add_selection_options
from coterie.cli.groups.writing import add_write_options, run_writing
from coterie.cli.output.options import add_output_options

if TYPE_CHECKING:
    from coterie.cli.groups.writing import Writing
    from coterie.cli.running import Run

EXAMPLES: Final = """\
examples:
  coterie groups delete billing-test
      show which offsets would go
  coterie groups delete billing-test billing-old --execute
      delete two groups
  coterie groups delete --empty --orphaned --exclude 'prod-*' --execute --yes
      clean up, in a script: nobody is there, and their topics are gone

An Empty group need not be abandoned: consumers that assign partitions themselves have
no members, and some jobs run once a month. `coterie groups plan` writes a list that can
be reviewed first.

exit codes: 0 all well, 1 a group could not be deleted, 2 asked for wrongly
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    configure_plan(parser)
    add_write_options(parser)
    add_output_options(parser)
    add_connection_options(parser)


def configure_plan(parser: argparse.ArgumentParser) -> None:
    """Declare what is to be done to which groups."""
    add_selection_options(parser)


def run(options: argparse.Namespace) -> int:
    """Delete them, or show what that would be."""
    return run_writing(options, plan)


async def plan(run: Run) -> Writing:
    """Which groups may be deleted."""
    from coterie.cli.groups.kafka_commands import kafka_command, repeated
    from coterie.cli.groups.meant import meant_groups
    from coterie.cli.groups.writing import Writing
    from coterie.operations.planning import plan_delete_groups

    meant = await meant_groups(run)
    planned = await plan_delete_groups(run.admin, meant.ids)
    groups = repeated("--group", meant.ids)
    command = kafka_command(run.options, "--delete", *groups)
    return Writing(planned, meant.failures, meant.said, (command,))
