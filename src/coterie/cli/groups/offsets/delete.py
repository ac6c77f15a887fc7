"""Delete what groups committed for some partitions; the groups stay.

Topics that a member reads are refused by the coordinator. The old offsets are kept
first: `coterie groups undo` brings them back. Without --execute, it is only shown what
would be done.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final

from coterie.cli.connect import add_connection_options
from coterie.cli.groups.partitions import add_partition_option
from coterie.cli.groups.selecting import add_selection_options
from coterie.cli.groups.writing import add_write_options, run_writing
from coterie.cli.output.options import add_output_options

if TYPE_CHECKING:
    from coterie.cli.groups.writing import Writing
    from coterie.cli.running import Run

EXAMPLES: Final = """\
examples:
  coterie groups offsets delete billing --partitions refunds
      show which offsets would go
  coterie groups offsets delete billing --partitions refunds --partitions orders:7 \\
      --execute
      forget a topic, and one partition of another

exit codes: 0 all well, 1 an offset could not be deleted, 2 asked for wrongly
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
    add_partition_option(parser, "these; needed")


def run(options: argparse.Namespace) -> int:
    """Delete them, or show what that would be."""
    return run_writing(options, plan)


async def plan(run: Run) -> Writing:
    """Which offsets would be deleted."""
    from coterie.cli.groups.kafka_commands import kafka_command, repeated
    from coterie.cli.groups.meant import meant_groups
    from coterie.cli.groups.partitions import read_scope
    from coterie.cli.groups.writing import Writing
    from coterie.errors import SettingError
    from coterie.operations.planning import plan_delete_offsets

    scope = read_scope(run.options)
    if scope is None:
        raise SettingError(
            "no partitions were chosen; name some with --partitions, or delete the"
            " whole group with `coterie groups delete`"
        )
    meant = await meant_groups(run)
    planned = await plan_delete_offsets(run.admin, meant.ids, scope)
    topics = repeated("--topic", run.options.partitions)
    commands = (
        kafka_command(run.options, "--delete-offsets", "--group", each, *topics)
        for each in meant.ids
    )
    return Writing(planned, meant.failures, meant.said, tuple(commands))
