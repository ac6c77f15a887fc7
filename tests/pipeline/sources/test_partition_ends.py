"""Tests for samples of partitions' ends from a file."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

from coterie.errors import SettingError
from coterie.pipeline.sources.partition_ends import read_samples
from coterie.pipeline.tables.ingested import PARTITION_END_SAMPLES

LINE = {
    "topic": "t",
    "topic_id": "ab" * 16,
    "partition": 1,
    "at_ms": 1_700_000_000_123,
    "log_start_offset": 3,
    "end_offset": 42,
}


def write(folder: Path, *lines: object) -> Path:
    file = folder / "ends.jsonl"
    texts = (each if isinstance(each, str) else json.dumps(each) for each in lines)
    file.write_text("\n".join(texts) + "\n")
    return file


def test_a_line_becomes_a_row(tmp_path: Path) -> None:
    more = {"last_stable_offset": 40, "leader_id": 7, "partition_count": 2}
    file = write(tmp_path, LINE, {**LINE, **more}, "", {**LINE, "topic_id": None})
    table = pa.concat_tables(read_samples(file))
    assert table.schema == PARTITION_END_SAMPLES.schema
    first, second, third = table.to_pylist()
    assert first.pop("sample_ts").isoformat() == "2023-11-14T22:13:20.123000+00:00"
    assert first == {
        "topic": "t",
        "topic_id": "ab" * 16,
        "partition": 1,
        "log_start_offset": 3,
        "high_watermark": 42,
        "last_stable_offset": None,
        "leader_id": None,
        "leader_epoch": None,
        "partition_count": None,
        "round_trip_ms": None,
    }
    assert more.items() <= second.items()
    assert third["topic_id"] is None


@pytest.mark.parametrize(
    "line",
    [
        json.dumps({**LINE, "topic": "?"}).encode().replace(b"?", b"\xff"),
        json.dumps({**LINE, "last_stable_offset": 2**63}).encode(),
    ],
)
def test_a_line_with_an_impossible_value_is_named(tmp_path: Path, line: bytes) -> None:
    file = tmp_path / "ends.jsonl"
    file.write_bytes(json.dumps(LINE).encode() + b"\n" + line + b"\n")
    with pytest.raises(SettingError, match="line 2 is no sample"):
        list(read_samples(file))


def test_an_empty_file_has_no_samples(tmp_path: Path) -> None:
    assert list(read_samples(write(tmp_path))) == []


def test_a_file_is_read_in_blocks(tmp_path: Path) -> None:
    file = write(tmp_path, *({**LINE, "partition": number} for number in range(500)))
    blocks = list(read_samples(file, block_lines=70))
    assert max(len(each) for each in blocks) == 70
    rows = pa.concat_tables(blocks)["partition"].to_pylist()
    assert rows == list(range(500))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "line 2 is no sample"),
        ({"topic": "t"}, "partition"),
        ({**LINE, "end_offset": 2}, "impossible offsets: a log from 3 to 2"),
        ({**LINE, "at_ms": -1}, "line 2 is no sample"),
        ({**LINE, "partition": 2**31}, "line 2 is no sample"),
        ({**LINE, "topic": 7}, "line 2 is no sample"),
        ({**LINE, "leader_id": 2**31}, "line 2 is no sample"),
    ],
)
def test_an_invalid_line_is_named_in_the_error(
    tmp_path: Path, line: object, message: str
) -> None:
    with pytest.raises(SettingError, match=message):
        list(read_samples(write(tmp_path, LINE, line)))


def test_a_missing_file_is_named_in_the_error(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match=r"gone\.jsonl cannot be read"):
        list(read_samples(tmp_path / "gone.jsonl"))
