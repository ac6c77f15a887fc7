"""Measure the cost of syncing a commit to the disk before the response is sent.

OffsetCommit of 10 partitions from 50 connections, against the same server without
fsync: bar 0.6. beside_kafka compares the latency with a bare write and fdatasync.
"""

from __future__ import annotations

from collections.abc import Iterable

from benchmarks.harness.figures import Figure, Rounds, alternate, median_ratio
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
BAR = 0.6


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
        bar=BAR,
        detail=f"{pairs[-1][0]} | without fsync {pairs[-1][1].rate:,.0f}/s",
    )
