"""Measure heartbeats beside commits while each sync of the disk takes 5 or 50 ms.

Ten members of a KIP-848 group send heartbeats, one after the other on ten connections,
while 50 other connections commit ten offsets each to groups in all shards. The commits
wait for the disk; the heartbeats should not: a write to a slow disk runs in a worker
thread, and a heartbeat does not wait for commits in its shard. Bar: the heartbeats' p99
is at most 0.3 of the time of a sync.
"""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median

from benchmarks.harness.figures import Bar, Figure, Rounds
from benchmarks.harness.load import LoadResult, LoadShape, load
from benchmarks.harness.processes import Server, python, running, scratch
from benchmarks.peers.connection import create_topic
from benchmarks.peers.consumer_groups import ERROR_AT, heartbeat_frames
from benchmarks.peers.offset_requests import COMMIT_ERROR_AT, commit_frame

DELAYS_MS = (5, 50)
TOPIC, PARTITIONS, GROUPS, MEMBERS = "t", 10, 50, 10
P99_BAR = 0.3


def measure(rounds: Rounds) -> Iterable[Figure]:
    """Measure a server for each delay."""
    for delay_ms in DELAYS_MS:
        with scratch() as home, running(_command(delay_ms, home), home / "log") as ours:
            create_topic(ours.address, TOPIC, PARTITIONS)
            frames = heartbeat_frames(ours.address, ["members"], MEMBERS, TOPIC)
            pairs = [_both(ours, frames, rounds) for _ in range(rounds.times)]
        yield Figure(
            name=f"heartbeats beside commits, p99: of a sync of {delay_ms} ms",
            value=median(beats.p99_us for beats, _ in pairs) / 1000 / delay_ms,
            bar=P99_BAR,
            side=Bar.AT_MOST,
            detail=f"{pairs[-1][0]} | commits {pairs[-1][1]}",
        )


def _command(delay_ms: int, home: Path) -> list[str]:
    serve = ["serve", "--listen", "127.0.0.1:0", "--data", str(home / "data")]
    return [*python("peers.slow_disk"), str(delay_ms), *serve]


def _both(
    ours: Server, heartbeats: list[bytes], rounds: Rounds
) -> tuple[LoadResult, LoadResult]:
    """Run both loads at the same time."""
    commits = [commit_frame(f"g{n}", TOPIC, PARTITIONS) for n in range(GROUPS)]
    commit_shape = LoadShape(connections=GROUPS, error_at=COMMIT_ERROR_AT)
    beat_shape = LoadShape(connections=MEMBERS, error_at=ERROR_AT)
    with ThreadPoolExecutor(1) as executor:
        beside = executor.submit(load, ours.address, commits, commit_shape, rounds)
        return load(ours.address, heartbeats, beat_shape, rounds), beside.result()
