"""Measure the time from the start of a server to its first response.

With no data: bar 0.5 s to the first response. After a restart with 1,000,000 committed
offsets in 1,000 groups: bar 1 s to the first response with the right offset of one
group, after a clean stop and after kill -9.
"""

from __future__ import annotations

import signal
import statistics
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from benchmarks.harness.figures import Bar, Figure, Rounds
from benchmarks.harness.processes import Server, coterie_command, scratch
from benchmarks.peers.connection import Connection, create_topic
from benchmarks.peers.offset_requests import COMMIT, OFFSET_FETCH, commit, offset_fetch
from coterie.wire import messages as m

GROUPS, PARTITIONS = 1_000, 1_000
TOPIC = "t"
LOADING = 14
EMPTY_BAR_S, FULL_BAR_S = 0.5, 1.0
PAUSE_S = 0.002
LOAD_MAX_S = 120.0


def measure(rounds: Rounds) -> Iterable[Figure]:
    """Measure the startup without data and with committed offsets."""
    with scratch() as home:
        empty = [first_answer_s(home / f"empty{n}") for n in range(rounds.times)]
        yield _figure("first response after the start", empty, EMPTY_BAR_S)
        full = home / "full"
        fill(full)
        for sign, how in (
            (signal.SIGTERM, "a clean stop"),
            (signal.SIGKILL, "kill -9"),
        ):
            times = list(restarts(full, sign, rounds.times))
            name = f"right offset of 1,000,000 after {how}"
            yield _figure(name, times, FULL_BAR_S)


def _figure(name: str, times: list[float], bar: float) -> Figure:
    return Figure(
        name=name,
        value=statistics.median(times),
        unit="s",
        bar=bar,
        side=Bar.AT_MOST,
        detail=f"{min(times):.2f} to {max(times):.2f} s",
    )


def start(data: Path) -> Server:
    """Start a server on a data directory."""
    data.parent.mkdir(exist_ok=True)
    return Server(coterie_command("--data", str(data)), data.with_suffix(".log"))


def first_answer_s(data: Path) -> float:
    """Return the time from before the process is created to its first response."""
    began = time.perf_counter()
    server = start(data)
    with Connection(server.address) as peer:
        peer.call(m.ApiVersionsRequest(), m.ApiVersionsResponse, 0)
    taken = time.perf_counter() - began
    server.stop()
    return taken


def fill(data: Path) -> None:
    """Commit a million offsets, and stop the server cleanly."""
    server = start(data)
    create_topic(server.address, TOPIC, PARTITIONS)
    with Connection(server.address) as peer:
        for number in range(GROUPS):
            commit_all(peer, f"g{number}")
    server.stop()


def commit_all(peer: Connection, group: str) -> None:
    """Commit every partition of the topic for one group."""
    request = commit(group, TOPIC, PARTITIONS)
    answer = peer.call(request, m.OffsetCommitResponse, COMMIT)
    assert not any(row.error_code for row in answer.topics[0].partitions)


def restarts(data: Path, sign: signal.Signals, count: int) -> Iterator[float]:
    """Commit, stop and restart repeatedly; yield the time of each restart until the
    first offset fetch.
    """
    server = start(data)
    for number in range(count):
        with Connection(server.address) as peer:
            for recent in range(10):
                commit_all(peer, f"g{recent}")
        server.stop(sign)
        began = time.perf_counter()
        server = start(data)
        right_offset(server.address, f"g{GROUPS // 2 + number}")
        yield time.perf_counter() - began
    server.stop()


def right_offset(address: str, group: str) -> None:
    """Fetch the last partition's offset until it is loaded; check its value."""
    last = PARTITIONS - 1
    until = time.perf_counter() + LOAD_MAX_S
    with Connection(address) as peer:
        while True:
            request = offset_fetch([group], TOPIC, [last])
            (answer,) = peer.call(request, m.OffsetFetchResponse, OFFSET_FETCH).groups
            if answer.error_code != LOADING or time.perf_counter() > until:
                break
            time.sleep(PAUSE_S)
    assert answer.error_code == 0, answer.error_code
    assert answer.topics[0].partitions[0].committed_offset == 1_000 + last
