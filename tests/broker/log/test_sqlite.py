"""Guarantees of the SQLite log beyond the contract of `Log`."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from coterie.broker.log import sqlite_file
from coterie.broker.log.log import BatchInfo
from coterie.broker.log.sqlite import SqliteLog
from coterie.broker.log.sqlite_file import (
    CHECKPOINT_PAGES,
    CLEAN_NAME,
    FILE_NAME,
    SCHEMA_VERSION,
)
from coterie.errors import LogCorrupt, LogError, LogFull
from coterie.wire.record_batch import LogRecord, encode_batch
from tests.broker.log.logs import PARTITION, append

APPENDER = """
import sys
from pathlib import Path
from coterie.broker.log.log import BatchInfo, LogPartition
from coterie.broker.log.sqlite import SqliteLog

log = SqliteLog(Path(sys.argv[1]))
where = LogPartition(b"t" * 16, 3)
if where not in log.partitions():
    log.create(where)
while True:
    for _ in range(3):
        base = log.bounds(where).next_offset
        log.append(where, b"%d" % base, BatchInfo(base, base, 0, len(b"%d" % base)))
    log.flush()
    print(log.bounds(where).flushed_offset, flush=True)
"""
KILLS = 12


def test_two_processes_cannot_open_one_store(tmp_path: Path) -> None:
    log = SqliteLog(tmp_path)
    with pytest.raises(LogError, match="in use by another server"):
        SqliteLog(tmp_path)
    log.close()
    SqliteLog(tmp_path).close()


def test_a_new_store_is_readable_by_its_owner_only(tmp_path: Path) -> None:
    directory = tmp_path / "data"
    before = os.umask(0o022)
    try:
        log = SqliteLog(directory)
    finally:
        os.umask(before)
    modes = {each.name: each.stat().st_mode & 0o777 for each in directory.iterdir()}
    log.close()
    assert directory.stat().st_mode & 0o777 == 0o700
    assert FILE_NAME in modes
    assert set(modes.values()) == {0o600}, modes


def test_the_mode_of_an_existing_store_is_kept(tmp_path: Path) -> None:
    SqliteLog(tmp_path).close()
    path = tmp_path / FILE_NAME
    path.chmod(0o640)
    SqliteLog(tmp_path).close()
    assert path.stat().st_mode & 0o777 == 0o640


def test_a_file_that_is_not_a_store_is_refused_and_unchanged(tmp_path: Path) -> None:
    path = tmp_path / FILE_NAME
    path.write_bytes(b"something else entirely" * 100)
    with pytest.raises(LogError, match="not a Coterie store"):
        SqliteLog(tmp_path)
    assert path.read_bytes() == b"something else entirely" * 100


def test_a_database_of_another_application_is_refused_and_unchanged(
    tmp_path: Path,
) -> None:
    with sqlite3.connect(tmp_path / FILE_NAME) as other:
        other.execute("CREATE TABLE theirs (x)")
    other.close()
    before = (tmp_path / FILE_NAME).read_bytes()
    with pytest.raises(LogError, match="not a Coterie store"):
        SqliteLog(tmp_path)
    assert (tmp_path / FILE_NAME).read_bytes() == before


def test_a_newer_store_is_refused(tmp_path: Path) -> None:
    SqliteLog(tmp_path).close()
    with sqlite3.connect(tmp_path / FILE_NAME) as newer:
        newer.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 1}")
    newer.close()
    with pytest.raises(LogError, match="newer Coterie"):
        SqliteLog(tmp_path)


def test_a_failed_flush_on_a_full_disk_stores_nothing(tmp_path: Path) -> None:
    log = SqliteLog(tmp_path)
    log.create(PARTITION)
    append(log)
    log.flush()
    (pages,) = log.writer.execute("PRAGMA page_count").fetchone()
    log.writer.execute(f"PRAGMA max_page_count = {pages + 1}")
    append(log, 105)
    append(log, 1_000_000)
    with pytest.raises(LogFull):
        log.flush()
    assert log.bounds(PARTITION).next_offset == 1
    log.writer.execute("PRAGMA max_page_count = 1000000")
    append(log)
    log.flush()
    assert log.bounds(PARTITION).flushed_offset == 2
    log.close()


def test_a_partition_of_a_failed_flush_can_be_created_again(tmp_path: Path) -> None:
    log = SqliteLog(tmp_path)
    (pages,) = log.writer.execute("PRAGMA page_count").fetchone()
    log.writer.execute(f"PRAGMA max_page_count = {pages}")
    log.create(PARTITION)
    log.append(PARTITION, bytes(100_000), BatchInfo(0, 0, 0, 100_000))
    with pytest.raises(LogFull):
        log.flush()
    log.writer.execute("PRAGMA max_page_count = 1000000")
    log.create(PARTITION)
    append(log)
    log.flush()
    assert log.bounds(PARTITION).flushed_offset == 1
    log.close()


def test_a_bug_in_a_write_leaves_no_transaction_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = SqliteLog(tmp_path)
    log.create(PARTITION)
    append(log)
    monkeypatch.setattr("coterie.broker.log.sqlite.OFFSET_MAX", -1)
    with pytest.raises(AssertionError):
        log.flush()
    assert not log.writer.in_transaction
    assert not log.partitions()
    log.close()


def test_flushes_do_not_extend_the_write_ahead_log(tmp_path: Path) -> None:
    log = SqliteLog(tmp_path, synchronous="OFF")
    wal = tmp_path / f"{FILE_NAME}-wal"
    length = wal.stat().st_size
    log.create(PARTITION)
    for _ in range(3 * CHECKPOINT_PAGES // 10):
        append(log, 40_000)
        log.flush()
    assert wal.stat().st_size == length
    log.close()


def test_the_store_opens_when_the_disk_has_no_space_for_the_write_ahead_log(
    tmp_path: Path,
) -> None:
    SqliteLog(tmp_path).close()
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, hard))
    try:
        log = SqliteLog(tmp_path)
        assert (tmp_path / f"{FILE_NAME}-wal").stat().st_size == 0
        log.create(PARTITION)
        log.flush()
        log.close()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))


@pytest.mark.slow
def test_flushed_data_survives_a_kill(tmp_path: Path) -> None:
    promised = 0
    for lines in range(KILLS):
        child = subprocess.Popen(
            [sys.executable, "-c", APPENDER, str(tmp_path)], stdout=subprocess.PIPE
        )
        assert child.stdout is not None
        for _ in range(lines + 1):
            promised = int(child.stdout.readline())
        os.kill(child.pid, signal.SIGKILL)
        child.stdout.close()
        child.wait()
        log = SqliteLog(tmp_path)
        flushed = log.bounds(PARTITION).flushed_offset
        assert flushed >= promised
        assert flushed % 3 == 0, "half a flush is visible"
        found = log.read(PARTITION, 0, 1_000_000)
        assert found == [b"%d" % offset for offset in range(flushed)]
        log.close()


@pytest.mark.slow
def test_a_truncated_write_ahead_log_contains_whole_flushes_only(
    tmp_path: Path,
) -> None:
    whole = tmp_path / "whole"
    log = SqliteLog(whole)
    log.create(PARTITION)
    log.flush()
    for _ in range(4):
        append(log, 300)
        append(log, 300)
        log.flush()
    wal = (whole / f"{FILE_NAME}-wal").read_bytes()
    seen = set()
    used = len(wal.rstrip(b"\0"))
    for cut in range(0, used + 1, 2_003):
        torn = tmp_path / f"torn{cut}"
        torn.mkdir()
        shutil.copy(whole / FILE_NAME, torn / FILE_NAME)
        (torn / f"{FILE_NAME}-wal").write_bytes(wal[:cut])
        opened = SqliteLog(torn)
        if PARTITION in opened.partitions():
            flushed = opened.bounds(PARTITION).flushed_offset
            assert flushed % 2 == 0, "half a flush is visible"
            seen.add(flushed)
        opened.close()
    log.close()
    assert len(seen) > 1


# Damage.


def _write(directory: Path) -> None:
    log = SqliteLog(directory)
    log.create(PARTITION)
    log.put("space", b"key", b"value")
    append(log, records=3)
    log.flush()
    log.close()


def _change(directory: Path, sql: str) -> None:
    with closing(sqlite3.connect(directory / FILE_NAME)) as connection:
        connection.execute(sql)
        connection.commit()


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE partitions SET log_start_offset = 1",
        "UPDATE partitions SET next_offset = 9",
        "UPDATE partitions SET partition = 4",
        "UPDATE partitions SET topic_id = zeroblob(16)",
        "UPDATE partitions SET topic_id = 'text'",
        "UPDATE batches SET last_offset = 1",
        "UPDATE batches SET last_offset = 'text'",
        "UPDATE batches SET max_timestamp_ms = 1",
        "UPDATE batches SET producer_id = 5",
    ],
)
def test_a_changed_row_is_found_at_start(tmp_path: Path, change: str) -> None:
    _write(tmp_path)
    _change(tmp_path, change)
    with pytest.raises(LogCorrupt, match=f"{FILE_NAME} is damaged: .* backup"):
        SqliteLog(tmp_path)


@pytest.mark.parametrize("size", ["-1", "'text'", "0.5"])
def test_a_changed_size_is_found_when_it_is_read(tmp_path: Path, size: str) -> None:
    _write(tmp_path)
    log = SqliteLog(tmp_path)
    _change(tmp_path, f"UPDATE batches SET size_bytes = {size}")
    with pytest.raises(LogCorrupt, match="the sizes of partition number 1"):
        log.size_bytes(PARTITION)
    log.close()


def test_a_changed_value_is_found_when_it_is_read(tmp_path: Path) -> None:
    _write(tmp_path)
    _change(tmp_path, "UPDATE small_values SET value = x'00'")
    log = SqliteLog(tmp_path)
    with pytest.raises(LogCorrupt, match="wrong checksum of the value of b'key'"):
        log.get("space", b"key")
    with pytest.raises(LogCorrupt):
        list(log.items("space"))
    log.close()


@pytest.mark.parametrize("change", ["bytes = zeroblob(80)", "bytes = 'text'"])
def test_a_changed_batch_is_found_when_it_is_read(tmp_path: Path, change: str) -> None:
    log = SqliteLog(tmp_path)
    log.create(PARTITION)
    for offset in range(2):
        batch = encode_batch([LogRecord(offset, 0, b"k", b"v")])
        log.append(PARTITION, batch, BatchInfo(offset, offset, 0, len(batch)))
    log.flush()
    log.close()
    _change(tmp_path, f"UPDATE batches SET {change} WHERE last_offset = 1")
    log = SqliteLog(tmp_path, verify=True)
    assert len(log.read(PARTITION, 0, 1_000)) == 1
    with pytest.raises(LogCorrupt):
        log.read(PARTITION, 1, 1_000)
    log.close()


def test_compaction_and_deletion_keep_the_checksums_right(tmp_path: Path) -> None:
    log = SqliteLog(tmp_path)
    log.create(PARTITION)
    for _ in range(4):
        append(log, 130)
    log.flush()
    log.replace(PARTITION, 1, b"smaller")
    log.replace(PARTITION, 3, None)
    log.truncate(PARTITION, 1)
    log.flush()
    log.close()
    log = SqliteLog(tmp_path)
    assert log.bounds(PARTITION) == (1, 4, 4)
    assert [info.size_bytes for info in log.batch_infos(PARTITION)] == [7, 130]
    log.close()


def test_pages_are_checked_after_an_unclean_stop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checks: list[Path] = []
    monkeypatch.setattr(sqlite_file, "damage_of", lambda _: checks.append(tmp_path))
    log = SqliteLog(tmp_path)
    log.close()
    assert (tmp_path / CLEAN_NAME).exists()
    checks.clear()
    SqliteLog(tmp_path).close()
    assert checks == []
    (tmp_path / CLEAN_NAME).unlink()
    log = SqliteLog(tmp_path)
    assert checks == [tmp_path]
    assert not (tmp_path / CLEAN_NAME).exists()
    log.close()


def test_a_store_of_version_1_is_upgraded(tmp_path: Path) -> None:
    _write(tmp_path)
    with closing(sqlite3.connect(tmp_path / FILE_NAME)) as connection:
        connection.executescript(
            "ALTER TABLE partitions DROP COLUMN crc;"
            "ALTER TABLE small_values DROP COLUMN crc;"
            "UPDATE batches SET flags = flags & 3;"
            "PRAGMA user_version = 1;"
        )
    log = SqliteLog(tmp_path)
    assert log.bounds(PARTITION) == (0, 3, 3)
    assert list(log.items("space")) == [(b"key", b"value")]
    log.put("space", b"key", b"other")
    append(log)
    log.flush()
    log.close()
    _change(tmp_path, "UPDATE small_values SET value = x'00'")
    log = SqliteLog(tmp_path)
    with pytest.raises(LogCorrupt):
        log.get("space", b"key")
    log.close()
