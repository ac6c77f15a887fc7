"""`--reset-offsets`: new committed offsets for groups without members (C-60..C-63).

All groups are planned first, then each is written. A group with a partition that cannot
be reset is not written at all; other groups are. Without `--execute` nothing is
written. With --strict, errors go to stdout as in kafka-consumer-groups.sh.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final, TypeAlias

from coterie.cli.kafka_consumer_groups import strict_values, tables
from coterie.cli.kafka_consumer_groups.command_line import (
    ActionFailed,
    CommandLine,
    named_topics,
    selectors,
)
from coterie.cli.kafka_consumer_groups.describe import (
    COMMAND_FAILED,
    in_order,
    other_types,
    selected_groups,
)
from coterie.cli.kafka_consumer_groups.java import (
    EXECUTION_EXCEPTION,
    as_exception,
    in_copied_map,
    message_of,
    partition_hash,
)
from coterie.cli.kafka_consumer_groups.options import usage
from coterie.cli.kafka_consumer_groups.report import (
    Part,
    Report,
    error,
    output,
    refusal,
    warning,
)
from coterie.client.admin.admin_client import AdminClient
from coterie.errors import (
    ApiError,
    ClientError,
    CoterieError,
    OperationRefused,
    SettingError,
)
from coterie.files import decode_text
from coterie.java import hash_map_order, string_hash
from coterie.operations.offset_files import CsvRow, read_csv, write_csv
from coterie.operations.resets import (
    GroupReset,
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
    plan_resets,
    to_datetime,
    write_offsets,
)
from coterie.operations.selection import ALL_COMMITTED
from coterie.operations.times import read_iso_duration_ns
from coterie.types import GroupId, LogOffset, TopicPartition
from coterie.wire.error_codes import ErrorCode

_NO_PARTITION: Final = -1
_NO_PLAN: Final = ToRows({})
"""The scenario of a group that a file does not name."""
_NOT_WRITTEN: Final = "Failed altering group offsets for the following partitions: [{}]"
_NO_COMMIT: Final = (
    "Cannot shift offset for partition {0.topic}-{0.partition} since there is no "
    "current committed offset"
)
_PARTITION_ERRORS: Final[Mapping[ErrorCode | None, str]] = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "do not exist",
    ErrorCode.LEADER_NOT_AVAILABLE: "have no leader",
}


Offsets: TypeAlias = Mapping[TopicPartition, LogOffset]


def read_scenario(line: CommandLine) -> Scenario | Mapping[GroupId, ToRows]:
    """Return the scenario of the options; for --from-file, one for each group.

    Raises SettingError.
    """
    if (path := line.one("from-file")) is not None:
        if line.is_strict:
            return strict_values.strict_file(path, line)
        groups = line.all("group")
        try:
            text = decode_text(Path(path).read_bytes())
        except (OSError, UnicodeError) as failure:
            raise SettingError(f"Unable to read file {path}: {failure}") from failure
        plan = read_csv(text, groups[0] if len(groups) == 1 else None)
        return {group_id: ToRows(offsets) for group_id, offsets in plan.items()}
    if (offset := line.number("to-offset")) is not None:
        return ToOffset(offset)
    if (records := line.number("shift-by")) is not None:
        return ShiftBy(records)
    if (at := line.one("to-datetime")) is not None:
        strict = strict_values.strict_datetime
        return strict(at) if line.is_strict else to_datetime(at)
    if (duration := line.one("by-duration")) is not None:
        return _by_duration(duration, line)
    if line.has("to-earliest"):
        return ToEarliest()
    return ToLatest() if line.has("to-latest") else ToCurrent()


def _by_duration(duration: str, line: CommandLine) -> Scenario:
    now_ms = time.time_ns() // 1_000_000
    if line.is_strict:
        return strict_values.strict_duration(duration, now_ms)
    read_iso_duration_ns(duration)  # Kafka's tool has no short durations
    return by_duration(duration, now_ms)


async def reset_offsets(admin: AdminClient, line: CommandLine) -> Report:
    """Run `--reset-offsets`."""
    if line.is_strict and not line.has("from-file", "all-topics"):
        strict_values.refuse_duplicates(line)
    try:
        chosen = read_scenario(line)
    except SettingError as failure:
        return _error(line, str(failure))
    group_ids, report = await selected_groups(admin, line)
    if not line.is_strict:
        refused = await other_types(admin, group_ids)
        report += Report.of(error(str(each)) for each in refused.values())
        group_ids = tuple(each for each in group_ids if each not in refused)
    ordered = in_copied_map(group_ids) if line.is_strict else sorted(group_ids)
    scenarios = {
        each: chosen.get(each, _NO_PLAN) if isinstance(chosen, Mapping) else chosen
        for each in ordered
    }
    resets = await _plan(admin, line, scenarios)
    planned: dict[GroupId, Offsets] = {}
    for group_id in ordered:
        reset = _order_rows(resets[group_id], line)
        written, offsets = await _reset_one(admin, line, reset, scenarios[group_id])
        report += written
        if offsets is not None:
            planned[group_id] = offsets
        elif line.is_strict:
            return report  # kafka-consumer-groups.sh ends at the first failure.
    planned = {each: planned[each] for each in in_order(planned, line)}
    has_results = bool(planned) or not report.failed
    return report + output(_results(planned, line) if has_results else "")


async def _reset_one(
    admin: AdminClient, line: CommandLine, reset: GroupReset, scenario: Scenario
) -> tuple[Report, Offsets | None]:
    """Write the offsets of one group with `--execute`; return them, or None after a
    failure."""
    if scenario is _NO_PLAN and reset.error is None:
        return _error(line, f"No reset plan for group {reset.group_id} found"), {}
    if line.is_strict and (text := _unshiftable(reset, line)):
        return refusal(f"{text}\n\n{usage()}"), None
    report = _describe_plan(reset, scenario, line)
    if not report.failed and line.has("execute"):
        report += await _write(admin, reset, line)
    if report.failed and not isinstance(reset.error, OperationRefused):
        return report, None
    offsets = {row.at: row.new.offset for row in reset.rows if row.new is not None}
    return report, offsets


async def _plan(
    admin: AdminClient, line: CommandLine, scenarios: Mapping[GroupId, Scenario]
) -> Mapping[GroupId, GroupReset]:
    scope = ALL_COMMITTED if line.has("all-topics") else selectors(line)
    try:
        plans = await plan_resets(admin, scenarios, scope)
    except ClientError as failure:
        if not line.is_strict:
            raise
        raise ActionFailed(EXECUTION_EXCEPTION + as_exception(failure)) from failure
    return {each.group_id: each for each in plans}


def _order_rows(reset: GroupReset, line: CommandLine) -> GroupReset:
    """Return the rows by name; with --strict, in the HashMap order of Java."""
    if not line.is_strict:
        return reset
    rows = {row.at: row for row in reset.rows}
    # In one hash bucket the order is that of insertion: the order of the response.
    fetched = () if reset.current is None else reset.current.offsets.offsets
    inserted = dict.fromkeys((*(each for each in fetched if each in rows), *rows))
    ordered = hash_map_order(inserted, partition_hash)
    return replace(reset, rows=tuple(rows[each] for each in ordered))


async def _write(admin: AdminClient, reset: GroupReset, line: CommandLine) -> Report:
    """Commit every row without its metadata, as kafka-consumer-groups.sh does."""
    rows = drop_metadata(reset.rows)
    offsets = {row.at: row.new for row in rows if row.new is not None}
    results = await write_offsets(admin, reset.group_id, offsets)
    for failure in results.errors.values():
        text = message_of(failure)
        if isinstance(failure, ApiError):
            failed = hash_map_order(results.errors, partition_hash)
            names = ", ".join(f"{each.topic}-{each.partition}" for each in failed)
            text = _NOT_WRITTEN.format(names)
        return _group_error(line, reset.group_id, failure, text)
    return Report()


def _results(planned: Mapping[GroupId, Offsets], line: CommandLine) -> str:
    if not line.has("export"):
        return tables.new_offsets(planned)
    rows = (
        CsvRow(group_id, partition, offset)
        for group_id, offsets in planned.items()
        for partition, offset in offsets.items()
    )
    return write_csv(rows, with_group=len(line.given.get("group", ())) != 1) + "\n"


def _describe_plan(reset: GroupReset, scenario: Scenario, line: CommandLine) -> Report:
    """Return the notes on a group's plan; failed when it must not be written."""
    failure = reset.error
    if isinstance(failure, OperationRefused):
        return _error(line, str(failure))
    if failure is not None:
        as_apache = EXECUTION_EXCEPTION + as_exception(failure)
        return _group_error(line, reset.group_id, failure, as_apache)
    failed_rows = [row for row in reset.rows if row.error is not None]
    if failed_rows:
        return _describe_failed_rows(line, failed_rows, scenario)
    return Report.of(_row_note(row, scenario, line) for row in reset.rows)


def _unshiftable(reset: GroupReset, line: CommandLine) -> str | None:
    """Return the message about the first partition without a commit that --shift-by
    would need; kafka-consumer-groups.sh ends with it."""
    refused = {row.at for row in reset.rows if isinstance(row.error, OperationRefused)}
    if not refused or not line.has("shift-by"):
        return None
    topics = named_topics(line)
    named = [
        TopicPartition(topic, number)
        for topic, numbers in topics
        for number in numbers or ()
    ]
    whole = hash_map_order(
        (each for each, numbers in topics if not numbers), string_hash
    )
    rest = sorted(
        refused - set(named), key=lambda at: (whole.index(at.topic), at.partition)
    )
    first = next(at for at in (*named, *rest) if at in refused)
    return _NO_COMMIT.format(first)


def _row_note(row: ResetRow, scenario: Scenario, line: CommandLine) -> Report:
    """Return a warning when the new offset is not the requested one (C-62)."""
    assert row.new is not None, "a row without an error has an offset"
    if Note.NO_LATER_RECORD in row.notes:
        text = (
            f"\nWarn: Partition {row.partition} from topic {row.topic} is empty. "
            "Falling back to latest known offset.\n"
        )
        return Report((Part(text, is_stderr=not line.is_strict),))
    if Note.CLAMPED not in row.notes:
        return Report()
    if isinstance(scenario, ToOffset):
        requested = scenario.offset
    elif isinstance(scenario, ToRows):
        requested = scenario.offsets[row.at]
    else:
        assert isinstance(scenario, ShiftBy), "other scenarios are never clamped"
        assert row.prior is not None, "a row without a commit cannot be shifted"
        requested = row.prior.offset + scenario.records
    is_above = requested > row.new.offset
    compared = "higher than latest" if is_above else "lower than earliest"
    return warning(
        f"WARN: New offset ({requested}) is {compared} offset for topic partition "
        f"{row.topic}-{row.partition}. Value will be set to {row.new.offset}"
    )


def _describe_failed_rows(
    line: CommandLine, failed_rows: list[ResetRow], scenario: Scenario
) -> Report:
    """Return the first kind of error of a group with the partitions that have it."""
    row = failed_rows[0]
    failure = row.error
    assert failure is not None, "only rows with an error are given"
    if isinstance(scenario, ShiftBy) and isinstance(failure, OperationRefused):
        return refusal(_NO_COMMIT.format(row.at) + "\n")
    code = failure.code if isinstance(failure, ApiError) else None
    what = _PARTITION_ERRORS.get(code)
    if what is None or row.partition == _NO_PARTITION:
        return _group_error(line, row.group_id, failure, message_of(failure))
    names = ",".join(
        f"{each.topic}-{each.partition}"
        for each in failed_rows
        if isinstance(each.error, ApiError) and each.error.code == code
    )
    text = f'The partitions "{names}" {what}'
    if line.is_strict:
        return _error(line, COMMAND_FAILED + text)
    return _error(
        line, f"Offsets of consumer group '{row.group_id}' are not reset: {text}"
    )


def _group_error(
    line: CommandLine, group_id: GroupId, failure: CoterieError, as_apache: str
) -> Report:
    if line.is_strict:
        return _error(line, COMMAND_FAILED + as_apache)
    return _error(
        line, f"Offsets of consumer group '{group_id}' are not reset: {failure}"
    )


def _error(line: CommandLine, text: str) -> Report:
    return error(text, on_stdout=line.is_strict)
