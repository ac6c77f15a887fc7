"""A store whose last bytes a power failure tore: whole flushes, and all synced ones.

COTERIE_TEST_TEAR_STRIDE is the distance between two tears in bytes; 1 tears at each.
"""

from __future__ import annotations

import os
import random
import struct
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from coterie.broker.log.log import Log
from coterie.broker.log.sqlite import SqliteLog
from coterie.broker.log.sqlite_file import FILE_NAME
from tests.broker.log.logs import PARTITION, append

STRIDE = int(os.environ.get("COTERIE_TEST_TEAR_STRIDE", "601"))
HEADER, FRAME_HEADER, PAGE = 32, 24, 4_096
FRAME = FRAME_HEADER + PAGE
FLUSHES = 6
SPACE = "space"


@pytest.fixture
def folder() -> Iterator[Path]:
    """Yield a folder in memory if there is one: the tears replace failed syncs."""
    memory = Path("/dev/shm")
    where = memory if memory.is_dir() else None
    with tempfile.TemporaryDirectory(dir=where) as folder:
        yield Path(folder)


@dataclass(frozen=True)
class Store:
    """The files of a store, and its contents after each flush."""

    database: bytes
    wal: bytes
    """Without the zeros after its last frame."""
    last_flush_at: int
    """The position in `wal` at which the last flush begins."""
    contents: list[Contents]


Contents = tuple[list[bytes], list[tuple[bytes, bytes]]]


def contents(log: Log) -> Contents:
    """Return the batches of the partition and the values of the space."""
    batches: list[bytes] = []
    if PARTITION in log.partitions():
        while more := log.read(PARTITION, len(batches), 1_000_000):
            batches += more
    return batches, list(log.items(SPACE))


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """Return a store as it is while a server runs, before any checkpoint."""
    folder = tmp_path_factory.mktemp("store")
    log = SqliteLog(folder)
    log.create(PARTITION)
    log.flush()
    found, lengths = [], []
    for number in range(FLUSHES):
        for size in (300, 3_000):
            append(log, size)
        log.put(SPACE, b"key", b"%d" % number)
        log.flush()
        found.append(contents(log))
        lengths.append(_frames_end((folder / f"{FILE_NAME}-wal").read_bytes()))
    wal = (folder / f"{FILE_NAME}-wal").read_bytes()[: lengths[-1]]
    database = (folder / FILE_NAME).read_bytes()
    log.close()
    return Store(database, wal, lengths[-2], found)


def _frames_end(wal: bytes) -> int:
    """Return the end of the last frame with the salt of the header."""
    at = HEADER
    while wal[at + 8 : at + 16] == wal[16:24]:
        at += FRAME
    return at


def open_torn(folder: Path, database: bytes, wal: bytes) -> SqliteLog:
    """Open a store of these bytes."""
    for name in (FILE_NAME, f"{FILE_NAME}-wal", f"{FILE_NAME}-shm"):
        (folder / name).unlink(missing_ok=True)
    (folder / FILE_NAME).write_bytes(database)
    (folder / f"{FILE_NAME}-wal").write_bytes(wal)
    return SqliteLog(folder)


def tears(store: Store) -> Iterator[int]:
    """Yield positions in the last flush: around each page's end, and all others by
    the stride."""
    ends = range(store.last_flush_at, len(store.wal) + 1, FRAME)
    near = {
        end + by
        for end in ends
        for by in (-1, 0, 1, FRAME_HEADER - 1, FRAME_HEADER, FRAME_HEADER + 1)
    }
    every = range(store.last_flush_at, len(store.wal), STRIDE)
    yield from sorted(
        at for at in {*near, *every} if store.last_flush_at <= at < len(store.wal)
    )


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
def test_a_flush_torn_at_any_byte_is_absent_and_earlier_ones_are_whole(
    store: Store, folder: Path, tail: Any, record_property: Any
) -> None:
    positions = list(tears(store))
    for at in positions:
        wal = store.wal[:at] + tail(store.wal[at:])
        log = open_torn(folder, store.database, wal)
        # The last flush is there if and only if its bytes are.
        assert contents(log) == store.contents[-1 if wal == store.wal else -2], at
        append(log, 100)
        log.flush()
        continued = contents(log)
        log.close()
        again = SqliteLog(folder)
        assert contents(again) == continued, at
        again.close()
    record_property("tears", len(positions))
    assert len(positions) > 2 * 6


@pytest.mark.slow
def test_a_page_torn_by_a_checkpoint_is_read_from_the_write_ahead_log(
    store: Store, folder: Path, record_property: Any
) -> None:
    # A checkpoint writes pages that the synced write-ahead log has.
    pages = {
        struct.unpack_from(">I", store.wal, at)[0]
        for at in range(HEADER, len(store.wal), FRAME)
    }
    database = store.database.ljust(max(pages) * PAGE, b"\0")
    for page in pages:
        for kept in (0, 512, PAGE // 2, PAGE - 1):
            torn = bytearray(database)
            torn[(page - 1) * PAGE + kept : page * PAGE] = garbage(bytes(PAGE - kept))
            log = open_torn(folder, bytes(torn), store.wal)
            assert contents(log) == store.contents[-1], (page, kept)
            log.close()
    record_property("tears", 4 * len(pages))
