"""Tests for date-times and durations.

The expected results are recorded from `java.time.Duration` and Kafka's date parser.
"""

import pytest

from coterie.errors import SettingError
from coterie.operations.times import (
    read_datetime_ms,
    read_duration_ns,
    read_iso_duration_ns,
    time_before,
)


@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [
        ("P1D", 86_400_000_000_000),
        ("PT1H", 3_600_000_000_000),
        ("PT1M", 60_000_000_000),
        ("PT1S", 1_000_000_000),
        ("P2DT3H4M5.678S", 183_845_678_000_000),
        ("P1DT0H", 86_400_000_000_000),
        ("-PT1H", -3_600_000_000_000),
        ("PT-1H", -3_600_000_000_000),
        ("P-1D", -86_400_000_000_000),
        ("+P1D", 86_400_000_000_000),
        ("PT1.5S", 1_500_000_000),
        ("PT-1.5S", -1_500_000_000),
        ("PT-0.5S", -500_000_000),
        ("PT1,5S", 1_500_000_000),
        ("PT5.S", 5_000_000_000),
        ("pt1h", 3_600_000_000_000),
        ("PT0S", 0),
    ],
)
def test_durations_are_parsed_as_by_java(text: str, nanoseconds: int) -> None:
    assert read_duration_ns(text) == nanoseconds


@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [
        ("2h", 7_200_000_000_000),
        ("7d", 604_800_000_000_000),
        ("90s", 90_000_000_000),
        ("1h30m", 5_400_000_000_000),
        ("1d2h3m4.5s6ms", 93_784_506_000_000),
        ("1m500ms", 60_500_000_000),
        ("5ms", 5_000_000),
        ("0s", 0),
        ("PT1H30M", 5_400_000_000_000),
    ],
)
def test_durations_may_be_short(text: str, nanoseconds: int) -> None:
    assert read_duration_ns(text) == nanoseconds


@pytest.mark.parametrize(
    "text",
    [
        "",
        "5",
        "h",
        "2 h",
        "2H",
        "30m1h",
        "1.5h",
        "-2h",
        "2w",
        "1h1h",
        "٢h",
        "PT",
        "9m9",
    ],
)
def test_other_short_durations_are_refused(text: str) -> None:
    with pytest.raises(SettingError, match="write 2h, 7d, 90s or 1h30m"):
        read_duration_ns(text)


def test_too_long_a_duration_is_refused() -> None:
    for text in ("99999999999999999d", "P99999999999999999D"):
        with pytest.raises(SettingError, match="is too long"):
            read_duration_ns(text)


@pytest.mark.parametrize(
    "text",
    [
        *("", "P", "PT", "pt", "P1", "P1W", "P1M", "P1Y", "1D", "P1DT", "2h", "PT1.5H"),
        *("PT.5S", "PT1.1234567891S", " P1D", "P1D ", "P99999999999999999D", "P١D"),
    ],
)
def test_durations_that_java_refuses_are_refused(text: str) -> None:
    with pytest.raises(SettingError, match="duration"):
        read_iso_duration_ns(text)


@pytest.mark.parametrize(
    ("text", "timestamp_ms"),
    [
        ("2026-11-21T10:00:00.000", 1_795_255_200_000),
        ("2026-11-21T10:00:00.000Z", 1_795_255_200_000),
        ("2026-11-21T10:00:00.000+02", 1_795_248_000_000),
        ("2026-11-21T10:00:00.000+02:30", 1_795_246_200_000),
        ("2026-1-2T3:4:5.006Z", 1_767_323_045_006),
        ("1969-12-31T23:59:59.999Z", -1),
    ],
)
def test_date_times_are_parsed_as_by_kafka(text: str, timestamp_ms: int) -> None:
    assert read_datetime_ms(text) == timestamp_ms


@pytest.mark.parametrize(
    ("text", "timestamp_ms"),
    [
        ("2026-11-21T10:00:00Z", 1_795_255_200_000),
        ("2026-11-21T10:00", 1_795_255_200_000),
        ("2026-11-21T10:00-02:30", 1_795_264_200_000),
    ],
)
def test_seconds_may_be_left_out(text: str, timestamp_ms: int) -> None:
    assert read_datetime_ms(text) == timestamp_ms


@pytest.mark.parametrize(
    "text",
    [
        "2026-11-21",
        "2026-02-30T00:00:00.000Z",
        "2026-11-21T24:00:00.000Z",
        "2026-11-21T10:00:60.000Z",
        "2026-11-21T10:00:00.000z",
        "2026-11-21T10:00:00.000+25:00",
        "2026-11-21T10:00:00.000+02:60",
        "2026-11-21T10:00:00.123456Z",
        "0000-11-21T10:00:00.000Z",
    ],
)
def test_date_times_that_kafka_refuses_are_refused(text: str) -> None:
    with pytest.raises(SettingError, match=text[:10]):
        read_datetime_ms(text)


@pytest.mark.parametrize(
    "text",
    [
        "2026-11-21T10:00:00.000-0230",
        "2026-11-21T10:00:00.5Z",
        "2026-11-21T10:00:00.000Zjunk",
    ],
)
def test_date_times_that_kafka_parses_incorrectly_are_refused(text: str) -> None:
    with pytest.raises(SettingError, match="is not a date-time"):
        read_datetime_ms(text)


def test_a_duration_counts_back_from_now_and_is_rounded_down() -> None:
    assert time_before("PT1S", 5_000) == 4_000
    assert time_before("PT0.0001S", 5_000) == 4_999
    assert time_before("-PT1S", 5_000) == 6_000
