"""Commit exact offsets for a group that has no members; it is made if need be.

They are not clamped to what the log has; a note says where they lie outside. Metadata
that is not given stays as it was. Without --execute, it is only shown what would be
done.
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
    from coterie.types import LogOffset, TopicPartition

EXAMPLES: Final = """\
examples:
  coterie groups offsets set billing orders:0=1500 orders:1=1498
      show what would change
  coterie groups offsets set billing orders:0=1500 --metadata 'by hand' --execute
      do it, and say so to whoever reads the metadata

exit codes: 0 all well, 1 an offset could not be set, 2 asked for wrongly
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    configure_plan(parser)
    add_write_options(parser)
    add_output_options(parser)
    add_connection_options(parser)


def configure_plan(parser: argparse.ArgumentParser) -> None:
    """Declare what is to be done to which group."""
    parser.add_argument("group", metavar="GROUP", help="the group's id")
    parser.add_argument(
        "offsets", metavar="TOPIC:P=OFFSET", nargs="+", help="as in orders:0=1500"
    )
    parser.add_argument(
        "--metadata", metavar="TEXT", help="what is committed beside the offsets"
    )


def run(options: argparse.Namespace) -> int:
    """Set them, or show what that would be."""
    return run_writing(options, plan)


async def plan(run: Run) -> Writing:
    """What setting them comes to."""
    from coterie.cli.groups.kafka_commands import kafka_command
    from coterie.cli.groups.writing import Writing
    from coterie.operations.plan import Action
    from coterie.operations.planning import plan_offsets
    from coterie.operations.reset import ToExact

    options = run.options
    wanted = read_offsets(options.offsets)
    scenario = ToExact(wanted, options.metadata)
    planned = await plan_offsets(run.admin, Action.SET, {options.group: scenario})
    count = "1 offset" if len(wanted) == 1 else f"{len(wanted)} offsets"
    reset = ("--reset-offsets", "--group", options.group)
    commands = (
        kafka_command(
            options,
            *reset,
            *("--topic", f"{at.topic}:{at.partition}", "--to-offset", str(offset)),
            "--execute",
        )
        for at, offset in wanted.items()
    )
    return Writing(planned, (), f"{count} of {options.group}", tuple(commands))


def read_offsets(texts: list[str]) -> Mapping[TopicPartition, LogOffset]:
    """Offsets that were written as TOPIC:P=OFFSET. Raises SettingError."""
    from coterie.errors import SettingError
    from coterie.operations.scope import TopicSelector
    from coterie.types import TopicPartition

    offsets: dict[TopicPartition, LogOffset] = {}
    for text in texts:
        where, equals, number = text.rpartition("=")
        is_offset = number.isascii() and number.isdigit() and int(number) < 2**63
        selector = TopicSelector.read(where) if equals and where else None
        if not is_offset or selector is None or len(selector.partitions or ()) != 1:
            raise SettingError(f"{text!r} sets no offset; write topic:0=1500")
        at = TopicPartition(selector.topic, (selector.partitions or (0,))[0])
        if at in offsets:
            raise SettingError(f"{at.topic}:{at.partition} is set twice; choose one")
        offsets[at] = int(number)
    return offsets
