"""`--reset-offsets`: where groups without members are to read next (C-60..C-63).

Planned for all groups first, then written for each; a group of which any partition
cannot be reset is left as it is, and the others are not. Dry run unless `--execute`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from coterie.cli.kafka_consumer_groups import tables
from coterie.cli.kafka_consumer_groups.admin import Admin
from coterie.cli.kafka_consumer_groups.grammar import CommandLine
from coterie.cli.kafka_consumer_groups.groups import groups_meant, in_order
from coterie.cli.kafka_consumer_groups.java import hash_map_order, partition_hash
from coterie.cli.kafka_consumer_groups.report import Report, said
from coterie.cli.kafka_consumer_groups.reset_words import (
    failed,
    plan_in_words,
    write_failed,
)
from coterie.cli.kafka_consumer_groups.scenario import read_scenario
from coterie.cli.kafka_consumer_groups.topics import selectors
from coterie.errors import OperationRefused, SettingError
from coterie.operations.offset_csv import CsvRow, write_csv
from coterie.operations.reset import Scenario, ToRows, drop_metadata
from coterie.operations.resetting import GroupReset, plan_resets, write_offsets
from coterie.operations.scope import ALL_COMMITTED
from coterie.types import GroupId, LogOffset, TopicPartition

_Planned = Mapping[TopicPartition, LogOffset]


async def run(admin: Admin, line: CommandLine) -> Report:
    """Reset the groups, or say what that would come to."""
    try:
        chosen = read_scenario(line)
    except SettingError as error:
        return failed(line, str(error))
    group_ids, report = await groups_meant(admin, line)
    ordered = in_order(group_ids, line)
    wanted = {each: found for each in ordered if (found := _of_group(each, chosen))}
    scope = ALL_COMMITTED if line.has("all-topics") else selectors(line)
    resets = {each.group_id: each for each in await plan_resets(admin, wanted, scope)}
    reports = [report]
    planned: dict[GroupId, _Planned] = {}
    for group_id in ordered:
        if group_id not in wanted:
            planned[group_id] = {}
            reports.append(failed(line, f"No reset plan for group {group_id} found"))
            continue
        reset = _in_order(resets[group_id], line)
        told = plan_in_words(reset, wanted[group_id], line)
        if not told.failed and line.has("execute"):
            told += await _write(admin, reset, line)
        reports.append(told)
        if not told.failed or isinstance(reset.error, OperationRefused):
            planned[group_id] = _new_offsets(reset)
    report = Report.of(reports)
    has_results = bool(planned) or not report.failed
    return report + said(_results(planned, line) if has_results else "")


def _of_group(
    group_id: GroupId, chosen: Scenario | Mapping[GroupId, ToRows]
) -> Scenario | None:
    return chosen.get(group_id) if isinstance(chosen, Mapping) else chosen


def _in_order(reset: GroupReset, line: CommandLine) -> GroupReset:
    """With its rows by name; when strict, as in a HashMap."""
    if not line.is_strict:
        return reset
    rows = {row.at: row for row in reset.rows}
    # Keys that share a bucket come as they were put in: as the broker told them.
    told = () if reset.seen is None else reset.seen.offsets.offsets
    put_in = dict.fromkeys((*(each for each in told if each in rows), *rows))
    ordered = hash_map_order(put_in, partition_hash)
    return replace(reset, rows=tuple(rows[each] for each in ordered))


async def _write(admin: Admin, reset: GroupReset, line: CommandLine) -> Report:
    """Commit every row, as Apache's tool does: metadata is not kept."""
    rows = drop_metadata(reset.rows)
    offsets = {row.at: row.new for row in rows if row.new is not None}
    results = await write_offsets(admin, reset.group_id, offsets)
    for error in results.errors.values():
        return write_failed(line, reset.group_id, error)
    return Report()


def _new_offsets(reset: GroupReset) -> Mapping[TopicPartition, LogOffset]:
    return {row.at: row.new.offset for row in reset.rows if row.new is not None}


def _results(
    planned: Mapping[GroupId, Mapping[TopicPartition, LogOffset]], line: CommandLine
) -> str:
    if not line.has("export"):
        return tables.new_offsets(planned)
    rows = (
        CsvRow(group_id, partition, offset)
        for group_id, offsets in planned.items()
        for partition, offset in offsets.items()
    )
    return write_csv(rows, with_group=len(line.all("group")) != 1) + "\n"
