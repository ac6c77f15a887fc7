"""The manifest: other files of its name, damage, and commits that fail."""

from __future__ import annotations

import logging
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TypeAlias

import pytest

from coterie.broker.log import manifest as module
from coterie.broker.log.directory import CLEAN_NAME, LOCK_NAME, MANIFEST_NAME
from coterie.broker.log.manifest import Changes, Manifest, PartitionRow, SegmentRow
from coterie.errors import LogCorrupt, LogError, LogFull
from tests.broker.log.logs import OTHER, PARTITION, append, open_small

Values: TypeAlias = dict[tuple[str, bytes], bytes | None]

ROW = PartitionRow(1, PARTITION, 0, 3, (SegmentRow(0, 0, 100, 3, 7),))


def change(directory: Path, sql: str) -> None:
    with closing(sqlite3.connect(directory / MANIFEST_NAME)) as connection:
        connection.execute(sql)
        connection.commit()


def write_store(directory: Path) -> None:
    log = open_small(directory)
    log.create(PARTITION)
    log.put("space", b"key", b"value")
    append(log, records=3)
    log.flush()
    log.close()


def assert_refused(directory: Path, message: str) -> None:
    """Assert that no log opens there, and that nothing but a lock is written."""
    before = (directory / MANIFEST_NAME).read_bytes()
    names = {each.name for each in directory.iterdir()}
    with pytest.raises(LogError, match=message):
        open_small(directory)
    assert (directory / MANIFEST_NAME).read_bytes() == before
    assert {each.name for each in directory.iterdir()} == names | {LOCK_NAME}


# Files of others.


def test_a_file_that_is_not_a_store_is_refused_and_unchanged(tmp_path: Path) -> None:
    (tmp_path / MANIFEST_NAME).write_bytes(b"something else entirely" * 100)
    assert_refused(tmp_path, "is not a Coterie store. Name another directory")


def test_a_database_of_another_application_is_refused_and_unchanged(
    tmp_path: Path,
) -> None:
    change(tmp_path, "CREATE TABLE theirs (x)")
    assert_refused(tmp_path, "is not a Coterie store. Name another directory")


@pytest.mark.parametrize("version", [2, 4])
def test_a_store_of_another_version_is_refused_and_unchanged(
    tmp_path: Path, version: int
) -> None:
    write_store(tmp_path)
    change(tmp_path, f"PRAGMA user_version = {version}")
    message = f"another version of Coterie .store version {version}; this one supports"
    assert_refused(tmp_path, message)


def test_a_manifest_whose_creation_was_interrupted_is_new(tmp_path: Path) -> None:
    (tmp_path / MANIFEST_NAME).touch()
    write_store(tmp_path)
    log = open_small(tmp_path)
    assert log.bounds(PARTITION).next_offset == 3
    log.close()


# Damage.


@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE partitions SET log_start_offset = 1",
        "UPDATE partitions SET next_offset = 9",
        "UPDATE partitions SET partition = 4",
        "UPDATE partitions SET topic_id = zeroblob(16)",
        "UPDATE partitions SET topic_id = 'text'",
        "UPDATE segments SET size_bytes = 7",
        "UPDATE segments SET end_offset = 'text'",
        "UPDATE segments SET number = 2",
        "UPDATE journal SET applied = 0",
        "UPDATE journal SET salt = 'text'",
        "DELETE FROM journal",
        "UPDATE sqlite_sequence SET seq = 'text'",
    ],
)
def test_a_changed_row_is_found_at_start(tmp_path: Path, sql: str) -> None:
    write_store(tmp_path)
    change(tmp_path, sql)
    with pytest.raises(LogError, match=r"is damaged: .* backup"):
        open_small(tmp_path)


@pytest.mark.parametrize("value", ["x'00'", "'text'"])
def test_a_changed_value_is_found_when_it_is_read(tmp_path: Path, value: str) -> None:
    write_store(tmp_path)
    change(tmp_path, f"UPDATE small_values SET value = {value}")
    log = open_small(tmp_path)
    with pytest.raises(LogCorrupt, match=r"space: .* backup"):
        log.get("space", b"key")
    with pytest.raises(LogCorrupt):
        list(log.items("space"))
    log.close()


def test_pages_are_checked_after_an_unclean_stop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_store(tmp_path)
    monkeypatch.setattr(module, "damage_of", lambda _: "page 7")
    open_small(tmp_path).close()
    (tmp_path / CLEAN_NAME).unlink()
    with pytest.raises(LogCorrupt, match=r"is damaged: page 7\. Stop the server"):
        open_small(tmp_path)


def test_a_large_manifest_is_checked_in_the_background(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    write_store(tmp_path)
    (tmp_path / CLEAN_NAME).unlink()
    monkeypatch.setattr(module, "CHECKED_BYTES_MAX", 0)
    monkeypatch.setattr(module, "damage_of", lambda _: "page 7")
    with caplog.at_level(logging.ERROR):
        log = open_small(tmp_path)
        for thread in threading.enumerate():
            if thread.name == "check":
                thread.join()
    assert "is damaged: page 7" in caplog.text
    log.close()


# Commits.


@pytest.fixture
def manifest(tmp_path: Path) -> Iterator[Manifest]:
    opened = Manifest(tmp_path / MANIFEST_NAME, is_synced=False)
    yield opened
    opened.close()


def test_a_commit_changes_everything_together(manifest: Manifest) -> None:
    values: Values = {("space", b"key"): b"value", ("space", b"other"): b""}
    manifest.commit(
        Changes(1, [ROW, ROW._replace(number=2, partition=OTHER)], [], values)
    )
    manifest.commit(Changes(2, [], [2], {("space", b"other"): None}))
    assert manifest.journal()[0] == 2
    assert list(manifest.partitions()) == [ROW]
    assert manifest.last_number() == 2
    assert list(manifest.items("space")) == [(b"key", b"value")]


def test_segments_that_are_not_in_a_row_are_deleted(manifest: Manifest) -> None:
    manifest.commit(Changes(1, [ROW]))
    later = ROW._replace(next_offset=9, segments=(SegmentRow(3, 1, 50, 9, 8),))
    manifest.commit(Changes(2, [later]))
    assert list(manifest.partitions()) == [later]


def test_a_bug_in_a_commit_leaves_nothing_of_it(manifest: Manifest) -> None:
    wrong = ROW._replace(number=2, partition=OTHER, log_start_offset=4)
    with pytest.raises(AssertionError):
        manifest.commit(Changes(1, [ROW, wrong]))
    assert list(manifest.partitions()) == []
    manifest.commit(Changes(1, [ROW]))
    assert list(manifest.partitions()) == [ROW]


def test_a_commit_on_a_full_disk_leaves_nothing_of_it(manifest: Manifest) -> None:
    (pages,) = manifest._writer.execute("PRAGMA page_count").fetchone()
    manifest._writer.execute(f"PRAGMA max_page_count = {pages}")
    values: Values = {("space", b"key"): bytes(100_000)}
    with pytest.raises(LogFull):
        manifest.commit(Changes(1, [ROW], values=values))
    manifest._writer.execute("PRAGMA max_page_count = 1000000")
    assert manifest.journal()[0] == 0
    manifest.commit(Changes(1, [ROW], values=values))
    assert list(manifest.partitions()) == [ROW]
