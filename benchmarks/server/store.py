"""Measure the embedded store, compared with the minimum that the disk allows.

With 1, 10 and 100 batches of 117 bytes per sync, the log on SQLite is compared with a
pre-allocated file that is written in place and synced with fdatasync. No bar: these
figures are the basis of docs/decisions/0006-log-in-sqlite.md. Then each design choice
is compared with its alternative: the share of the sync, the columns of a row besides
its bytes, a pre-allocated write-ahead log, the checkpoint interval, and writing on the
event loop's thread.
"""

from __future__ import annotations

import os
import queue
import sqlite3
import tempfile
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import closing
from pathlib import Path

from benchmarks.harness.figures import Figure, Rounds, alternate, median_ratio
from coterie.broker.log.log import BatchInfo, LogPartition
from coterie.broker.log.sqlite import SqliteLog
from coterie.broker.log.sqlite_file import CHECKPOINT_PAGES, WAL_BYTES

BATCH = bytes(117)
WHERE = LogPartition(b"benchmark-topic\0", 0)
FILE_BYTES = 256 * 1024 * 1024
COLUMNS = 9
"""Columns of a row besides its bytes."""


def measure(rounds: Rounds) -> Iterable[Figure]:
    """Measure all stores on one file system."""
    build = Path.cwd() / "build"
    build.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=build) as folder:
        home = Path(folder)
        for batches in (1, 10, 100):
            yield _against_file(home, batches, rounds)
        yield _against_unsynced(home, rounds)
        yield _columns_against_bytes(home, rounds)
        yield _against_growing(home, rounds)
        for pages in (250, 4_000):
            yield _against_checkpoints(home, pages, rounds)
        yield _loop_against_thread(home, rounds)


def _against_file(home: Path, batches: int, rounds: Rounds) -> Figure:
    log = open_log(home / f"store{batches}", "FULL")
    pairs = alternate(
        rounds,
        lambda: syncs_per_second(log, batches, rounds.seconds),
        lambda: file_syncs_per_second(home / "bare", batches, rounds.seconds),
    )
    log.close()
    return Figure(
        name=f"syncs of {batches} batches relative to a pre-allocated file",
        value=median_ratio(pairs),
        detail=f"{pairs[-1][0]:,.0f}/s | file {pairs[-1][1]:,.0f}/s",
    )


def _against_unsynced(home: Path, rounds: Rounds) -> Figure:
    durable = open_log(home / "durable", "FULL")
    unsynced = open_log(home / "unsynced", "OFF")
    pairs = alternate(
        rounds,
        lambda: syncs_per_second(durable, 100, rounds.seconds),
        lambda: syncs_per_second(unsynced, 100, rounds.seconds),
    )
    durable.close()
    unsynced.close()
    row_us = 1e6 / pairs[-1][1] / 100
    return Figure(
        name="syncs of 100 batches relative to the store without fsync",
        value=median_ratio(pairs),
        detail=f"without sync a row costs {row_us:.1f} us",
    )


def _columns_against_bytes(home: Path, rounds: Rounds) -> Figure:
    with (
        closing(_table(home / "rows", COLUMNS)) as rows,
        closing(_table(home / "bytes", 1)) as plain,
    ):
        pairs = alternate(
            rounds,
            lambda: _rows_per_second(rows, COLUMNS, rounds.seconds),
            lambda: _rows_per_second(plain, 1, rounds.seconds),
        )
    return Figure(
        name="rows with columns relative to rows with bytes only, not synced",
        value=median_ratio(pairs),
        detail=f"{1e6 / pairs[-1][0]:.1f} us a row | {1e6 / pairs[-1][1]:.1f}",
    )


def _against_growing(home: Path, rounds: Rounds) -> Figure:
    log = open_log(home / "lengthened", "FULL")
    growing = open_log(home / "growing", "FULL")
    growing.writer.execute("PRAGMA wal_autocheckpoint = 0")
    growing.append(WHERE, bytes(WAL_BYTES), BatchInfo(0, 0, 0, WAL_BYTES))
    growing.flush()  # from now on each flush extends its write-ahead log
    return _compare(
        "syncs of 1 batch relative to a growing file", log, growing, 1, rounds
    )


def _against_checkpoints(home: Path, pages: int, rounds: Rounds) -> Figure:
    log = open_log(home / f"usual{pages}", "FULL")
    other = open_log(home / f"pages{pages}", "FULL")
    other.writer.execute(f"PRAGMA wal_autocheckpoint = {pages}")
    return _compare(
        f"syncs of 10: checkpoint at {CHECKPOINT_PAGES} relative to {pages} pages",
        log,
        other,
        10,
        rounds,
    )


def _compare(
    name: str, log: SqliteLog, other: SqliteLog, batches: int, rounds: Rounds
) -> Figure:
    pairs = alternate(
        rounds,
        lambda: syncs_per_second(log, batches, rounds.seconds),
        lambda: syncs_per_second(other, batches, rounds.seconds),
    )
    log.close()
    other.close()
    detail = f"{pairs[-1][0]:,.0f}/s | {pairs[-1][1]:,.0f}/s"
    return Figure(name=name, value=median_ratio(pairs), detail=detail)


def _loop_against_thread(home: Path, rounds: Rounds) -> Figure:
    log = open_log(home / "threads", "FULL")
    tasks: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
    finished: queue.SimpleQueue[None] = queue.SimpleQueue()

    def work() -> None:
        while (write := tasks.get()) is not None:
            write()
            finished.put(None)

    def flush_in_thread() -> None:
        staged = log.take()
        tasks.put(staged.write)
        finished.get()
        log.settle(staged)

    thread = threading.Thread(target=work)
    thread.start()
    pairs = alternate(
        rounds,
        lambda: syncs_per_second(log, 1, rounds.seconds),
        lambda: syncs_per_second(log, 1, rounds.seconds, flush_in_thread),
    )
    tasks.put(None)
    thread.join()
    log.close()
    return Figure(
        name="syncs of 1 batch in the loop's thread relative to another thread",
        value=median_ratio(pairs),
        detail=f"{pairs[-1][0]:,.0f}/s | {pairs[-1][1]:,.0f}/s",
    )


def open_log(directory: Path, synchronous: str) -> SqliteLog:
    """Create a store with one partition."""
    log = SqliteLog(directory, synchronous=synchronous)
    log.create(WHERE)
    log.flush()
    return log


def _table(path: Path, columns: int) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = OFF")
    more = "".join(f", column{at} INTEGER" for at in range(1, columns))
    connection.execute(
        f"CREATE TABLE batches (place INTEGER PRIMARY KEY{more}, bytes BLOB)"
    )
    return connection


def _rows_per_second(
    connection: sqlite3.Connection, columns: int, seconds: float
) -> float:
    values = ", ".join("?" * (columns + 1))
    (at,) = connection.execute("SELECT coalesce(max(place), 0) FROM batches").fetchone()
    first, began = at, time.perf_counter()
    while time.perf_counter() - began < seconds:
        rows = [(at + more, *range(1, columns), BATCH) for more in range(1, 101)]
        at += len(rows)
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany(f"INSERT INTO batches VALUES ({values})", rows)
        connection.execute("COMMIT")
    return float((at - first) / (time.perf_counter() - began))


def syncs_per_second(
    log: SqliteLog,
    batches: int,
    seconds: float,
    flush: Callable[[], None] | None = None,
) -> float:
    """Append and flush batches repeatedly; return the flushes per second."""
    flush = flush or log.flush
    flushes, began = 0, time.perf_counter()
    while time.perf_counter() - began < seconds:
        for _ in range(batches):
            base = log.bounds(WHERE).next_offset
            log.append(WHERE, BATCH, BatchInfo(base, base, 0, len(BATCH)))
        flush()
        flushes += 1
    return flushes / (time.perf_counter() - began)


def file_syncs_per_second(path: Path, batches: int, seconds: float) -> float:
    """Write and sync batches in place repeatedly; return the syncs per second."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    os.posix_fallocate(descriptor, 0, FILE_BYTES)
    os.fsync(descriptor)
    body = BATCH * batches
    flushes, at, began = 0, 0, time.perf_counter()
    while time.perf_counter() - began < seconds:
        os.pwrite(descriptor, body, at % (FILE_BYTES - len(body)))
        os.fdatasync(descriptor)
        at += len(body)
        flushes += 1
    elapsed = time.perf_counter() - began
    os.close(descriptor)
    return flushes / elapsed
