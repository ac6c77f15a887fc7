"""What is said of a group that is reset, and of one that cannot be.

Apache's tool has failures on stdout, among the results; so do we when strict.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from coterie.cli.kafka_consumer_groups.describing import FAILED
from coterie.cli.kafka_consumer_groups.grammar import CommandLine
from coterie.cli.kafka_consumer_groups.java import as_exception, message_of
from coterie.cli.kafka_consumer_groups.report import (
    Part,
    Report,
    failure,
    misused,
    warned,
)
from coterie.errors import ApiError, CoterieError, OperationRefused
from coterie.operations.reset import (
    Note,
    ResetRow,
    Scenario,
    ShiftBy,
    ToOffset,
    ToRows,
)
from coterie.operations.resetting import GroupReset
from coterie.types import GroupId, LogOffset
from coterie.wire.error_codes import ErrorCode

_NO_PARTITION: Final = -1
_WRAPPED: Final = "java.util.concurrent.ExecutionException: "
_OF_PARTITIONS: Final[Mapping[ErrorCode | None, str]] = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "do not exist",
    ErrorCode.LEADER_NOT_AVAILABLE: "have no leader",
}


def plan_in_words(reset: GroupReset, scenario: Scenario, line: CommandLine) -> Report:
    """What is to be known of a group's plan; failed when it must not be written."""
    if isinstance(reset.error, OperationRefused):
        return failed(line, str(reset.error))
    if reset.error is not None:
        return _group_failed(
            line, reset.group_id, reset.error, _WRAPPED + as_exception(reset.error)
        )
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


def _rows_failed(
    line: CommandLine, broken: list[ResetRow], scenario: Scenario
) -> Report:
    """Why a group is left as it is: the first kind of trouble, with all its rows."""
    row = broken[0]
    assert row.error is not None, "only rows with an error are broken"
    if isinstance(scenario, ShiftBy) and isinstance(row.error, OperationRefused):
        return misused(
            f"Cannot shift offset for partition {row.topic}-{row.partition} since "
            "there is no current committed offset\n"
        )
    code = row.error.code if isinstance(row.error, ApiError) else None
    what = _OF_PARTITIONS.get(code)
    if what is None or row.partition == _NO_PARTITION:
        return _group_failed(line, row.group_id, row.error, message_of(row.error))
    alike = [each for each in broken if _has_code(each, code)]
    names = ",".join(f"{each.topic}-{each.partition}" for each in alike)
    text = f'The partitions "{names}" {what}'
    if line.is_strict:
        return failed(line, FAILED + text)
    return failed(
        line, f"Offsets of consumer group '{row.group_id}' are not reset: {text}"
    )


def _has_code(row: ResetRow, code: ErrorCode | None) -> bool:
    return isinstance(row.error, ApiError) and row.error.code == code


def _group_failed(
    line: CommandLine, group_id: GroupId, error: CoterieError, as_apache: str
) -> Report:
    if line.is_strict:
        return failed(line, FAILED + as_apache)
    return failed(
        line, f"Offsets of consumer group '{group_id}' are not reset: {error}"
    )


def write_failed(line: CommandLine, group_id: GroupId, error: CoterieError) -> Report:
    """That the new offsets of a group were not taken."""
    return _group_failed(line, group_id, error, message_of(error))


def failed(line: CommandLine, text: str) -> Report:
    """A sentence that is the same in either mode."""
    return failure(text, on_stdout=line.is_strict)
