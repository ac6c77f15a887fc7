"""Choose where groups read next: the start or end of the log, a time, an offset.

Only groups without members are reset. Offsets that the log does not reach are clamped
to what it has. An offset that is committed already is not written again; metadata is
kept. Without --execute, it is only shown what would be done.
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
    from collections.abc import Mapping, Sequence

    from coterie.cli.groups.writing import Writing
    from coterie.cli.running import Run
    from coterie.operations.reset import Scenario, ToRows
    from coterie.types import GroupId

EXAMPLES: Final = """\
examples:
  coterie groups reset billing --to-earliest
      show what it would take to read everything again
  coterie groups reset billing --to-earliest --execute
      do it; the old offsets are kept, and `coterie groups undo` brings them back
  coterie groups reset billing --to-datetime 2026-11-21T10:00:00.000Z \\
      --partitions orders:0,1
      read two partitions again from a point in time
  coterie groups reset --glob 'billing-*' --empty --by-duration PT2H --execute --yes
      take many groups two hours back, in a script
  coterie groups reset billing --shift-by -100
      the last hundred records of each partition once more
  coterie groups reset billing --from-file offsets.csv
      lines of topic,partition,offset, or of group,topic,partition,offset

exit codes: 0 all well, 1 a group or partition could not be reset, 2 asked for wrongly
"""

_SCENARIOS: Final = (
    ("--to-earliest", "the start of the log"),
    ("--to-latest", "the end of the log"),
    ("--to-current", "what is committed; makes a commit where there is none"),
)


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    configure_plan(parser)
    add_write_options(parser)
    add_output_options(parser)
    add_connection_options(parser)


def configure_plan(parser: argparse.ArgumentParser) -> None:
    """Declare what is to be done to which groups."""
    add_selection_options(parser)
    scenarios = parser.add_argument_group("where to, one of")
    more = scenarios.add_mutually_exclusive_group(required=True).add_argument
    for name, text in _SCENARIOS:
        more(name, action="store_true", help=text)
    more("--to-offset", metavar="N", type=_offset, help="this offset")
    more("--shift-by", metavar="N", type=int, help="so many records on; back if < 0")
    more(
        "--to-datetime",
        metavar="TIME",
        help="the first record at or after YYYY-MM-DDThh:mm:ss.sss[Z|±hh:mm]; UTC "
        "without a zone",
    )
    more("--by-duration", metavar="PnDTnHnMnS", help="the same, so long before now")
    more(
        "--from-file",
        metavar="FILE",
        help="CSV of topic,partition,offset for one group, or of "
        "group,topic,partition,offset",
    )
    add_partition_option(parser, "only these (default: all that the group committed)")
    parser.add_argument(
        "--drop-metadata",
        action="store_true",
        help="commit offsets without metadata and epochs, as Kafka's script does; for "
        "Kafka Streams, which keeps its stream time there",
    )


def _offset(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text) < 2**63):
        raise argparse.ArgumentTypeError(f"{text!r} is no offset; they count from 0")
    return int(text)


def run(options: argparse.Namespace) -> int:
    """Reset them, or show what that would be."""
    return run_writing(options, plan)


async def plan(run: Run) -> Writing:
    """What a reset of the groups that are meant comes to."""
    from coterie.cli.groups.meant import meant_groups
    from coterie.cli.groups.partitions import read_scope
    from coterie.cli.groups.writing import Writing
    from coterie.operations.plan import Action
    from coterie.operations.planning import plan_offsets

    scope = read_scope(run.options)
    meant = await meant_groups(run)
    planned = await plan_offsets(
        run.admin,
        Action.RESET,
        _scenarios(run, meant.ids),
        scope,
        keeps_metadata=not run.options.drop_metadata,
    )
    commands = _kafka_commands(run.options, meant.ids)
    return Writing(planned, meant.failures, meant.said, commands)


def _scenarios(run: Run, ids: Sequence[GroupId]) -> Mapping[GroupId, Scenario]:
    """The scenario of each group. Raises SettingError."""
    if run.options.from_file:
        return _from_file(run.options.from_file, ids)
    return dict.fromkeys(ids, _scenario(run))


def _scenario(run: Run) -> Scenario:
    from coterie.operations import reset

    options = run.options
    if options.to_earliest:
        return reset.ToEarliest()
    if options.to_latest:
        return reset.ToLatest()
    if options.to_current:
        return reset.ToCurrent()
    if options.to_offset is not None:
        return reset.ToOffset(options.to_offset)
    if options.shift_by is not None:
        return reset.ShiftBy(options.shift_by)
    if options.to_datetime is not None:
        return reset.to_datetime(options.to_datetime)
    return reset.by_duration(options.by_duration, run.where.now_ms())


def _from_file(file: str, ids: Sequence[GroupId]) -> Mapping[GroupId, ToRows]:
    from coterie.cli.groups.files import read_text
    from coterie.errors import SettingError
    from coterie.operations.offset_csv import read_csv
    from coterie.operations.reset import ToRows

    rows = read_csv(read_text(file), ids[0] if len(ids) == 1 else None)
    missing = [each for each in ids if each not in rows]
    if missing:
        raise SettingError(f"{file} has no line for group {missing[0]}")
    return {each: ToRows(rows[each]) for each in ids}


def _kafka_commands(
    options: argparse.Namespace, ids: Sequence[GroupId]
) -> tuple[str, ...]:
    from coterie.cli.groups.kafka_commands import kafka_command, repeated
    from coterie.cli.groups.partitions import kafka_scope

    where = [name for name, _ in _SCENARIOS if vars(options)[_key(name)]]
    for name in ("--to-offset", "--shift-by", "--to-datetime", "--by-duration"):
        value = vars(options)[_key(name)]
        where += [] if value is None else [name, str(value)]
    scope = kafka_scope(options)
    if options.from_file:
        where, scope = ["--from-file", options.from_file], []
    groups = repeated("--group", ids)
    command = ("--reset-offsets", *groups, *scope, *where, "--execute")
    return (kafka_command(options, *command),)


def _key(name: str) -> str:
    return name.removeprefix("--").replace("-", "_")
