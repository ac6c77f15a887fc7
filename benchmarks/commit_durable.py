"""What does it cost that a commit is on the disk before it is answered?

OffsetCommit of 10 partitions from 50 connections, against the same server that does
not sync: bar 0.6. And the median latency at one connection, against one bare write
and fdatasync of as many bytes on the same disk: bar 2.5 times that.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Iterable
from pathlib import Path

from benchmarks.figures import Bar, Figure, Rounds, alternate, median_ratio
from benchmarks.generator import Shape, load
from benchmarks.offsets import COMMIT_ERROR_AT, commit_frame
from benchmarks.peer import create_topic
from benchmarks.processes import (
    Server,
    coterie_command,
    running,
    scratch,
    settings,
)

PARTITIONS, GROUPS = 10, 50
UNSYNCED = settings(log_flush_sync="false")
BARE_BYTES = 1_200
"""About what ten offsets are as records of one batch."""
BARE_FILE_BYTES = 8 << 20
RATE_BAR, LATENCY_BAR = 0.6, 2.5


def measure(rounds: Rounds) -> Iterable[Figure]:
    """Both servers keep their data in the same folder's file system."""
    with scratch() as home:
        durable = coterie_command("--data", str(home / "durable"))
        unsynced = coterie_command("--data", str(home / "unsynced"), *UNSYNCED)
        with (
            running(durable, home / "log") as ours,
            running(unsynced, home / "log") as theirs,
        ):
            for server in (ours, theirs):
                create_topic(server.address, "t", PARTITIONS)
            yield _rate(ours, theirs, rounds)
            yield _latency(ours, home, rounds)


def _rate(ours: Server, theirs: Server, rounds: Rounds) -> Figure:
    frames = [commit_frame(f"g{n}", "t", PARTITIONS) for n in range(GROUPS)]
    shape = Shape(connections=GROUPS, error_at=COMMIT_ERROR_AT)
    pairs = alternate(
        rounds,
        lambda: load(ours.address, frames, shape, rounds),
        lambda: load(theirs.address, frames, shape, rounds),
    )
    return Figure(
        name="commits of 10, durable, of the same server without sync",
        value=median_ratio([(one.rate, other.rate) for one, other in pairs]),
        bar=RATE_BAR,
        detail=f"{pairs[-1][0]} | without sync {pairs[-1][1].rate:,.0f}/s",
    )


def _latency(ours: Server, home: Path, rounds: Rounds) -> Figure:
    frames = [commit_frame("g0", "t", PARTITIONS)]
    shape = Shape(connections=1, error_at=COMMIT_ERROR_AT)
    pairs = alternate(
        rounds,
        lambda: load(ours.address, frames, shape, rounds).p50_us,
        lambda: bare_sync_us(home / "bare", rounds.seconds),
    )
    return Figure(
        name="commit of 10, p50 at one connection, of a bare write + fdatasync",
        value=median_ratio(pairs),
        bar=LATENCY_BAR,
        side=Bar.AT_MOST,
        detail=f"{pairs[-1][0]:,.0f} us | bare {pairs[-1][1]:,.0f} us",
    )


def bare_sync_us(path: Path, seconds: float) -> float:
    """The median time of one write and fdatasync into a file that has its size.

    Where a file grows its sync has more to write, and is no bare one. It
    runs on whichever core is free, which can only make it look better.
    """
    block, times = bytes(BARE_BYTES), []
    path.write_bytes(bytes(BARE_FILE_BYTES))
    file = os.open(path, os.O_WRONLY)
    os.fsync(file)
    at, last = 0, BARE_FILE_BYTES - BARE_BYTES
    until = time.perf_counter() + seconds
    while (began := time.perf_counter()) < until:
        os.pwrite(file, block, at)
        os.fdatasync(file)
        times.append(time.perf_counter() - began)
        at = (at + BARE_BYTES) % last
    os.close(file)
    return statistics.median(times) * 1e6
