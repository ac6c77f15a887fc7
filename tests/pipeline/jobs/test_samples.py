"""Tests for samples of partition ends in a lake; they need no Spark."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest

from coterie.pipeline.jobs.samples import TakenSamples, add_samples, take_samples
from coterie.pipeline.lake.lake import Lake
from coterie.pipeline.sources.source import open_source
from coterie.pipeline.tables.ingested import PARTITION_END_SAMPLES

NAME = PARTITION_END_SAMPLES.name
START = datetime(2026, 11, 1, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake.create(tmp_path / "lake", "segments:/data")


def sample(minute: float, end: int = 5, partition: int = 0) -> dict[str, Any]:
    return {
        "topic": "t",
        "topic_id": "ab" * 16,
        "partition": partition,
        "sample_ts": START + minute * MINUTE,
        "log_start_offset": 0,
        "high_watermark": end,
    }


def table(*rows: dict[str, Any]) -> Any:
    return pa.Table.from_pylist(list(rows), schema=PARTITION_END_SAMPLES.schema)


def times(lake: Lake) -> list[float]:
    found = lake.read(NAME, ["sample_ts"])["sample_ts"].to_pylist()
    return sorted((each - START) / MINUTE for each in found)


def test_only_new_samples_are_added_each_once(lake: Lake) -> None:
    assert add_samples(lake, table(sample(1), sample(2))) == 2
    again = table(sample(2, end=9), sample(3), sample(3, end=9), sample(2, partition=1))
    assert add_samples(lake, again) == 2
    assert times(lake) == [1, 2, 2, 3]
    first = lake.version.number
    assert add_samples(lake, again) == 0
    assert lake.version.number == first


def test_no_samples_make_no_version(lake: Lake) -> None:
    assert add_samples(lake, table()) == 0
    assert lake.version.number == 0


class _CountedReads:
    """The numbers of rows that were read from a lake."""

    def __init__(self, lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
        self.rows: list[int] = []
        read = lake.read

        def counted(*arguments: Any, **named: Any) -> Any:
            found = read(*arguments, **named)
            self.rows.append(len(found))
            return found

        monkeypatch.setattr(lake, "read", counted)


def test_new_samples_are_compared_with_those_of_their_time_only(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_samples(lake, table(*(sample(minute) for minute in range(1_000))))
    reads = _CountedReads(lake, monkeypatch)
    assert add_samples(lake, table(sample(998), sample(999), sample(1_000))) == 1
    assert reads.rows == [2]


def write(file: Path, minutes: Iterator[int] | range) -> Path:
    lines = (
        {
            "topic": "t",
            "partition": 0,
            "at_ms": round((START + minute * MINUTE).timestamp() * 1_000),
            "log_start_offset": 0,
            "end_offset": minute,
        }
        for minute in minutes
    )
    file.write_text("".join(json.dumps(each) + "\n" for each in lines))
    return file


def test_samples_of_a_file_are_added_once(lake: Lake, tmp_path: Path) -> None:
    source: Any = None
    file = write(tmp_path / "ends.jsonl", range(10))
    assert take_samples(lake, source, file).added == 10
    write(file, range(12))
    assert take_samples(lake, source, file).added == 2
    assert take_samples(lake, source, file).added == 0
    assert times(lake) == list(range(12))


def test_samples_of_the_future_are_left_out(lake: Lake, tmp_path: Path) -> None:
    source: Any = None
    soon, later = (
        round((datetime.now(UTC) - START) / MINUTE) + hours * 60 for hours in (12, 36)
    )
    file = write(tmp_path / "ends.jsonl", iter([1, later, soon]))

    assert take_samples(lake, source, file) == TakenSamples(added=2, ahead=1)

    assert times(lake) == [1, soon]


class _Source:
    """A source that records the times of requests for samples and returns some."""

    def __init__(self, *rows: dict[str, Any]) -> None:
        self.requests: list[datetime | None] = []
        self.rows = rows

    def sample_ends(self, after: datetime | None) -> Any:
        self.requests.append(after)
        return table(*self.rows)


def test_a_source_is_sampled_at_the_time_of_the_newest_record_or_later(
    lake: Lake,
) -> None:
    recorded = _Source(sample(1, 5), sample(2, 7), sample(2, 3, partition=1))
    source: Any = recorded
    assert take_samples(lake, source, None).added == 3
    as_of = START + 7 * MINUTE
    lake.version = msgspec.structs.replace(lake.version, as_of_ts=as_of)
    assert take_samples(lake, source, None).added == 0
    assert recorded.requests == [None, as_of]


def test_segments_have_no_samples(lake: Lake, tmp_path: Path) -> None:
    source = open_source(f"segments:{tmp_path}")
    assert take_samples(lake, source, None) == TakenSamples(0)
