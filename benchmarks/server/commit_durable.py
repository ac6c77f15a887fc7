"""Measure the cost of syncing a commit to the disk before the response is sent.

OffsetCommit of 10 partitions from 50 connections, against the same server without
fsync: bar 0.6. The median latency with one connection, against one write and fdatasync
of the same number of bytes on the same disk: bar 2.5 times the time of these.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Iterable
from pathlib import Path

from benchmarks.harness.figures import Bar, Figure, Rounds, alternate, median_ratio
from benchmarks.harness.load import LoadShape, load
from benchmarks.harness.processes import (
    Server,
    coterie_command,
    running,
    scratch,
    settings,
)
from benchmarks.peers.connection import create_topic
from benchmarks.peers.offset_requests import COMMIT_ERROR_AT, commit_frame

PARTITIONS, GROUPS = 10, 50
UNSYNCED = settings(log_flush_sync="false")
BARE_BYTES = 1_200
"""About the size of a batch of ten committed offsets."""
BARE_FILE_BYTES = 8 << 20
RATE_BAR, LATENCY_BAR = 0.6, 2.5


def measure(rounds: Rounds) -> Iterable[Figure]:
    """Measure both servers with their data on the same file system."""
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
    shape = LoadShape(connections=GROUPS, error_at=COMMIT_ERROR_AT)
    pairs = alternate(
        rounds,
        lambda: load(ours.address, frames, shape, rounds),
        lambda: load(theirs.address, frames, shape, rounds),
    )
    return Figure(
        name="durable commits of 10: rate relative to no fsync",
        value=median_ratio([(one.rate, other.rate) for one, other in pairs]),
        bar=RATE_BAR,
        detail=f"{pairs[-1][0]} | without fsync {pairs[-1][1].rate:,.0f}/s",
    )


def _latency(ours: Server, home: Path, rounds: Rounds) -> Figure:
    frames = [commit_frame("g0", "t", PARTITIONS)]
    shape = LoadShape(connections=1, error_at=COMMIT_ERROR_AT)
    pairs = alternate(
        rounds,
        lambda: load(ours.address, frames, shape, rounds).p50_us,
        lambda: bare_sync_us(home / "bare", rounds.seconds),
    )
    return Figure(
        name="commit of 10, p50: relative to a bare write + fdatasync",
        value=median_ratio(pairs),
        bar=LATENCY_BAR,
        side=Bar.AT_MOST,
        detail=f"{pairs[-1][0]:,.0f} us | bare {pairs[-1][1]:,.0f} us",
    )


def bare_sync_us(path: Path, seconds: float) -> float:
    """Return the median time of a write and fdatasync into a pre-allocated file.

    The file is pre-allocated because in a growing file fdatasync also writes metadata.
    The process is not pinned to a core, which can only shorten the measured time.
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
