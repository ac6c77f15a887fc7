"""`coterie groups offsets`: list, set, delete, export and import committed offsets."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from coterie import client
from coterie import operations as ops
from coterie.cli.command import CLUSTER_OPTIONS, Command, Run, on_cluster
from coterie.cli.connect import add_connection_options
from coterie.cli.groups import selection, write
from coterie.cli.groups.change_rows import PlannedChange
from coterie.cli.output import emit
from coterie.cli.output import outcome as out
from coterie.cli.output.structured import safe_json
from coterie.display import printable
from coterie.errors import ApiError, CoterieError, SettingError
from coterie.types import GroupId, LogOffset, TopicPartition


class FetchedOffsets(NamedTuple):
    """The selected groups, each with its selected committed offsets."""

    groups: tuple[ops.CurrentGroup, ...]
    failures: tuple[out.Failure, ...]
    notes: tuple[str, ...]


async def fetch_offsets(run: Run) -> FetchedOffsets:
    """Fetch the selected committed offsets of the selected groups."""
    scope = selection.read_scope(run.options)
    chosen = await selection.choose_groups(run)
    results = await ops.read_current_groups(run.admin, chosen.ids)
    errors: dict[GroupId, CoterieError] = dict(results.errors)
    groups = []
    for group_id in chosen.ids:
        if group_id in errors:
            continue
        group = results.values[group_id]
        if group.description is None and not group.committed:
            errors[group_id] = ApiError(
                client.ErrorCode.GROUP_ID_NOT_FOUND, "the group does not exist"
            )
            continue
        fetched = group.offsets
        offsets = client.GroupOffsets(
            {
                at: each
                for at, each in fetched.offsets.items()
                if ops.is_in_scope(at, scope)
            },
            {
                at: each
                for at, each in fetched.errors.items()
                if ops.is_in_scope(at, scope)
            },
        )
        groups.append(ops.CurrentGroup(group_id, group.description, offsets))
    group_failures = (
        out.Failure.of("group", each, errors[each]) for each in sorted(errors)
    )
    others = selection.leave_out(run.options, (*chosen.failures, *group_failures))
    notes = (
        *await selection.left_out_topics(run.admin, [each.group_id for each in groups]),
        *selection.left_out_note(others.ids),
    )
    return FetchedOffsets(tuple(groups), others.kept, notes)


def _declare_listed_partitions(parser: argparse.ArgumentParser) -> None:
    selection.add_partition_option(parser, "partitions to list")


async def list_offsets(run: Run) -> out.Outcome:
    """Return a row for each committed offset."""
    fetched = await fetch_offsets(run)
    items = tuple(item for each in fetched.groups for item in _items(each))
    has_errors = any(item["error"] for item in items)
    return out.Outcome(
        schema="coterie.groups.offsets.list",
        unit="partitions",
        columns=(
            out.Column("group_id", "GROUP", role=out.Role.IDENTITY),
            out.Column("topic", "TOPIC", role=out.Role.IDENTITY),
            out.Column("partition", "PARTITION", role=out.Role.IDENTITY),
            out.Column("committed_offset", "OFFSET"),
            out.Column("leader_epoch", "LEADER-EPOCH", drop=1),
            out.Column("metadata", "METADATA", role=out.Role.ID, drop=2),
            out.Column("error", "ERROR", is_wide=not has_errors, show=out.show_error),
        ),
        items=items,
        failures=fetched.failures,
        notes=fetched.notes,
    )


def _items(group: ops.CurrentGroup) -> Iterator[out.Item]:
    for at in sorted({*group.committed, *group.offsets.errors}):
        committed = group.committed.get(at)
        yield {
            "group_id": group.group_id,
            "topic": at.topic,
            "partition": at.partition,
            "committed_offset": None if committed is None else committed.offset,
            "leader_epoch": None if committed is None else committed.leader_epoch,
            "metadata": None if committed is None else committed.metadata,
            "error": out.error_item(group.offsets.errors.get(at)),
        }


LIST: Final = Command(
    description="""\
List committed offsets of groups, with leader epochs and metadata.

Unlike `coterie groups lag`, it does not fetch log offsets.
""",
    examples="""\
examples:
  coterie groups offsets list billing
      every offset of a group, with its metadata
  coterie groups offsets list billing audit --partitions orders
      one topic in two groups

exit codes: 0 success, 1 something could not be read, 2 usage error
""",
    options=(
        selection.add_selection_options,
        _declare_listed_partitions,
        *CLUSTER_OPTIONS,
    ),
    run=on_cluster(list_offsets),
)


def _declare_export(parser: argparse.ArgumentParser) -> None:
    selection.add_partition_option(parser, "partitions to export")
    parser.add_argument(
        "--format",
        choices=("json", "csv"),
        default="json",
        help="file format (default json)",
    )
    parser.add_argument(
        "--to", metavar="FILE", default="-", help="path of a new file (default: stdout)"
    )
    parser.set_defaults(output="table", wide=False)


async def export_offsets(run: Run) -> out.Outcome:
    """Write the selected committed offsets to a file or stdout."""
    fetched = await fetch_offsets(run)
    data = await _encode(run, fetched.groups)
    stdout = run.io.stdout
    if run.options.to != "-":
        selection.create_file(run.options.to, data)
    elif run.options.format == "json":
        emit.write(stdout, [safe_json(data.decode(), stdout.encoding)])
    elif stdout.isatty():
        emit.write(
            stdout, (f"{printable(line)}\n" for line in data.decode().splitlines())
        )
    else:
        emit.write(stdout, [data.decode()])
    count = sum(len(each.committed) for each in fetched.groups)
    offsets = "1 offset" if count == 1 else f"{count} offsets"
    groups = "1 group" if len(fetched.groups) == 1 else f"{len(fetched.groups)} groups"
    failures = (
        *fetched.failures,
        *(
            out.Failure.of(
                "offset", f"{each.group_id} {at.topic}-{at.partition}", error
            )
            for each in fetched.groups
            for at, error in each.offsets.errors.items()
        ),
    )
    return out.Outcome(
        schema="coterie.groups.offsets.export",
        columns=(),
        items=(),
        failures=failures,
        notes=(f"exported {offsets} of {groups}", *fetched.notes),
        unit="offsets",
        counts=(count, len(failures)),
    )


async def _encode(run: Run, groups: Sequence[ops.CurrentGroup]) -> bytes:
    if run.options.format == "csv":
        rows = (
            ops.CsvRow(each.group_id, at, committed.offset)
            for each in groups
            for at, committed in each.committed.items()
        )
        return ops.write_csv(rows, with_group=len(groups) != 1).encode()
    cluster = await run.admin.brokers.describe()
    offsets = {each.group_id: each.committed for each in groups}
    topics = {at.topic for each in groups for at in each.committed}
    return ops.write_offsets_file(
        offsets,
        ops.utc_text(run.io.now_ms()),
        cluster.cluster_id,
        await ops.read_topic_ids(run.admin, topics),
    )


EXPORT: Final = Command(
    description="""\
Export committed offsets to a file that `coterie groups offsets import` reads.

JSON contains metadata and leader epochs. CSV is the format that
kafka-consumer-groups.sh reads with --reset-offsets --from-file: topic,partition,offset
for one group, and group,topic,partition,offset for several.
""",
    examples="""\
examples:
  coterie groups offsets export billing > billing.json
      one group, with metadata
  coterie groups offsets export --glob 'billing-*' --to billing.json
      several groups, into a new file
  coterie groups offsets export billing --format csv --to billing.csv
      for kafka-consumer-groups.sh

exit codes: 0 success, 1 something could not be read, 2 usage error
""",
    options=(selection.add_selection_options, _declare_export, add_connection_options),
    run=on_cluster(export_offsets),
)


def declare_delete(parser: argparse.ArgumentParser) -> None:
    """Declare the groups and the partitions."""
    selection.add_selection_options(parser)
    selection.add_partition_option(parser, "partitions to delete, required")


async def plan_delete(run: Run) -> PlannedChange:
    """Plan to delete committed offsets of the selected groups."""
    scope = selection.read_scope(run.options)
    if scope is None:
        raise SettingError(
            "no partitions are selected; name some with --partitions or --topic, or"
            " delete the whole group with `coterie groups delete`"
        )
    chosen = await selection.choose_groups(run)
    planned = await ops.plan_delete_offsets(run.admin, chosen.ids, scope)
    return PlannedChange(planned, chosen.failures, chosen.summary)


DELETE: Final = Command(
    description="""\
Delete committed offsets of some partitions; the groups are kept.

Offsets of a topic that a member is subscribed to, or that does not exist, cannot be
deleted; the preview says so. The old offsets are saved first: `coterie groups undo`
restores them. Without --execute, the change is only shown.
""",
    examples="""\
examples:
  coterie groups offsets delete billing --partitions refunds
      show the offsets that would be deleted
  coterie groups offsets delete billing --partitions refunds --partitions orders:7 \\
      --execute
      a whole topic, and one partition of another

exit codes: 0 success, 1 an offset could not be deleted, 2 usage error
""",
    options=(declare_delete, *write.WRITE_OPTIONS),
    run=write.writes(plan_delete),
)


def declare_set(parser: argparse.ArgumentParser) -> None:
    """Declare the group, the offsets and the metadata."""
    parser.add_argument("group", metavar="GROUP", help="group id")
    parser.add_argument(
        "offsets",
        metavar="TOPIC:P=OFFSET",
        nargs="+",
        help="new offset of a partition, as in orders:0=1500",
    )
    parser.add_argument(
        "--metadata", metavar="TEXT", help="metadata to commit with the offsets"
    )


async def plan_set(run: Run) -> PlannedChange:
    """Plan to commit exact offsets for one group."""
    options = run.options
    offsets = read_offsets(options.offsets)
    scenario = ops.ToExact(offsets, options.metadata)
    planned = await ops.plan_offsets(
        run.admin, ops.Action.SET, {options.group: scenario}
    )
    count = "1 offset" if len(offsets) == 1 else f"{len(offsets)} offsets"
    return PlannedChange(planned, summary=f"{count} of {options.group}")


def read_offsets(texts: list[str]) -> Mapping[TopicPartition, LogOffset]:
    """Parse offsets of the form TOPIC:P=OFFSET. Raises SettingError."""
    offsets: dict[TopicPartition, LogOffset] = {}
    for text in texts:
        place, equals, number = text.rpartition("=")
        is_offset = number.isascii() and number.isdigit() and int(number) < 2**63
        selector = ops.TopicSelector.parse(place) if equals and place else None
        if not is_offset or selector is None or len(selector.partitions or ()) != 1:
            raise SettingError(
                f"{text!r} is not TOPIC:P=OFFSET; write for example topic:0=1500"
            )
        at = TopicPartition(selector.topic, (selector.partitions or (0,))[0])
        if at in offsets:
            raise SettingError(f"{at.topic}:{at.partition} is given twice")
        offsets[at] = int(number)
    return offsets


SET: Final = Command(
    description="""\
Commit exact offsets for a group without members; it is created if it does not exist.

Offsets are not clamped to the log; a note marks those outside it. Without --metadata
the metadata is kept. Without --execute, the change is only shown.
""",
    examples="""\
examples:
  coterie groups offsets set billing orders:0=1500 orders:1=1498
      show the change
  coterie groups offsets set billing orders:0=1500 --metadata 'by hand' --execute
      write it, with a remark in the metadata

exit codes: 0 success, 1 an offset could not be set, 2 usage error
""",
    options=(declare_set, *write.WRITE_OPTIONS),
    run=write.writes(plan_set),
)


def declare_import(parser: argparse.ArgumentParser) -> None:
    """Declare the file and the groups."""
    parser.add_argument(
        "file", metavar="FILE", help="path of a JSON or CSV file; - for stdin"
    )
    parser.add_argument(
        "--group",
        metavar="GROUP",
        help="one group of the file; for CSV without group ids, the group of all lines",
    )
    parser.add_argument(
        "--as",
        dest="new_id",
        metavar="GROUP",
        help="group to commit for, instead of the file's",
    )


async def plan_import(run: Run) -> PlannedChange:
    """Plan to commit the offsets of a file."""
    options = run.options
    cluster = await run.admin.brokers.describe()
    scenarios = read_scenarios(options, cluster.cluster_id)
    planned = await ops.plan_offsets(run.admin, ops.Action.SET, scenarios)
    count = "1 group" if len(scenarios) == 1 else f"{len(scenarios)} groups"
    return PlannedChange(planned, summary=f"offsets of {count} are in {options.file}")


def read_scenarios(
    options: argparse.Namespace, cluster_id: str | None
) -> Mapping[GroupId, ops.Scenario]:
    """Return the offsets of each selected group of the file. Raises SettingError."""
    text = selection.read_text(options.file)
    scenarios: dict[GroupId, ops.Scenario]
    try:
        if text.lstrip().startswith("{"):
            exported = ops.read_offsets_file(text.encode())
            ids = ops.read_exported_topics(text.encode(), cluster_id)
            scenarios = {
                each: ops.ToCommits(offsets, ids) for each, offsets in exported.items()
            }
        else:
            rows = ops.read_csv(text, options.group)
            scenarios = {each: ops.ToExact(offsets) for each, offsets in rows.items()}
    except SettingError as error:
        raise SettingError(f"{options.file}: {error}") from error
    if options.group is not None:
        if options.group not in scenarios:
            raise SettingError(f"{options.file} has no offsets of {options.group!r}")
        scenarios = {options.group: scenarios[options.group]}
    if options.new_id is not None:
        if len(scenarios) != 1:
            raise SettingError("--as needs one group; select it with --group")
        scenarios = {options.new_id: next(iter(scenarios.values()))}
    if not scenarios:
        raise SettingError(f"{options.file} has no offsets")
    return scenarios


IMPORT: Final = Command(
    description="""\
Commit the offsets of a file for groups that have no members.

The file is from `coterie groups offsets export`, or CSV from kafka-consumer-groups.sh.
Offsets are not clamped to the log; a note marks those outside it. Without --execute,
the change is only shown.
""",
    examples="""\
examples:
  coterie groups offsets import billing.json
      show the change
  coterie groups offsets import billing.json --execute
      write it, for every group of the file
  coterie groups offsets import billing.json --group billing --as billing-v2 --execute
      one group of the file, under another id
  coterie groups offsets import billing.csv --group billing --execute
      lines of topic,partition,offset, which do not name the group

exit codes: 0 success, 1 an offset could not be set, 2 usage error
""",
    options=(declare_import, *write.WRITE_OPTIONS),
    run=write.writes(plan_import),
)
