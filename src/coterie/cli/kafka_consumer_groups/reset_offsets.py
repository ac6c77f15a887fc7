"""`--reset-offsets`: where groups without members are to read next (C-60..C-63).

Planned for all groups first, then written for each; a group of which any partition
cannot be reset is left as it is, and the others are not. Dry run unless `--execute`.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from coterie.cli.kafka_consumer_groups import tables
from coterie.cli.kafka_consumer_groups.admin import Admin
from coterie.cli.kafka_consumer_groups.describing import FAILED
from coterie.cli.kafka_consumer_groups.grammar import CommandLine
from coterie.cli.kafka_consumer_groups.groups import groups_meant, in_order
from coterie.cli.kafka_consumer_groups.java import (
    as_exception,
    hash_map_order,
    partition_hash,
)
from coterie.cli.kafka_consumer_groups.report import Part, Report, failure, said, warned
from coterie.cli.kafka_consumer_groups.topics import selectors
from coterie.errors import ApiError, CoterieError, OperationRefused, SettingError
from coterie.operations.offset_csv import CsvRow, read_csv, write_csv
from coterie.operations.reset import (
    Note,
    ResetRow,
    Scenario,
    ShiftBy,
    ToCurrent,
    ToEarliest,
    ToLatest,
    ToOffset,
    ToRows,
    by_duration,
    drop_metadata,
    to_datetime,
)
from coterie.operations.resetting import GroupReset, plan_resets, write_offsets
from coterie.operations.scope import ALL_COMMITTED
from coterie.types import GroupId, LogOffset, TopicPartition
from coterie.wire.error_codes import ErrorCode

_NO_PARTITION: Final = -1


async def run(admin: Admin, line: CommandLine) -> Report:
    """Reset the groups, or say what that would come to."""
    try:
        chosen = read_scenario(line)
    except (SettingError, OSError) as error:
        return _failed(line, str(error))
    group_ids, report = await groups_meant(admin, line)
    ordered = in_order(group_ids, line)
    wanted = {each: found for each in ordered if (found := _of_group(each, chosen))}
    scope = ALL_COMMITTED if line.has("all-topics") else selectors(line)
    resets = {each.group_id: each for each in await plan_resets(admin, wanted, scope)}
    planned: dict[GroupId, Mapping[TopicPartition, LogOffset]] = {}
    for group_id in ordered:
        if group_id not in wanted:
            planned[group_id] = {}
            report += _failed(line, f"No reset plan for group {group_id} found")
            continue
        reset = resets[group_id]
        told = _told(reset, wanted[group_id], line)
        if not told.failed and line.has("execute"):
            told += await _write(admin, reset, line)
        report += told
        if not told.failed or isinstance(reset.error, OperationRefused):
            planned[group_id] = {} if told.failed else _new_offsets(reset, line)
    return report + said(_results(planned, line))


def read_scenario(line: CommandLine) -> Scenario | Mapping[GroupId, ToRows]:
    """Where to; from a file, for each group. Raises SettingError and OSError."""
    if (path := line.one("from-file")) is not None:
        return _from_file(Path(path), line)
    if (offset := line.number("to-offset")) is not None:
        return ToOffset(offset)
    if (records := line.number("shift-by")) is not None:
        return ShiftBy(records)
    if (at := line.one("to-datetime")) is not None:
        return to_datetime(at)
    if (duration := line.one("by-duration")) is not None:
        return by_duration(duration, time.time_ns() // 1_000_000)
    if line.has("to-earliest"):
        return ToEarliest()
    return ToLatest() if line.has("to-latest") else ToCurrent()


def _from_file(path: Path, line: CommandLine) -> Mapping[GroupId, ToRows]:
    groups = line.all("group")
    only_group = groups[0] if len(groups) == 1 else None
    plan = read_csv(path.read_text(encoding="utf-8"), only_group)
    return {group_id: ToRows(offsets) for group_id, offsets in plan.items()}


def _of_group(
    group_id: GroupId, chosen: Scenario | Mapping[GroupId, ToRows]
) -> Scenario | None:
    return chosen.get(group_id) if isinstance(chosen, Mapping) else chosen


def _told(reset: GroupReset, scenario: Scenario, line: CommandLine) -> Report:
    """What is to be known of a group's plan; failed when it must not be written."""
    if isinstance(reset.error, OperationRefused):
        return _failed(line, str(reset.error))
    if reset.error is not None:
        return _group_failed(line, reset.group_id, reset.error)
    broken = [row for row in reset.rows if row.error is not None]
    if broken:
        return _rows_failed(line, broken, scenario)
    return Report.of(_note(row, scenario, line) for row in reset.rows)


def _note(row: ResetRow, scenario: Scenario, line: CommandLine) -> Report:
    """That an offset is not the one that was asked for (C-62)."""
    assert row.new is not None, "a row without an error has an offset"
    if Note.NO_LATER_RECORD in row.notes:
        text = (
            f"\nWarn: Partition {row.partition} from topic {row.topic} is empty. "
            "Falling back to latest known offset.\n"
        )
        return Report((Part(text, is_beside=not line.is_strict),))
    if Note.CLAMPED not in row.notes:
        return Report()
    asked = _requested(row, scenario)
    compared = "higher than latest" if asked > row.new.offset else "lower than earliest"
    return warned(
        f"WARN: New offset ({asked}) is {compared} offset for topic partition "
        f"{row.topic}-{row.partition}. Value will be set to {row.new.offset}"
    )


def _requested(row: ResetRow, scenario: Scenario) -> LogOffset:
    """What was asked for, of a row that was clamped."""
    if isinstance(scenario, ToOffset):
        return scenario.offset
    if isinstance(scenario, ToRows):
        return scenario.offsets[row.at]
    assert isinstance(scenario, ShiftBy), "only these are clamped"
    assert row.prior is not None, "only from a commit it is shifted"
    return row.prior.offset + scenario.records


async def _write(admin: Admin, reset: GroupReset, line: CommandLine) -> Report:
    """Commit every row, as Apache's tool does: metadata is not kept."""
    rows = drop_metadata(reset.rows)
    offsets = {row.at: row.new for row in rows if row.new is not None}
    results = await write_offsets(admin, reset.group_id, offsets)
    for error in results.errors.values():
        return _group_failed(line, reset.group_id, error)
    return Report()


def _new_offsets(
    reset: GroupReset, line: CommandLine
) -> Mapping[TopicPartition, LogOffset]:
    offsets = {row.at: row.new.offset for row in reset.rows if row.new is not None}
    if not line.is_strict:
        return offsets
    return {each: offsets[each] for each in hash_map_order(offsets, partition_hash)}


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


def _rows_failed(
    line: CommandLine, broken: list[ResetRow], scenario: Scenario
) -> Report:
    """Why a group is left as it is: the first kind of trouble, with all its rows."""
    row = broken[0]
    assert row.error is not None, "only rows with an error are broken"
    if isinstance(scenario, ShiftBy) and isinstance(row.error, OperationRefused):
        return _failed(
            line,
            f"Cannot shift offset for partition {row.topic}-{row.partition} since "
            "there is no current committed offset",
        )
    code = row.error.code if isinstance(row.error, ApiError) else None
    what = _OF_PARTITIONS.get(code)
    if what is None or row.partition == _NO_PARTITION:
        return _group_failed(line, row.group_id, row.error)
    alike = [each for each in broken if _has_code(each, code)]
    names = ",".join(f"{each.topic}-{each.partition}" for each in alike)
    text = f'The partitions "{names}" {what}'
    if line.is_strict:
        return _failed(line, FAILED + text)
    return _failed(
        line, f"Offsets of consumer group '{row.group_id}' are not reset: {text}"
    )


_OF_PARTITIONS: Final[Mapping[ErrorCode | None, str]] = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "do not exist",
    ErrorCode.LEADER_NOT_AVAILABLE: "have no leader",
}


def _has_code(row: ResetRow, code: ErrorCode | None) -> bool:
    return isinstance(row.error, ApiError) and row.error.code == code


def _group_failed(line: CommandLine, group_id: GroupId, error: CoterieError) -> Report:
    if line.is_strict:
        return _failed(line, FAILED + as_exception(error))
    return _failed(
        line, f"Offsets of consumer group '{group_id}' are not reset: {error}"
    )


def _failed(line: CommandLine, text: str) -> Report:
    return failure(text, on_stdout=line.is_strict)
