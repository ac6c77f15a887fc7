"""Reset scenarios on one partition whose log runs from 100 to 200."""

import pytest

from coterie.client.admin.group_offsets import CommittedOffset
from coterie.client.admin.log_offsets import LogOffsetInfo
from coterie.errors import ApiError, OperationRefused, SettingError
from coterie.operations.resets import (
    Note,
    PartitionOffsets,
    ResetRow,
    Scenario,
    ShiftBy,
    ToCurrent,
    ToEarliest,
    ToLatest,
    ToOffset,
    ToRows,
    ToTime,
    by_duration,
    drop_metadata,
    plan_rows,
    to_datetime,
)
from coterie.types import TopicPartition
from coterie.wire.error_codes import ErrorCode

AT = TopicPartition("orders", 0)
PRIOR = CommittedOffset(150, 4, "mine")


def partition_offsets(
    committed: CommittedOffset | None = PRIOR, at_time: int | None = None
) -> PartitionOffsets:
    found = None if at_time is None else LogOffsetInfo(at_time, 7, 5)
    return PartitionOffsets(
        committed, LogOffsetInfo(100, -1, 3), LogOffsetInfo(200, -1, 6), found
    )


def row_of(scenario: Scenario, of: PartitionOffsets | None = None) -> ResetRow:
    (row,) = plan_rows("g", scenario, {AT: of or partition_offsets()})
    return row


@pytest.mark.fact("C-60a")
@pytest.mark.parametrize(
    ("scenario", "offset"),
    [
        (ToEarliest(), 100),
        (ToLatest(), 200),
        (ToCurrent(), 150),
        (ToOffset(120), 120),
        (ShiftBy(-20), 130),
        (ShiftBy(20), 170),
        (ToRows({AT: 160}), 160),
    ],
)
def test_each_scenario_selects_its_offset(scenario: Scenario, offset: int) -> None:
    row = row_of(scenario)
    assert row.new is not None
    assert (row.group_id, row.at, row.new.offset) == ("g", AT, offset)
    assert row.delta == offset - 150
    assert row.lag_after == 200 - offset


@pytest.mark.fact("C-62")
@pytest.mark.parametrize(
    ("scenario", "offset"),
    [
        (ToOffset(99), 100),
        (ToOffset(201), 200),
        (ShiftBy(-51), 100),
        (ShiftBy(51), 200),
        (ToRows({AT: 0}), 100),
        (ToRows({AT: 2**63 - 1}), 200),
    ],
)
def test_offsets_outside_the_log_are_clamped(scenario: Scenario, offset: int) -> None:
    row = row_of(scenario)
    assert row.new is not None
    assert row.new.offset == offset
    assert Note.CLAMPED in row.notes


@pytest.mark.parametrize("offset", [100, 200])
def test_the_start_and_end_of_the_log_are_in_range(offset: int) -> None:
    assert Note.CLAMPED not in row_of(ToOffset(offset)).notes


def test_a_time_selects_the_first_record_at_or_after_it() -> None:
    row = row_of(ToTime(7), partition_offsets(at_time=140))
    assert row.new == CommittedOffset(140, 5, "mine")
    assert row.notes == ()


def test_a_time_after_the_last_record_selects_the_log_end() -> None:
    row = row_of(ToTime(7), partition_offsets(at_time=-1))
    assert row.new == CommittedOffset(200, 6, "mine")
    assert row.notes == (Note.NO_LATER_RECORD, Note.SKIPS)


def test_to_current_is_not_clamped() -> None:
    row = row_of(ToCurrent(), partition_offsets(CommittedOffset(250)))
    assert row.new == CommittedOffset(250)
    assert row.notes == (Note.UNCHANGED, Note.OUT_OF_RANGE)
    assert row.lag_after == 0


def test_to_current_without_a_commit_uses_the_log_end() -> None:
    row = row_of(ToCurrent(), partition_offsets(None))
    assert row.new == CommittedOffset(200, 6)
    assert row.notes == (Note.NO_COMMIT,)
    assert row.delta is None


def test_a_shift_requires_a_commit() -> None:
    row = row_of(ShiftBy(1), partition_offsets(None))
    assert row.new is None
    assert isinstance(row.error, OperationRefused)
    assert "no committed offset to shift from" in str(row.error)


def test_an_unchanged_offset_is_not_written() -> None:
    row = row_of(ToOffset(150))
    assert not row.is_write
    assert row.new is PRIOR
    assert row.notes == (Note.UNCHANGED,)


def test_moving_back_keeps_the_prior_epoch_and_metadata() -> None:
    assert row_of(ToOffset(149)).new == CommittedOffset(149, 4, "mine")


def test_a_later_offset_has_no_epoch_when_the_log_epoch_is_unknown() -> None:
    # An older epoch would look like a log truncation (KIP-320).
    assert row_of(ToOffset(151)).new == CommittedOffset(151, None, "mine")


def test_the_leader_epoch_of_the_log_is_used_when_known() -> None:
    assert row_of(ToEarliest()).new == CommittedOffset(100, 3, "mine")
    assert row_of(ToOffset(999)).new == CommittedOffset(200, 6, "mine")


def test_metadata_is_dropped_on_request() -> None:
    (row,) = drop_metadata([row_of(ToOffset(150))])
    assert row.new == CommittedOffset(150)
    assert row.is_write


def test_deleted_unread_records_are_noted() -> None:
    row = row_of(ToEarliest(), partition_offsets(CommittedOffset(40)))
    assert row.notes == (Note.SKIPS, Note.DATA_LOSS)
    assert row.notes == (Note.SKIPS, Note.DATA_LOSS)


def test_an_error_affects_only_its_partition() -> None:
    gone = ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    rows = plan_rows(
        "g",
        ToLatest(),
        {
            TopicPartition("gone", 1): PartitionOffsets(PRIOR, log_error=gone),
            AT: partition_offsets(),
        },
    )
    assert [(row.topic, row.error, row.is_write) for row in rows] == [
        ("gone", gone, False),
        ("orders", None, True),
    ]


def test_to_current_requires_no_log_offsets() -> None:
    gone = ApiError(ErrorCode.LEADER_NOT_AVAILABLE)
    row = row_of(ToCurrent(), PartitionOffsets(PRIOR, log_error=gone))
    assert (row.new, row.lag_after, row.error) == (PRIOR, None, None)


def test_a_commit_that_could_not_be_read_is_not_overwritten() -> None:
    open_transaction = ApiError(ErrorCode.UNSTABLE_OFFSET_COMMIT)
    row = row_of(ToLatest(), PartitionOffsets(commit_error=open_transaction))
    assert row.error is open_transaction
    assert not row.is_write


def test_times_are_parsed_into_scenarios() -> None:
    assert to_datetime("1970-01-01T00:00:01.500Z") == ToTime(1500)
    assert by_duration("PT1S", 5_000) == ToTime(4_000)
    with pytest.raises(SettingError):
        by_duration("1 hour", 5_000)
