"""Tests for `coterie pipeline decode`, including corrupt segments."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from coterie.cli.main import main
from coterie.wire.record_batch import (
    TRANSACTIONAL,
    LogRecord,
    Producer,
    encode_batch,
    encode_marker,
)
from tests.pipeline.codec.golden import GOLDEN

TIME_MS = 1_700_000_000_123


def record(offset: int, name: str) -> LogRecord:
    return LogRecord(offset, TIME_MS, *GOLDEN[name])


LOG = [
    encode_batch([record(0, "offset-commit-v3"), record(1, "group-metadata-v3")]),
    encode_batch(
        [record(2, "offset-commit-tombstone")],
        producer=Producer(9, 4, 0),
        attributes=TRANSACTIONAL,
    ),
    encode_marker(3, TIME_MS, 9, 4, commit=True),
    encode_batch([record(4, "current-member")]),
    encode_batch([LogRecord(5, TIME_MS, b"\0\x11streams", b"\0\0")]),
]


class DecodeCommand:
    """A runner of `coterie pipeline decode` for one segment file."""

    def __init__(self, folder: Path, capture: pytest.CaptureFixture[str]) -> None:
        self.file = folder / "00000000000000000000.log"
        self.file.write_bytes(b"".join(LOG))
        self._capture = capture
        self.code = 0
        self.error = ""

    def __call__(self, *words: str) -> str:
        self.code = main(["pipeline", "decode", str(self.file), *words])
        out, self.error = self._capture.readouterr()
        return out

    def document(self, *words: str) -> Any:
        return json.loads(self(*words, "-o", "json"))


@pytest.fixture
def decode(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> DecodeCommand:
    return DecodeCommand(tmp_path, capsys)


@pytest.mark.fact("K-01a", "K-01b")
def test_every_record_is_decoded(decode: DecodeCommand) -> None:
    found = decode.document()
    assert decode.code == 0
    items = found["items"]
    assert [each["offset"] for each in items] == [0, 1, 2, 3, 4, 5]
    commit, group, deleted, marker, member, streams = items
    assert commit["kind"] == "offset_commit"
    assert commit["key"] == {"group": "grüppe", "topic": "orders", "partition": 7}
    assert commit["value"] == {
        "offset": 4611686018427387904,
        "leader_epoch": 12,
        "metadata": "so fär",
        "commit_timestamp": TIME_MS,
    }
    assert [each["member_id"] for each in group["value"]["members"]] == [
        *("consumer-1-abc", "consumer-2-def")
    ]
    assert (deleted["value"], deleted["is_transactional"]) == (None, True)
    assert marker["kind"] == "marker"
    assert marker["value"] == {"commit": True, "coordinator_epoch": 0}
    assert member["value"]["assigned_partitions"][0]["assignment_epochs"] == [8, 9]
    assert streams["record_type"] == 17
    assert streams["key"] == {"hex": (b"\0\x11streams").hex()}
    assert "or unknown types, shown in hex: 1" in decode.error
    assert found["summary"] == {
        "ok": 6,
        "failed": 0,
        "files": 1,
        "records": 6,
        "unknown_type": 1,
    }


def test_batches_have_their_positions(decode: DecodeCommand) -> None:
    items = decode.document("--batches")["items"]
    begins = [sum(map(len, LOG[:number])) for number in range(len(LOG))]
    assert [each["position"] for each in items] == begins
    assert [each["size_bytes"] for each in items] == list(map(len, LOG))
    assert [each["last_offset"] for each in items] == [1, 2, 3, 4, 5]
    assert [each["producer_id"] for each in items] == [-1, 9, 9, -1, -1]
    assert [each["is_control"] for each in items] == [False, False, True, False, False]


def test_from_offset_and_limit_select_records(decode: DecodeCommand) -> None:
    lines = decode("-o", "jsonl", "--from-offset", "2", "--limit", "2").splitlines()
    assert [json.loads(line)["offset"] for line in lines] == [2, 3]


def test_the_table_has_readable_times_and_keys(decode: DecodeCommand) -> None:
    title, first, *_ = decode("--limit", "1").splitlines()
    assert title.split() == ["OFFSET", "TIME", "TYPE", "KEY", "VALUE", "ERROR"]
    assert "2023-11-14T22:13:20.123Z" in first
    assert "group:grüppe;topic:orders;partition:7" in first


def test_raw_keys_and_values_are_hex_digits(decode: DecodeCommand) -> None:
    items = decode.document("--raw")["items"]
    key, value = GOLDEN["offset-commit-v3"]
    assert key is not None
    assert value is not None
    assert items[0]["key"] == {"hex": key.hex()}
    assert items[0]["value"] == {"hex": value.hex()}
    assert items[2]["value"] is None


@pytest.mark.parametrize("form", ["json", "jsonl"])
def test_a_truncated_last_batch_is_reported_with_its_position(
    decode: DecodeCommand, form: str
) -> None:
    whole = b"".join(LOG)
    decode.file.write_bytes(whole[:-3])
    out = decode("-o", form)
    assert decode.code == 1
    assert f"at byte {len(whole) - len(LOG[-1])}" in decode.error
    assert f"{len(LOG[-1]) - 3} bytes left out" in decode.error
    assert '"offset":4' in out.replace(" ", "")
    assert '"offset":5' not in out.replace(" ", "")


def test_an_unreadable_record_has_an_error(decode: DecodeCommand) -> None:
    key, _ = GOLDEN["offset-commit-v3"]
    decode.file.write_bytes(encode_batch([LogRecord(0, TIME_MS, key, b"\0\3x")]))
    (item,) = decode.document()["items"]
    assert decode.code == 1
    assert item["error"]["code"] == "BAD_VALUE"
    assert item["value"] == {"hex": "000378"}
    decode("-o", "jsonl")
    assert decode.code == 1


def test_a_note_reports_the_zeros_of_a_preallocated_file(decode: DecodeCommand) -> None:
    decode.file.write_bytes(LOG[0] + bytes(4_000))
    assert len(decode.document()["items"]) == 2
    assert decode.code == 0
    assert "zeros, as in a preallocated file" in decode.error


def test_a_missing_file_fails_and_the_others_are_decoded(decode: DecodeCommand) -> None:
    found = decode.document("nowhere.log")
    assert decode.code == 1
    assert len(found["items"]) == 6
    assert found["errors"][0]["id"] == "nowhere.log"


def test_a_limit_below_one_is_refused(decode: DecodeCommand) -> None:
    decode("--limit", "0")
    assert decode.code == 2
    assert "--limit must be 1 or more" in decode.error


def test_zeros_between_batches_are_lost_data(decode: DecodeCommand) -> None:
    decode.file.write_bytes(LOG[0] + bytes(4_096) + LOG[3])
    document = decode.document()
    assert decode.code == 1
    assert [item["offset"] for item in document["items"]] == [0, 1, 4]
    assert "4096 bytes left out" in decode.error


def test_a_pipe_is_refused(decode: DecodeCommand) -> None:
    decode.file.unlink()
    os.mkfifo(decode.file)
    # A FIFO opened for reading and writing does not wait for another process.
    descriptor = os.open(decode.file, os.O_RDWR)
    try:
        output = decode()
    finally:
        os.close(descriptor)
    assert decode.code == 1
    assert "Illegal seek" in output + decode.error
