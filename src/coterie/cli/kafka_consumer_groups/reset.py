"""`--reset-offsets`: new committed offsets for groups without members (C-60..C-63).

All groups are planned first, then each is written. A group with a partition that cannot
be reset is not written at all; other groups are. Without `--execute` nothing is
written.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final, TypeAlias

from coterie import client
from coterie import operations as ops
from coterie.cli.kafka_consumer_groups import tables
from coterie.cli.kafka_consumer_groups.command_line import (
    CommandLine,
    selectors,
)
from coterie.cli.kafka_consumer_groups.describe import (
    other_types,
    selected_groups,
)
from coterie.cli.kafka_consumer_groups.report import (
    Report,
    error,
    output,
    refusal,
    warning,
)
from coterie.errors import code_of
from coterie.files import decode_text
from coterie.types import GroupId, LogOffset, TopicPartition
from coterie.wire.error_codes import ErrorCode

_NO_PARTITION: Final = -1
_NO_PLAN: Final = ops.ToRows({})
"""The scenario of a group that a file does not name."""
_NO_COMMIT: Final = (
    "Cannot shift offset for partition {0.topic}-{0.partition} since there is no "
    "current committed offset"
)
_PARTITION_ERRORS: Final[Mapping[ErrorCode | None, str]] = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "do not exist",
    ErrorCode.LEADER_NOT_AVAILABLE: "have no leader",
}


Offsets: TypeAlias = Mapping[TopicPartition, LogOffset]


def read_scenario(line: CommandLine) -> ops.Scenario | Mapping[GroupId, ops.ToRows]:
    """Return the scenario of the options; for --from-file, one for each group.

    Raises SettingError.
    """
    if (path := line.one("from-file")) is not None:
        groups = line.all("group")
        try:
            text = decode_text(Path(path).read_bytes())
        except (OSError, UnicodeError) as failure:
            raise client.SettingError(
                f"Unable to read file {path}: {failure}"
            ) from failure
        plan = ops.read_csv(text, groups[0] if len(groups) == 1 else None)
        return {group_id: ops.ToRows(offsets) for group_id, offsets in plan.items()}
    if (offset := line.number("to-offset")) is not None:
        return ops.ToOffset(offset)
    if (records := line.number("shift-by")) is not None:
        return ops.ShiftBy(records)
    if (at := line.one("to-datetime")) is not None:
        return ops.to_datetime(at)
    if (duration := line.one("by-duration")) is not None:
        ops.read_iso_duration_ns(duration)  # Kafka's tool has no short durations
        return ops.by_duration(duration, time.time_ns() // 1_000_000)
    if line.has("to-earliest"):
        return ops.ToEarliest()
    return ops.ToLatest() if line.has("to-latest") else ops.ToCurrent()


async def reset_offsets(admin: client.AdminClient, line: CommandLine) -> Report:
    """Run `--reset-offsets`."""
    try:
        chosen = read_scenario(line)
    except client.SettingError as failure:
        return error(str(failure))
    group_ids, report = await selected_groups(admin, line)
    refused = await other_types(admin, group_ids)
    report += Report.of(error(str(each)) for each in refused.values())
    scenarios = {
        each: chosen.get(each, _NO_PLAN) if isinstance(chosen, Mapping) else chosen
        for each in sorted(set(group_ids) - set(refused))
    }
    scope = ops.ALL_COMMITTED if line.has("all-topics") else selectors(line)
    planned: dict[GroupId, Offsets] = {}
    for reset in await ops.plan_resets(admin, scenarios, scope):
        written, offsets = await _reset_one(
            admin, line, reset, scenarios[reset.group_id]
        )
        report += written
        if offsets is not None:
            planned[reset.group_id] = offsets
    has_results = bool(planned) or not report.failed
    return report + output(_results(planned, line) if has_results else "")


async def _reset_one(
    admin: client.AdminClient,
    line: CommandLine,
    reset: ops.GroupReset,
    scenario: ops.Scenario,
) -> tuple[Report, Offsets | None]:
    """Write the offsets of one group with `--execute`; return them, or None after a
    failure."""
    if scenario is _NO_PLAN and reset.error is None:
        return error(f"No reset plan for group {reset.group_id} found"), {}
    report = _describe_plan(reset, scenario)
    if not report.failed and line.has("execute"):
        report += await _write(admin, reset)
    if report.failed and not isinstance(reset.error, client.OperationRefused):
        return report, None
    offsets = {row.at: row.new.offset for row in reset.rows if row.new is not None}
    return report, offsets


async def _write(admin: client.AdminClient, reset: ops.GroupReset) -> Report:
    """Commit every row without its metadata, as kafka-consumer-groups.sh does."""
    rows = ops.drop_metadata(reset.rows)
    offsets = {row.at: row.new for row in rows if row.new is not None}
    results = await ops.write_offsets(admin, reset.group_id, offsets)
    for failure in results.errors.values():
        return _group_error(reset.group_id, failure)
    return Report()


def _results(planned: Mapping[GroupId, Offsets], line: CommandLine) -> str:
    if not line.has("export"):
        return tables.new_offsets(planned)
    rows = (
        ops.CsvRow(group_id, partition, offset)
        for group_id, offsets in planned.items()
        for partition, offset in offsets.items()
    )
    return ops.write_csv(rows, with_group=len(line.given.get("group", ())) != 1) + "\n"


def _describe_plan(reset: ops.GroupReset, scenario: ops.Scenario) -> Report:
    """Return the notes on a group's plan; failed when it must not be written."""
    failure = reset.error
    if isinstance(failure, client.OperationRefused):
        return error(str(failure))
    if failure is not None:
        return _group_error(reset.group_id, failure)
    failed_rows = [row for row in reset.rows if row.error is not None]
    if failed_rows:
        return _describe_failed_rows(failed_rows, scenario)
    return Report.of(_row_note(row, scenario) for row in reset.rows)


def _row_note(row: ops.ResetRow, scenario: ops.Scenario) -> Report:
    """Return a warning when the new offset is not the requested one (C-62)."""
    assert row.new is not None, "a row without an error has an offset"
    if ops.Note.NO_LATER_RECORD in row.notes:
        return warning(
            f"\nWarn: Partition {row.partition} from topic {row.topic} is empty. "
            "Falling back to latest known offset."
        )
    if ops.Note.CLAMPED not in row.notes:
        return Report()
    if isinstance(scenario, ops.ToOffset):
        requested = scenario.offset
    elif isinstance(scenario, ops.ToRows):
        requested = scenario.offsets[row.at]
    else:
        assert isinstance(scenario, ops.ShiftBy), "other scenarios are never clamped"
        assert row.prior is not None, "a row without a commit cannot be shifted"
        requested = row.prior.offset + scenario.records
    is_above = requested > row.new.offset
    compared = "higher than latest" if is_above else "lower than earliest"
    return warning(
        f"WARN: New offset ({requested}) is {compared} offset for topic partition "
        f"{row.topic}-{row.partition}. Value will be set to {row.new.offset}"
    )


def _describe_failed_rows(
    failed_rows: list[ops.ResetRow], scenario: ops.Scenario
) -> Report:
    """Return the first kind of error of a group with the partitions that have it."""
    row = failed_rows[0]
    failure = row.error
    assert failure is not None, "only rows with an error are given"
    if isinstance(scenario, ops.ShiftBy) and isinstance(
        failure, client.OperationRefused
    ):
        return refusal(_NO_COMMIT.format(row.at) + "\n")
    code = code_of(failure)
    what = _PARTITION_ERRORS.get(code)
    if what is None or row.partition == _NO_PARTITION:
        return _group_error(row.group_id, failure)
    names = ",".join(
        f"{each.topic}-{each.partition}"
        for each in failed_rows
        if code_of(each.error) is code
    )
    text = f'The partitions "{names}" {what}'
    return error(f"Offsets of consumer group '{row.group_id}' are not reset: {text}")


def _group_error(group_id: GroupId, failure: client.CoterieError) -> Report:
    return error(f"Offsets of consumer group '{group_id}' are not reset: {failure}")
