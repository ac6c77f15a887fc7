"""A journal whose last bytes a power failure tore: whole flushes, and all synced ones.

COTERIE_TEST_TEAR_STRIDE is the distance between two tears in bytes; 1 tears at each.
"""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
import struct
import tempfile
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from crc32c import crc32c

from coterie.broker.log.directory import MANIFEST_NAME
from coterie.broker.log.journal import JournalLog
from coterie.broker.log.journal_frames import Frame, read_frames
from coterie.broker.log.log import Log
from coterie.errors import LogCorrupt
from tests.broker.log.logs import PARTITION, append

STRIDE = int(os.environ.get("COTERIE_TEST_TEAR_STRIDE", "601"))
SPACE = "space"
JOURNALS = ("journal/0.journal", "journal/1.journal")
JOURNAL_BYTES = 256 * 1024
FLUSHES = 6
WAL_NAME = f"{MANIFEST_NAME}-wal"
NAMES = (MANIFEST_NAME, WAL_NAME, *JOURNALS)
WAL_HEADER, FRAME_HEADER, PAGE = 32, 24, 4_096


@pytest.fixture
def folder() -> Iterator[Path]:
    """Yield a folder in memory if there is one: the tears replace failed syncs."""
    memory = Path("/dev/shm")
    where = memory if memory.is_dir() else None
    with tempfile.TemporaryDirectory(dir=where) as folder:
        yield Path(folder)


@dataclass(frozen=True)
class Store:
    """The files of a store, its frames, and its contents after each of them."""

    files: dict[str, bytes]
    journal: str
    """The name of the journal with the frames."""
    frames: list[Frame]
    contents: list[Contents]


Contents = tuple[list[bytes], list[tuple[bytes, bytes]]]


def contents(log: Log) -> Contents:
    """Return the batches of the partition and the values of the space."""
    batches: list[bytes] = []
    if PARTITION in log.partitions():
        while more := log.read(PARTITION, len(batches), 1_000_000):
            batches += more
    return batches, list(log.items(SPACE))


def open_journal(folder: Path) -> JournalLog:
    return JournalLog(folder, verify=True, journal_bytes=JOURNAL_BYTES)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """Return a store as it is while a server runs, before any checkpoint."""
    folder = tmp_path_factory.mktemp("store")
    log = open_journal(folder)
    log.create(PARTITION)
    log.flush()
    found = [contents(log)]
    for number in range(FLUSHES):
        for size in (300, 3_000):
            append(log, size)
        log.put(SPACE, b"key", b"%d" % number)
        log.flush()
        found.append(contents(log))
    files = {
        name: (folder / name).read_bytes() for name in NAMES if (folder / name).exists()
    }
    with closing(sqlite3.connect(folder / MANIFEST_NAME)) as connection:
        [(salt,)] = connection.execute("SELECT salt FROM journal")
    log.close()
    [(name, frames)] = [
        (name, frames)
        for name in JOURNALS
        if (frames := read_frames(files[name], crc32c(salt)))
    ]
    assert len(frames) == len(found)
    return Store(files, name, frames, found)


def open_torn(folder: Path, store: Store, journal: bytes) -> JournalLog:
    """Open a store with another first journal."""
    for path in folder.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    (folder / "journal").mkdir()
    for name, data in store.files.items():
        (folder / name).write_bytes(journal if name == store.journal else data)
    return open_journal(folder)


def copy_without(store: Store, folder: Path, name: str) -> None:
    """Copy a store without a file."""
    (folder / "journal").mkdir()
    for each, data in store.files.items():
        if each != name:
            (folder / each).write_bytes(data)


def tears(store: Store) -> Iterator[int]:
    """Yield positions in the last frame: around its parts, and others by the stride."""
    last = store.frames[-1]
    near = {last.start + by for by in (0, 1, 4, 8, 16, 19, 20, 21)}
    near |= {last.end - by for by in (1, 2)}
    yield from sorted({*near, *range(last.start, last.end, STRIDE)})


def nothing(rest: bytes) -> bytes:
    return b""


def zeros(rest: bytes) -> bytes:
    return bytes(len(rest))


def garbage(rest: bytes) -> bytes:
    return random.Random(len(rest)).randbytes(len(rest))


def lost_first_half(rest: bytes) -> bytes:
    """Return the later bytes without the earlier: a disk may reorder its sectors."""
    half = len(rest) // 2
    return bytes(half) + rest[half:]


@pytest.mark.slow
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("tail", [nothing, zeros, garbage, lost_first_half])
def test_a_frame_torn_at_any_byte_is_absent_and_earlier_ones_are_whole(
    store: Store,
    folder: Path,
    tail: Any,
    record_property: Any,
    caplog: pytest.LogCaptureFixture,
) -> None:
    data, last = store.files[store.journal], store.frames[-1]
    positions = list(tears(store))
    for at in positions:
        torn = data[:at] + tail(data[at : last.end])
        if tail is not nothing:
            torn += data[last.end :]
        caplog.clear()
        log = open_torn(folder, store, torn)
        is_whole = torn == data
        assert contents(log) == store.contents[-1 if is_whole else -2], at
        # Of a frame whose sequence number was not written, nothing is known.
        if not is_whole and torn[last.start + 8 : last.start + 16].strip(b"\0"):
            assert "was not finished and is dropped" in caplog.text, at
        append(log, 100)
        log.flush()
        continued = contents(log)
        log.close()
        again = open_journal(folder)
        assert contents(again) == continued, at
        again.close()
    record_property("tears", len(positions))
    assert len(positions) > 10


@pytest.mark.slow
@pytest.mark.timeout(3_600)
def test_a_changed_byte_before_the_last_frame_is_damage(
    store: Store, folder: Path, record_property: Any
) -> None:
    data = store.files[store.journal]
    positions = range(0, store.frames[-1].start, max(1, STRIDE // 20))
    for at in positions:
        changed = bytearray(data)
        changed[at] ^= 0x40
        with pytest.raises(LogCorrupt, match=r"\d\.journal is damaged"):
            open_torn(folder, store, bytes(changed)).close()
    record_property("changed bytes", len(positions))


@pytest.mark.slow
@pytest.mark.parametrize("name", [MANIFEST_NAME, *JOURNALS])
def test_a_file_that_is_missing_after_a_crash_is_damage(
    store: Store, folder: Path, name: str
) -> None:
    copy_without(store, folder, name)
    # Without it, the store would be the empty one of the manifest, or a new one.
    with pytest.raises(LogCorrupt, match=r"is (empty or )?missing|is damaged"):
        open_journal(folder)


@pytest.mark.slow
def test_the_first_frames_need_no_write_ahead_log_of_the_manifest(
    store: Store, folder: Path
) -> None:
    copy_without(store, folder, WAL_NAME)
    log = open_journal(folder)
    assert contents(log) == store.contents[-1]
    log.close()


@pytest.fixture(scope="module")
def moved(store: Store, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the files of a store just after the commit of a checkpoint."""
    folder, copy = tmp_path_factory.mktemp("moving"), tmp_path_factory.mktemp("moved")
    log = open_torn(folder, store, store.files[store.journal])
    log.checkpoint()
    shutil.copytree(folder, copy, dirs_exist_ok=True)
    log.close()
    return copy


@pytest.mark.slow
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("tail", [nothing, zeros, garbage, lost_first_half])
def test_a_checkpoint_whose_commit_was_torn_at_any_byte_loses_nothing(
    store: Store, moved: Path, folder: Path, tail: Any, record_property: Any
) -> None:
    wal = (moved / WAL_NAME).read_bytes()
    positions = range(WAL_HEADER, len(wal) + 1, STRIDE)
    for at in positions:
        torn = folder / str(at)
        shutil.copytree(moved, torn)
        (torn / WAL_NAME).write_bytes(wal[:at] + tail(wal[at:]))
        log = open_journal(torn)
        assert contents(log) == store.contents[-1], at
        log.close()
        shutil.rmtree(torn)
    record_property("tears", len(positions))
    assert len(positions) > 10


@pytest.mark.slow
def test_a_page_of_the_manifest_torn_by_sqlite_is_read_from_its_write_ahead_log(
    store: Store, moved: Path, folder: Path, record_property: Any
) -> None:
    wal = (moved / WAL_NAME).read_bytes()
    frames = range(WAL_HEADER, len(wal), FRAME_HEADER + PAGE)
    pages = {struct.unpack_from(">I", wal, at)[0] for at in frames}
    database = (moved / MANIFEST_NAME).read_bytes().ljust(max(pages) * PAGE, b"\0")
    for page in pages:
        for kept in (0, 512, PAGE // 2, PAGE - 1):
            torn = bytearray(database)
            torn[(page - 1) * PAGE + kept : page * PAGE] = garbage(bytes(PAGE - kept))
            copy = folder / f"{page}-{kept}"
            shutil.copytree(moved, copy)
            (copy / MANIFEST_NAME).write_bytes(torn)
            log = open_journal(copy)
            assert contents(log) == store.contents[-1], (page, kept)
            log.close()
    record_property("tears", 4 * len(pages))
