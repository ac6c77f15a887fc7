"""Measure a restart with 5,000,000 committed offsets in 5,000 groups.

The time from the start of the process to the first response with the right offset of
one group, after a clean stop and after kill -9, with 10,000 newer commits in the log.
Bar: 1 s. The bytes of memory for each offset: before any group is read, and after all
of them were.
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

GROUPS, PARTITIONS = 5_000, 1_000
RECENT_GROUPS = 10
IN_FLIGHT = 8
TOPIC = "t"
LOADING = 14
BAR_S = 1.0
LOADED_BAR_BYTES = 250.0
PAUSE_S = 0.002
LOAD_MAX_S = 120.0


def measure(rounds: Rounds) -> Iterable[Figure]:
    """Measure restarts of one data directory."""
    with scratch() as home:
        data = home / "full"
        fill(data)
        stops = (signal.SIGTERM, "a clean stop"), (signal.SIGKILL, "kill -9")
        for sign, how in stops:
            times = list(restarts(data, sign, rounds.times))
            yield Figure(
                name=f"right offset of 5,000,000 after {how}",
                value=statistics.median(times),
                unit="s",
                bar=BAR_S,
                side=Bar.AT_MOST,
                detail=f"{min(times):.2f} to {max(times):.2f} s",
            )
        yield from memory(data, home)


def start(data: Path) -> Server:
    """Start a server on a data directory."""
    return Server(coterie_command("--data", str(data)), data.with_suffix(".log"))


def group(number: int) -> str:
    """Return the name of a group; all have the same length."""
    return f"group-{number:05}"


def fill(data: Path) -> None:
    """Commit all offsets, and stop the server cleanly."""
    data.parent.mkdir(exist_ok=True)
    server = start(data)
    create_topic(server.address, TOPIC, PARTITIONS)
    request = commit("", TOPIC, PARTITIONS)
    with Connection(server.address) as peer:
        for number in range(GROUPS):
            request.group_id = group(number)
            peer.send(request, COMMIT)
            if number >= IN_FLIGHT:
                peer.skip(1)
        peer.skip(IN_FLIGHT)
    server.stop()


def accept(peer: Connection) -> None:
    """Read the response to a commit of every partition."""
    answer = peer.receive(m.OffsetCommitResponse, COMMIT)
    assert not any(row.error_code for row in answer.topics[0].partitions)


def restarts(data: Path, sign: signal.Signals, count: int) -> Iterator[float]:
    """Commit, stop and restart repeatedly; yield the time of each restart until the
    first right offset."""
    server = start(data)
    for number in range(count):
        with Connection(server.address) as peer:
            for recent in range(RECENT_GROUPS):
                wait_for(peer, group(recent))
                peer.send(commit(group(recent), TOPIC, PARTITIONS), COMMIT)
                accept(peer)
        server.stop(sign)
        began = time.perf_counter()
        server = start(data)
        with Connection(server.address) as peer:
            wait_for(peer, group(GROUPS // 2 + number))
        yield time.perf_counter() - began
    server.stop()


def wait_for(peer: Connection, group_id: str) -> None:
    """Fetch the last partition's offset until it is loaded; check its value."""
    last = PARTITIONS - 1
    until = time.perf_counter() + LOAD_MAX_S
    while True:
        request = offset_fetch([group_id], TOPIC, [last])
        (answer,) = peer.call(request, m.OffsetFetchResponse, OFFSET_FETCH).groups
        if answer.error_code != LOADING or time.perf_counter() > until:
            break
        time.sleep(PAUSE_S)
    assert answer.error_code == 0, answer.error_code
    assert answer.topics[0].partitions[0].committed_offset == 1_000 + last


def memory(data: Path, home: Path) -> Iterator[Figure]:
    """Compare the memory of a server without offsets, with offsets that were not read,
    and with offsets that were."""
    start(home / "empty").stop()  # creating the files takes memory, too
    empty = start(home / "empty")
    empty_mb = empty.peak_mb
    empty.stop()
    server = start(data)
    with Connection(server.address) as peer:
        for number in range(RECENT_GROUPS):
            wait_for(peer, group(number))
        unread_mb = server.peak_mb
        for number in range(GROUPS):
            wait_for(peer, group(number))
        read_mb = server.peak_mb
    server.stop()
    for what, mb, bar in (
        ("no group is read", unread_mb, None),
        ("every group was", read_mb, LOADED_BAR_BYTES),
    ):
        yield Figure(
            name=f"memory for each offset when {what}",
            value=(mb - empty_mb) * 1e6 / (GROUPS * PARTITIONS),
            unit="bytes",
            bar=bar,
            side=Bar.AT_MOST,
            detail=f"{mb:,.0f} MB of {empty_mb:,.0f} MB without offsets",
        )
