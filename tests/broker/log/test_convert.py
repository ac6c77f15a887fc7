"""A store of an earlier version is converted, once and completely."""

from __future__ import annotations

import logging
import sqlite3
from collections import namedtuple
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from coterie.broker.log.journal import JournalLog
from coterie.broker.log.log import BatchInfo, Log, LogPartition
from coterie.broker.log.sqlite import SqliteLog
from coterie.broker.log.sqlite_file import CLEAN_NAME, FILE_NAME
from coterie.errors import LogCorrupt, LogError, LogFull
from tests.broker.log.file_calls import FileCalls
from tests.broker.log.logs import OTHER, PARTITION, append, make_batch

EMPTY = LogPartition(b"v" * 16, 7)


def old_store(directory: Path) -> dict[object, object]:
    """Write a store of version 2; return its contents."""
    log = SqliteLog(directory)
    for where in (PARTITION, OTHER, EMPTY):
        log.create(where)
    infos = [append(log, 100 + number, records=3, at_ms=number) for number in range(9)]
    info = BatchInfo(0, 4, 77, 99, 9, 2, 100, 104, True, True)
    log.append(OTHER, make_batch(info), info)
    log.append(EMPTY, make_batch(info), info)
    for number in range(20):
        log.put("space", b"%d" % number, b"value" * number)
    log.put("more", b"key", b"\0")
    log.flush()
    log.truncate(EMPTY, 5)
    log.truncate(PARTITION, 4)
    log.replace(PARTITION, 6, None)
    log.replace(PARTITION, 9, make_batch(infos[3]._replace(size_bytes=80)))
    log.flush()
    found = contents(log)
    log.close()
    return found


def contents(log: Log) -> dict[object, object]:
    """Return everything in a log."""
    found: dict[object, object] = {
        space: list(log.items(space)) for space in ("space", "more")
    }
    for where in log.partitions():
        found[where] = (
            log.bounds(where),
            log.size_bytes(where),
            list(log.batch_infos(where)),
            list(log.read(where, 0, 1 << 20)),
        )
    return found


def open_small(directory: Path) -> JournalLog:
    return JournalLog(directory, journal_bytes=4_096, segment_bytes=250, verify=True)


def change(directory: Path, sql: str) -> None:
    with closing(sqlite3.connect(directory / FILE_NAME)) as connection:
        connection.executescript(sql)


def test_an_earlier_store_is_converted_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    expected = old_store(tmp_path)
    (tmp_path / FILE_NAME).chmod(0o640)
    with caplog.at_level(logging.INFO):
        log = open_small(tmp_path)
    assert contents(log) == expected
    assert "3 partitions (0." in caplog.messages[0]
    assert caplog.messages[1].endswith("converted")
    append(log)
    log.flush()
    log.close()
    caplog.clear()
    log = open_small(tmp_path)
    assert log.bounds(PARTITION) == (4, 28, 28)
    log.close()
    assert caplog.messages == []
    assert (tmp_path / FILE_NAME).stat().st_mode & 0o777 == 0o640
    assert {path.name for path in tmp_path.iterdir()} == {
        FILE_NAME,
        CLEAN_NAME,
        "coterie.lock",
        "journal",
        "segments",
    }


def test_the_store_in_sqlite_refuses_a_converted_one(tmp_path: Path) -> None:
    old_store(tmp_path)
    open_small(tmp_path).close()
    with pytest.raises(LogError, match=r"newer Coterie \(store version 3"):
        SqliteLog(tmp_path)
    open_small(tmp_path).close()


def test_a_store_of_version_1_is_converted(tmp_path: Path) -> None:
    expected = old_store(tmp_path)
    change(
        tmp_path,
        "ALTER TABLE partitions DROP COLUMN crc;"
        "ALTER TABLE small_values DROP COLUMN crc;"
        "UPDATE batches SET flags = flags & 3;"
        "PRAGMA user_version = 1;",
    )
    log = open_small(tmp_path)
    assert contents(log) == expected
    log.close()


@pytest.mark.slow
def test_an_interrupted_conversion_begins_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = FileCalls(monkeypatch)
    expected = old_store(tmp_path)
    for number in range(1, 100):
        calls.fail(number, 5)
        with pytest.raises((LogError, OSError)):
            open_small(tmp_path)
        calls.before = None
        with closing(sqlite3.connect(tmp_path / FILE_NAME)) as connection:
            (version,) = connection.execute("PRAGMA user_version").fetchone()
        if version == 3:
            break
        old = SqliteLog(tmp_path)
        assert contents(old) == expected
        old.close()
    assert number > 5
    log = open_small(tmp_path)
    assert contents(log) == expected
    log.close()


def test_a_disk_without_space_for_both_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = old_store(tmp_path)
    usage: Any = namedtuple("usage", ("total", "used", "free"))
    monkeypatch.setattr("shutil.disk_usage", lambda _: usage(9, 9, 1_000))
    with pytest.raises(LogFull, match="1 MB must be free on its disk: 0 MB are"):
        open_small(tmp_path)
    log = SqliteLog(tmp_path)
    assert contents(log) == expected
    log.close()


@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE batches SET bytes = zeroblob(80)",
        "UPDATE batches SET bytes = 'text'",
        "UPDATE partitions SET next_offset = 1",
        "UPDATE small_values SET value = x'00'",
    ],
)
def test_a_damaged_store_is_not_converted(tmp_path: Path, sql: str) -> None:
    old_store(tmp_path)
    change(tmp_path, sql)
    with pytest.raises(LogCorrupt, match=f"{FILE_NAME} is damaged"):
        open_small(tmp_path)
    with closing(sqlite3.connect(tmp_path / FILE_NAME)) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (2,)
