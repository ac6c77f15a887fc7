"""What does the embedded store cost beside the least a disk can do?

Batches of 117 bytes, 1, 10 and 100 a sync: our log on SQLite against a bare file that
was given its length before, written in place and synced with fdatasync. No bar; these
figures are what docs/decisions/0006-embedded-store.md stands on. Then what a row costs
by itself: the same with 100 a sync, against the same store not syncing.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

from benchmarks.figures import Figure, Rounds, alternate, median_ratio
from coterie.log.log import BatchInfo, LogPartition
from coterie.log.sqlite import SqliteLog

BATCH = bytes(117)
WHERE = LogPartition(b"benchmark-topic\0", 0)
FILE_BYTES = 256 * 1024 * 1024


def measure(rounds: Rounds) -> Iterable[Figure]:
    """All in one folder of one file system."""
    with tempfile.TemporaryDirectory(dir=Path.cwd() / "build") as folder:
        home = Path(folder)
        for batches in (1, 10, 100):
            yield _against_file(home, batches, rounds)
        yield _against_unsynced(home, rounds)


def _against_file(home: Path, batches: int, rounds: Rounds) -> Figure:
    log = open_log(home / f"store{batches}", "FULL")
    pairs = alternate(
        rounds,
        lambda: syncs_per_second(log, batches, rounds.seconds),
        lambda: file_syncs_per_second(home / "bare", batches, rounds.seconds),
    )
    log.close()
    return Figure(
        name=f"syncs of {batches} batches, of a pre-allocated file's",
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
        name="syncs of 100 batches, of the same store's without sync",
        value=median_ratio(pairs),
        detail=f"without sync a row costs {row_us:.1f} us",
    )


def open_log(directory: Path, synchronous: str) -> SqliteLog:
    """A new store with one partition."""
    log = SqliteLog(directory, synchronous=synchronous)
    log.create(WHERE)
    log.flush()
    return log


def syncs_per_second(log: SqliteLog, batches: int, seconds: float) -> float:
    """Flush so many batches again and again."""
    flushes, began = 0, time.perf_counter()
    while time.perf_counter() - began < seconds:
        for _ in range(batches):
            base = log.bounds(WHERE).next_offset
            log.append(WHERE, BATCH, BatchInfo(base, base, 0, len(BATCH)))
        log.flush()
        flushes += 1
    return flushes / (time.perf_counter() - began)


def file_syncs_per_second(path: Path, batches: int, seconds: float) -> float:
    """Write and sync so many batches at once again and again, in place."""
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
