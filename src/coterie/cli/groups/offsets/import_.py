"""Commit the offsets of a file for groups that have no members.

The file is one of `coterie groups offsets export`, or CSV of Kafka's own script. The
offsets are taken exactly, and are not clamped to what the log has; a note says where
they lie outside. Without --execute, it is only shown what would be done.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final

from coterie.cli.connect import add_connection_options
from coterie.cli.groups.writing import add_write_options, run_writing
from coterie.cli.output.options import add_output_options

if TYPE_CHECKING:
    from collections.abc import Mapping

    from coterie.cli.groups.writing import Writing
    from coterie.cli.running import Run
    from coterie.operations.reset import Scenario
    from coterie.types import GroupId

EXAMPLES: Final = """\
examples:
  coterie groups offsets import billing.json
      show what would change
  coterie groups offsets import billing.json --execute
      do it, for every group of the file
  coterie groups offsets import billing.json --group billing --as billing-v2 --execute
      one group of the file, under another id
  coterie groups offsets import billing.csv --group billing --execute
      lines of topic,partition,offset need to know the group

exit codes: 0 all well, 1 an offset could not be set, 2 asked for wrongly
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    configure_plan(parser)
    add_write_options(parser)
    add_output_options(parser)
    add_connection_options(parser)


def configure_plan(parser: argparse.ArgumentParser) -> None:
    """Declare what is to be done to which groups."""
    parser.add_argument("file", metavar="FILE", help="JSON or CSV; - is stdin")
    parser.add_argument(
        "--group", metavar="GROUP", help="only this group of the file; for CSV, whose"
    )
    parser.add_argument(
        "--as", dest="new_id", metavar="GROUP", help="commit for this group instead"
    )


def run(options: argparse.Namespace) -> int:
    """Import them, or show what that would be."""
    return run_writing(options, plan)


async def plan(run: Run) -> Writing:
    """What importing them comes to."""
    from coterie.cli.groups.kafka_commands import kafka_command, repeated
    from coterie.cli.groups.writing import Writing
    from coterie.operations.plan import Action
    from coterie.operations.planning import plan_offsets

    options = run.options
    scenarios = read_scenarios(options)
    planned = await plan_offsets(run.admin, Action.SET, scenarios)
    count = "1 group" if len(scenarios) == 1 else f"{len(scenarios)} groups"
    groups = repeated("--group", scenarios)
    command = ("--reset-offsets", *groups, "--from-file", "offsets.csv", "--execute")
    said = f"offsets of {count} are in {options.file}"
    return Writing(planned, (), said, (kafka_command(options, *command),))


def read_scenarios(options: argparse.Namespace) -> Mapping[GroupId, Scenario]:
    """What the file says of each group. Raises SettingError."""
    from coterie.cli.groups.files import read_text
    from coterie.errors import SettingError

    text = read_text(options.file)
    is_json = text.lstrip().startswith("{")
    found = _from_json(text) if is_json else _from_csv(text, options.group)
    if options.group is not None:
        if options.group not in found:
            raise SettingError(f"{options.file} has no offsets of {options.group!r}")
        found = {options.group: found[options.group]}
    if options.new_id is not None:
        if len(found) != 1:
            raise SettingError("--as is for one group; say which with --group")
        found = {options.new_id: next(iter(found.values()))}
    if not found:
        raise SettingError(f"there are no offsets in {options.file}")
    return found


def _from_json(text: str) -> Mapping[GroupId, Scenario]:
    from coterie.operations.offset_file import read_offsets_file
    from coterie.operations.reset import ToCommits

    groups = read_offsets_file(text.encode())
    return {each: ToCommits(offsets) for each, offsets in groups.items()}


def _from_csv(text: str, group: GroupId | None) -> Mapping[GroupId, Scenario]:
    from coterie.operations.offset_csv import read_csv
    from coterie.operations.reset import ToExact

    groups = read_csv(text, group)
    return {each: ToExact(offsets) for each, offsets in groups.items()}
