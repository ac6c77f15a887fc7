"""Tests for segments as a source: stable offsets, gaps, ranges and removed files."""

from __future__ import annotations

import pickle
import struct
from pathlib import Path

import pytest

from coterie.errors import LogError, SettingError
from coterie.pipeline.segments import records
from coterie.pipeline.sources.head_tracker import HeadTracker
from coterie.pipeline.sources.planning import plan
from coterie.pipeline.sources.row_builder import BatchRun
from coterie.pipeline.sources.segment_files import LogFile, LogFiles
from coterie.pipeline.sources.segments import SegmentSource, open_segments
from coterie.pipeline.sources.source import OffsetRange, open_source
from coterie.pipeline.tables.ingested import LOG_GAPS, QUARANTINE, RECORDS
from coterie.wire.record_batch import LogRecord, encode_batch
from tests.pipeline.codec.golden import GOLDEN
from tests.pipeline.sources.logs import (
    emptied,
    marker,
    of_transaction,
    plain,
    read_all,
    read_in_many_runs,
    read_ranges,
    with_holes,
    write,
)


def head(source: SegmentSource, partition: int = 0) -> tuple[int, int, int]:
    found = source.heads()[partition]
    return found.start_offset, found.stable_offset, found.end_offset


def test_rows_are_those_of_the_table_records(tmp_path: Path) -> None:
    source = open_segments(
        str(write(tmp_path, {0: [plain(0, 2, time=-1), plain(2)]}, 7))
    )
    (part,) = plan(source.heads(), {})
    (rows,) = source.read(part)
    assert rows.records.schema == RECORDS.schema
    assert rows.faults.schema == QUARANTINE.schema
    assert rows.gaps.schema == LOG_GAPS.schema
    first, _, last = rows.records.to_pylist()
    assert first["append_ts"] is None
    assert str(last["append_ts"]) == "1970-01-01 00:00:01+00:00"
    assert (last["log_partition"], last["log_offset"], last["base_offset"]) == (7, 2, 2)
    assert (last["key"], last["value"], last["size_bytes"]) == (b"k2", b"v", 3)
    assert (last["outcome"], last["is_control"]) == (None, False)


@pytest.mark.parametrize("time", [-5, 253_402_300_800_000, 2**62])
def test_timestamps_out_of_range_are_null(tmp_path: Path, time: int) -> None:
    source = open_segments(str(write(tmp_path, {0: [plain(0, time=time)]})))
    assert read_all(source).records[0]["append_ts"] is None


def test_a_partition_folder_or_a_single_file_is_read_as_a_log(tmp_path: Path) -> None:
    write(tmp_path, {0: [plain(0)], 1: [plain(1)]}, 3)
    folder = tmp_path / "__consumer_offsets-3"
    (tmp_path / "dump.log").write_bytes(plain(9))
    other = tmp_path / "other"
    other.mkdir()
    (other / "late.log").write_bytes(plain(5))
    (other / "a.log").write_bytes(plain(6))
    (other / "a.log.deleted").write_bytes(plain(8))
    for where, offsets in ((folder, [0, 1]), (folder / f"{1:020d}.log", [1])):
        source = open_source(str(where))
        assert source.heads().keys() == {3}
        assert read_all(source).offsets == offsets
    source = open_source(str(tmp_path / "dump.log"), log_partition=8)
    assert (source.heads().keys(), read_all(source).offsets) == ({8}, [9])
    assert read_all(open_source(f"segments:{other}")).offsets == [5, 6]


def test_a_path_without_a_log_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="has no log segments: give a folder"):
        open_segments(str(tmp_path)).heads()
    with pytest.raises(SettingError, match="does not exist"):
        open_segments(str(tmp_path / "nowhere")).heads()
    with pytest.raises(SettingError, match="Unrecognized filesystem"):
        open_source("segments:gopher://x/y")
    with pytest.raises(SettingError, match=r"is no source\. Use segments:"):
        open_source(str(tmp_path / "nowhere"))


@pytest.mark.parametrize("key", [None, b"order-1", struct.pack(">q", 7)])
def test_the_folder_of_another_topic_is_refused(
    tmp_path: Path, key: bytes | None
) -> None:
    folder = tmp_path / "orders-0"
    folder.mkdir()
    records = [LogRecord(at, 5, key, b"value") for at in range(3)]
    (folder / f"{0:020d}.log").write_bytes(encode_batch(records))
    with pytest.raises(SettingError, match="none of the first 3 records is one of"):
        open_segments(str(folder)).check()


def test_a_folder_of_any_name_may_have_records_of_a_coordinator(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "copy-0"
    folder.mkdir()
    key, value = GOLDEN["offset-commit-v3"]
    share = LogRecord(0, 5, struct.pack(">h", 11) + b"\0\1g", b"\0\0")
    for record in (share, LogRecord(0, 5, key, value)):
        (folder / f"{0:020d}.log").write_bytes(encode_batch([record]))
        open_segments(str(folder)).check()


def test_other_file_systems_are_supported(tmp_path: Path) -> None:
    write(tmp_path, {0: [plain(0), plain(1)]})
    source = open_source(tmp_path.as_uri())
    assert read_all(source).offsets == [0, 1]
    assert source.describe() == f"segments:{tmp_path.as_uri()}"


def test_a_source_is_equal_after_pickling(tmp_path: Path) -> None:
    source = open_segments(str(write(tmp_path, {0: [plain(0), plain(1)]})))
    parts = plan(source.heads(), {})
    other: SegmentSource = pickle.loads(pickle.dumps(source))
    assert read_ranges(other, parts).offsets == [0, 1]
    assert other == source


def test_records_after_an_open_transaction_are_not_read(tmp_path: Path) -> None:
    log = [plain(0), of_transaction(1, 7), plain(2), of_transaction(3, 8)]
    log.append(marker(4, 8, commit=True))
    source = open_segments(str(write(tmp_path, {0: log})))
    assert head(source) == (0, 1, 5)
    assert read_all(source).offsets == [0]
    write(tmp_path, {0: [*log, marker(5, 7, commit=False)]})
    assert head(source) == (0, 6, 6)
    read = read_ranges(source, plan(source.heads({0: 1}), {0: 1}))
    assert read.offsets == [1, 2, 3, 4, 5]
    assert read.outcomes == {1: "aborted", 2: None, 3: "committed", 4: None, 5: None}
    assert [each["is_control"] for each in read.records] == [False] * 3 + [True] * 2


def test_a_gap_before_an_open_transaction_is_reported_when_it_ends(
    tmp_path: Path,
) -> None:
    log = [plain(0), of_transaction(5, 7)]
    source = open_segments(str(write(tmp_path, {0: log})))
    assert head(source) == (0, 1, 6)
    assert read_all(source).missing == []
    write(tmp_path, {0: [*log, marker(6, 7, commit=True)]})
    assert read_in_many_runs(source, 1).missing == [(1, 5, "missing")]


def test_gaps_have_their_offsets_and_reasons(tmp_path: Path) -> None:
    broken = bytearray(plain(30, 2))
    broken[-1] ^= 1
    log = [
        plain(3),
        with_holes([6, 9], 5, 11),
        plain(12),
        emptied(20, 22),
        bytes(broken),
        plain(32),
        b"rubbish" * 9,
        plain(40),
    ]
    source = open_segments(str(write(tmp_path, {3: log, 60: [plain(60)]})))
    read = read_all(source)
    assert read.offsets == [3, 6, 9, 12, 32, 40, 60]
    assert read.missing == [
        (0, 3, "log_start"),
        (4, 5, "missing"),
        (5, 6, "missing"),
        (7, 9, "missing"),
        (10, 12, "missing"),
        (13, 20, "missing"),
        (20, 23, "missing"),
        (23, 30, "missing"),
        (30, 32, "unreadable"),
        (33, 40, "unreadable"),
        (41, 60, "missing"),
    ]
    bad, rubbish = read.faults
    at = sum(map(len, log[:4]))
    assert (bad["source"], bad["position"]) == (
        "__consumer_offsets-0/00000000000000000003.log",
        at,
    )
    assert bad["reason"] == "bad_batch"
    assert "the checksum is wrong" in bad["message"]
    assert "offsets 30 to 31" in bad["message"]
    assert rubbish["position"] == at + len(broken) + len(plain(32))
    assert rubbish["message"].startswith("63 bytes: ")


def test_duplicate_batches_are_skipped(tmp_path: Path) -> None:
    source = open_segments(str(write(tmp_path, {0: [plain(0, 3), plain(3, 3)]})))
    folder = tmp_path / "__consumer_offsets-0"
    (folder / "copy.log").write_bytes(plain(0, 3) + plain(3, 3))
    (folder / "more.log").write_bytes(plain(2, 6))
    read = read_all(source)
    assert read.offsets == list(range(8))
    assert [each["base_offset"] for each in read.records] == [0, 0, 0, 3, 3, 3, 2, 2]
    assert read.missing == []
    assert read_in_many_runs(source, 1) == read


def test_a_truncated_last_batch_is_read_by_the_next_read(tmp_path: Path) -> None:
    whole = plain(1, 3)
    source = open_segments(str(write(tmp_path, {0: [plain(0), whole[:-4]]})))
    assert head(source) == (0, 1, 1)
    read = read_all(source)
    assert (read.offsets, read.faults) == ([0], [])
    write(tmp_path, {0: [plain(0), whole]})
    ranges = plan(source.heads({0: 1}), {0: 1})
    assert read_ranges(source, ranges).offsets == [1, 2, 3]


def test_a_truncated_batch_before_another_segment_is_a_fault(tmp_path: Path) -> None:
    source = open_segments(str(write(tmp_path, {0: [plain(0), plain(1)[:-4]]})))
    assert head(source)[1] == 1
    write(tmp_path, {9: [plain(9)]})
    ranges = plan(source.heads({0: 1}), {0: 1})
    read = read_ranges(source, ranges)
    assert read.missing == [(1, 9, "unreadable")]
    assert [each["position"] for each in read.faults] == [len(plain(0))]


def test_a_preallocated_file_ends_after_its_last_batch(
    tmp_path: Path,
) -> None:
    source = open_segments(str(write(tmp_path, {0: [plain(0), bytes(70_000)]})))
    assert head(source) == (0, 1, 1)
    assert read_all(source).faults == []


@pytest.mark.parametrize("keeps", [True, False], ids=["same driver", "another driver"])
def test_a_file_compacted_between_reads_returns_each_record_once(
    tmp_path: Path, *, keeps: bool
) -> None:
    log = [plain(at, 2) for at in range(0, 40, 2)]
    source = open_segments(str(write(tmp_path, {0: log})))
    (part, *_) = plan(source.heads(), {}, max_records=20)
    assert part[1:3] == (0, 20)
    assert read_ranges(source, [part]).offsets == list(range(20))
    rest = plan(source.heads({0: 20}), {0: 20})
    write(tmp_path, {0: [*log[3:5], *log[12:], plain(40, 2)]})
    read = read_ranges(source, rest)
    assert read.offsets == list(range(24, 40))
    assert read.missing == [(20, 24, "missing")]
    again = source if keeps else open_segments(str(tmp_path))
    read = read_ranges(again, plan(again.heads({0: 40}), {0: 40}))
    assert read.offsets == [40, 41]


def test_a_log_shorter_than_the_read_position_is_an_error(tmp_path: Path) -> None:
    source = open_segments(str(write(tmp_path, {0: [plain(0)], 5: [plain(5)]})))
    parts = plan(source.heads(), {})
    (tmp_path / "__consumer_offsets-0" / f"{5:020d}.log").unlink()
    with pytest.raises(LogError, match="ends at offset 1, and ended at 6 when"):
        read_ranges(source, parts)


def test_reading_an_open_transaction_is_an_error(tmp_path: Path) -> None:
    source = open_segments(str(write(tmp_path, {0: [of_transaction(0, 7)]})))
    with pytest.raises(LogError, match="has not ended: read up to the stable offset"):
        list(source.read(OffsetRange(0, 0, 1)))


def test_a_repeated_scan_starts_at_the_last_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = [plain(at) for at in range(2_000)]
    source = open_segments(str(write(tmp_path, {0: log})))
    assert head(source)[1] == 2_000
    write(tmp_path, {0: [*log, plain(2_000)]})
    scanned: list[int] = []
    add = HeadTracker.add

    def count(self: HeadTracker, run: BatchRun) -> None:
        scanned.extend(run.bases.tolist())
        add(self, run)

    monkeypatch.setattr(HeadTracker, "add", count)
    assert source.heads({0: 2_000})[0].stable_offset == 2_001
    assert scanned == [2_000]


def test_a_new_driver_begins_with_the_segment_of_its_position(tmp_path: Path) -> None:
    files = {at: [plain(at, 10)] for at in range(0, 50, 10)}
    folder = write(tmp_path, files) / "__consumer_offsets-0"
    source = open_segments(str(tmp_path))
    (folder / f"{20:020d}.log").write_bytes(b"this file must not be read")
    found = source.heads({0: 40})[0]
    assert (found.start_offset, found.stable_offset) == (0, 50)


def freeze_listing(
    source: SegmentSource, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    """Make the next calls that list the folder return its current files."""
    before, list_files = source.files.files(0), LogFiles.files
    left = iter(range(times))

    def files(self: LogFiles, log_partition: int) -> list[LogFile]:
        return list_files(self, log_partition) if next(left, None) is None else before

    monkeypatch.setattr(LogFiles, "files", files)
    monkeypatch.setattr(LogFiles, "find", lambda self: {0: self.files(0)})


def test_files_that_a_broker_removes_during_a_read_are_listed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The log cleaner merges small segments into the first of them.
    source = open_segments(str(write(tmp_path, {at: [plain(at)] for at in range(4)})))
    parts = plan(source.heads(), {})
    freeze_listing(source, monkeypatch, 3)
    folder = tmp_path / "__consumer_offsets-0"
    for at in (0, 2, 3):
        (folder / f"{at:020d}.log").unlink()
    write(tmp_path, {1: [plain(1), plain(3)]})
    read = read_ranges(source, parts)
    assert read.offsets == [1, 3]
    assert read.missing == [(0, 1, "log_start"), (2, 3, "missing")]
    assert head(open_segments(str(tmp_path))) == (1, 4, 4)


def test_files_that_are_removed_repeatedly_are_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = open_segments(str(write(tmp_path, {0: [plain(0)]})))
    freeze_listing(source, monkeypatch, 99)
    (tmp_path / "__consumer_offsets-0" / f"{0:020d}.log").unlink()
    with pytest.raises(LogError, match="no longer exists"):
        source.heads()


def test_a_range_is_read_in_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = [plain(0), of_transaction(1, 7, 3), marker(4, 7, commit=True), emptied(5, 9)]
    garbage = bytearray(plain(10, 3))
    garbage[-2] ^= 1
    log += [bytes(garbage), with_holes([14, 16], 13, 17), plain(20, 4), plain(24)]
    source = open_segments(str(write(tmp_path, {0: log})))
    whole = read_all(source)
    assert whole.offsets == [0, 1, 2, 3, 4, 14, 16, 20, 21, 22, 23, 24]
    monkeypatch.setattr(records, "PIECE_RECORDS", 1)
    (part,) = plan(source.heads(), {})
    assert len(list(source.read(part))) > 5
    assert read_all(source) == whole
