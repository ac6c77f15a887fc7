"""Give one group the offsets of another, with metadata and epochs.

The group that gets them must have no members; it is made if it does not exist. What it
committed for other partitions stays. Without --execute, it is only shown what would be
done.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final

from coterie.cli.connect import add_connection_options
from coterie.cli.groups.writing import add_write_options, run_writing
from coterie.cli.output.options import add_output_options

if TYPE_CHECKING:
    from coterie.cli.groups.writing import Writing
    from coterie.cli.running import Run

EXAMPLES: Final = """\
examples:
  coterie groups clone billing billing-v2
      show what billing-v2 would start from
  coterie groups clone billing billing-v2 --execute
      do it; billing may go on meanwhile
  coterie groups clone billing billing-v2 --topic orders --topic refunds --execute
      two topics only

exit codes: 0 all well, 1 it could not be done, 2 asked for wrongly
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    configure_plan(parser)
    add_write_options(parser)
    add_output_options(parser)
    add_connection_options(parser)


def configure_plan(parser: argparse.ArgumentParser) -> None:
    """Declare what is to be done to which groups."""
    parser.add_argument("source", metavar="SOURCE", help="whose offsets")
    parser.add_argument("destination", metavar="DESTINATION", help="who gets them")
    parser.add_argument(
        "--topic", metavar="TOPIC", action="append", help="only of these topics"
    )


def run(options: argparse.Namespace) -> int:
    """Clone it, or show what that would be."""
    return run_writing(options, plan)


async def plan(run: Run) -> Writing:
    """What the group would have committed."""
    from coterie.cli.groups.writing import Writing
    from coterie.errors import SettingError
    from coterie.operations.planning import plan_clone

    source, destination = run.options.source, run.options.destination
    if source == destination:
        raise SettingError("a group is no clone of itself; name two")
    topics = run.options.topic or ()
    planned = await plan_clone(run.admin, source, destination, topics)
    said = f"{destination} gets the offsets of {source}"
    return Writing((planned,), (), said, _kafka_commands(run.options))


def _kafka_commands(options: argparse.Namespace) -> tuple[str, ...]:
    from coterie.cli.groups.kafka_commands import kafka_command, repeated

    scope = repeated("--topic", options.topic or ()) or ["--all-topics"]
    export = ("--reset-offsets", "--group", options.source, *scope, "--to-current")
    load = ("--reset-offsets", "--group", options.destination, "--from-file")
    return (
        kafka_command(options, *export, "--dry-run", "--export") + " > offsets.csv",
        kafka_command(options, *load, "offsets.csv", "--execute"),
    )
