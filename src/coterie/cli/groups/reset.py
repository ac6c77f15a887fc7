"""`coterie groups reset` and `coterie groups clone`."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import Final

from coterie import operations as ops
from coterie.cli.command import Command, Run
from coterie.cli.durations import whole_number
from coterie.cli.groups import selection, write
from coterie.cli.groups.change_rows import PlannedChange
from coterie.errors import SettingError
from coterie.types import GroupId

_FLAGS: Final = (
    ("--to-earliest", "log start offset"),
    ("--to-latest", "log end offset"),
    ("--to-current", "committed offset; log end offset where there is none"),
)


def declare_reset(parser: argparse.ArgumentParser) -> None:
    """Declare the groups, the new offsets and the partitions."""
    selection.add_selection_options(parser)
    scenarios = parser.add_argument_group("new offset, one of")
    add = scenarios.add_mutually_exclusive_group(required=True).add_argument
    for name, text in _FLAGS:
        add(name, action="store_true", help=text)
    add(
        "--to-offset",
        metavar="N",
        type=whole_number("an offset", least=0, most=2**63 - 1),
        help="a given offset",
    )
    add(
        "--shift-by",
        metavar="N",
        type=int,
        help="committed offset plus N; N may be negative",
    )
    add(
        "--to-datetime",
        metavar="TIME",
        help="first record at or after YYYY-MM-DDThh:mm:ss.sss[Z|±hh:mm]; UTC without "
        "a zone",
    )
    add(
        "--by-duration",
        metavar="DURATION",
        help="first record at or after a duration before now: 2h, 7d, 1h30m, or "
        "PnDTnHnMnS",
    )
    add(
        "--from-file",
        metavar="FILE",
        help="offsets of a CSV file with topic,partition,offset for one group, or "
        "group,topic,partition,offset",
    )
    selection.add_partition_option(
        parser, "partitions to reset (default: all committed ones)"
    )
    parser.add_argument(
        "--drop-metadata",
        action="store_true",
        help="commit without metadata and leader epochs, as kafka-consumer-groups.sh "
        "does; Kafka Streams stores its stream time in the metadata",
    )


async def plan_reset(run: Run) -> PlannedChange:
    """Plan a reset of the selected groups."""
    options = run.options
    scope = selection.read_scope(options)
    chosen = await selection.choose_groups(run)
    scenarios: Mapping[GroupId, ops.Scenario]
    if options.from_file:
        scenarios = _read_csv_offsets(options.from_file, chosen.ids)
    else:
        scenarios = dict.fromkeys(chosen.ids, _scenario(run))
    planned = await ops.plan_offsets(
        run.admin,
        ops.Action.RESET,
        scenarios,
        scope,
        keeps_metadata=not options.drop_metadata,
    )
    return PlannedChange(planned, chosen.failures, chosen.summary)


def _scenario(run: Run) -> ops.Scenario:
    options = run.options
    if options.to_earliest:
        return ops.ToEarliest()
    if options.to_latest:
        return ops.ToLatest()
    if options.to_current:
        return ops.ToCurrent()
    if options.to_offset is not None:
        return ops.ToOffset(options.to_offset)
    if options.shift_by is not None:
        return ops.ShiftBy(options.shift_by)
    if options.to_datetime is not None:
        return ops.to_datetime(options.to_datetime)
    return ops.by_duration(options.by_duration, run.io.now_ms())


def _read_csv_offsets(
    file: str, ids: Sequence[GroupId]
) -> Mapping[GroupId, ops.ToRows]:
    try:
        rows = ops.read_csv(
            selection.read_text(file), ids[0] if len(ids) == 1 else None
        )
    except SettingError as error:
        raise SettingError(f"{file}: {error}") from error
    missing = [each for each in ids if each not in rows]
    if missing:
        raise SettingError(f"{file} has no line for group {missing[0]}")
    return {each: ops.ToRows(rows[each]) for each in ids}


RESET: Final = Command(
    description="""\
Reset the committed offsets of groups: to an end of the log, a time, or an offset.

Only groups without members can be reset. An offset outside the log is clamped to the
log. An offset that is already committed is not written again; metadata is kept. Without
--execute, the change is only shown.
""",
    examples="""\
examples:
  coterie groups reset billing --to-earliest
      show what would be needed to read everything again
  coterie groups reset billing --to-earliest --execute
      write it; `coterie groups undo` restores the old offsets
  coterie groups reset billing --to-datetime 2026-11-21T10:00:00.000Z \\
      --partitions orders:0,1
      two partitions from a point in time
  coterie groups reset --glob 'billing-*' --empty --by-duration 2h --execute --yes
      in a script: many groups, two hours back
  coterie groups reset billing --shift-by -100
      the last hundred records of each partition again
  coterie groups reset billing --from-file offsets.csv
      lines of topic,partition,offset, or of group,topic,partition,offset

exit codes: 0 success, 1 a group or partition could not be reset, 2 usage error
""",
    options=(declare_reset, *write.WRITE_OPTIONS),
    run=write.writes(plan_reset),
)


def declare_clone(parser: argparse.ArgumentParser) -> None:
    """Declare the two groups and the topics."""
    parser.add_argument("source", metavar="SOURCE", help="group to copy from")
    parser.add_argument("destination", metavar="DESTINATION", help="group to write to")
    parser.add_argument(
        "--topic",
        metavar="TOPIC",
        action="append",
        help="topic to copy; may be repeated",
    )


async def plan_clone_offsets(run: Run) -> PlannedChange:
    """Plan to commit the offsets of one group for another."""
    options = run.options
    source, destination = options.source, options.destination
    if source == destination:
        raise SettingError("SOURCE and DESTINATION must be two different groups")
    topics = selection.read_topics(options)
    planned = await ops.plan_clone(run.admin, source, destination, topics)
    return PlannedChange(
        (planned,),
        summary="" if planned.error else f"{destination} gets the offsets of {source}",
    )


CLONE: Final = Command(
    description="""\
Copy the committed offsets of one group to another, with metadata and leader epochs.

The destination must have no members, and is created if it does not exist. Its commits
for other partitions are kept. Without --execute, the change is only shown.
""",
    examples="""\
examples:
  coterie groups clone billing billing-v2
      show the offsets that billing-v2 would get
  coterie groups clone billing billing-v2 --execute
      write them; billing may have active members
  coterie groups clone billing billing-v2 --topic orders --topic refunds --execute
      two topics only

exit codes: 0 success, 1 the offsets could not be copied, 2 usage error
""",
    options=(declare_clone, *write.WRITE_OPTIONS),
    run=write.writes(plan_clone_offsets),
)
