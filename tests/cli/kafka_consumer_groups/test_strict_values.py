"""Times, durations, files and partitions with --strict: those of Apache's tool."""

from __future__ import annotations

from pathlib import Path

import pytest

from coterie.cli.kafka_consumer_groups.command_line import ActionFailed, parse
from coterie.cli.kafka_consumer_groups.strict_values import (
    refuse_duplicates,
    strict_datetime,
    strict_duration,
    strict_file,
)
from coterie.operations.resets import ToRows, ToTime
from coterie.types import TopicPartition


def test_a_time_with_milliseconds_is_accepted() -> None:
    assert strict_datetime("1970-01-01T00:00:01.000") == ToTime(1000)
    assert strict_datetime("1970-01-01T02:00:01.000+02:00") == ToTime(1000)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("2020-01-01T00:00:00", 'Unparseable date: "2020-01-01T00:00:00Z"'),
        ("2020-01-01T00:00Z", 'Unparseable date: "2020-01-01T00:00Z"'),
        ("2020-02-30T00:00:00.000", 'Unparseable date: "2020-02-30T00:00:00.000Z"'),
        ("2020-01-01T00:00:00.5", 'Unparseable date: "2020-01-01T00:00:00.5Z"'),
        (
            "2020-01-01",
            "Error parsing timestamp. It does not contain a 'T' according to ISO8601 "
            "format",
        ),
    ],
)
def test_a_time_without_milliseconds_is_refused(text: str, why: str) -> None:
    with pytest.raises(ActionFailed) as failed:
        strict_datetime(text)
    assert failed.value.text == f"java.text.ParseException: {why}"


def test_a_time_before_1970_is_refused_as_by_javas_client() -> None:
    for read in (
        lambda: strict_datetime("1969-12-31T23:59:59.999"),
        lambda: strict_duration("P1D", 0),
    ):
        with pytest.raises(ActionFailed, match="UnsupportedVersionException"):
            read()


def test_durations_have_the_messages_of_java() -> None:
    assert strict_duration("PT1S", 5_000) == ToTime(4_000)
    with pytest.raises(ActionFailed, match="Text cannot be parsed to a Duration"):
        strict_duration("P1W", 0)
    with pytest.raises(ActionFailed, match="Instant exceeds minimum or maximum"):
        strict_duration("P99999999999999D", 0)


ONE = parse(["--strict", "--group", "g"])
TWO = parse(["--strict", "--group", "g", "--group", "h"])


def test_lines_without_a_group_belong_to_the_one_that_is_named(tmp_path: Path) -> None:
    file = tmp_path / "plan.csv"
    file.write_text("orders,0,7\n")
    assert strict_file(str(file), ONE) == {
        "g": ToRows({TopicPartition("orders", 0): 7})
    }
    assert strict_file(str(file), TWO) == {}
    assert strict_file(str(file), parse(["--strict", "--all-groups"])) == {}


def test_files_that_cannot_be_read_have_the_messages_of_java(tmp_path: Path) -> None:
    missing = str(tmp_path / "missing.csv")
    with pytest.raises(ActionFailed, match="IOException: Unable to read file"):
        strict_file(missing, ONE)
    empty = tmp_path / "empty.csv"
    empty.write_text("")
    with pytest.raises(ActionFailed, match="No content to map due to end-of-input"):
        strict_file(str(empty), ONE)
    short = tmp_path / "short.csv"
    short.write_text("orders,0\n")
    with pytest.raises(ActionFailed, match="line 1: 2 columns"):
        strict_file(str(short), ONE)


@pytest.mark.parametrize(
    "topics", [["orders:0,0"], ["orders:0", "orders:0"], ["orders", "orders:0"]]
)
def test_a_partition_that_is_given_twice_is_refused(topics: list[str]) -> None:
    words = [word for topic in topics for word in ("--topic", topic)]
    with pytest.raises(ActionFailed) as failed:
        refuse_duplicates(parse(["--strict", *words]))
    assert failed.value.text == "Duplicate key orders-0"


def test_topics_and_partitions_that_differ_are_accepted() -> None:
    words = ["--topic", "orders", "--topic", "orders", "--topic", "payments:0,1"]
    refuse_duplicates(parse(["--strict", *words]))
