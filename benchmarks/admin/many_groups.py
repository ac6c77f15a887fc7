"""Measure the time to describe 65,000 groups on one local coordinator.

Measured is the whole process of `coterie groups describe` for all groups, with JSON
lines: state, committed offsets, end offsets and lag. Bars: 10 s and 300 MiB. (A
published monitoring agent took 355 s with one request per group, and 8 s with batches.)
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from benchmarks.harness.figures import Bar, Figure, Rounds
from benchmarks.harness.processes import coterie_command, running, scratch
from benchmarks.peers.connection import Connection, create_topic
from benchmarks.peers.offset_requests import COMMIT, commit
from coterie.wire import messages as m

GROUPS, PARTITIONS, IN_FLIGHT = 65_000, 2, 100
TOPIC = "t"
TIME_BAR_S, MEMORY_BAR_MIB = 10.0, 300.0


class Cost(NamedTuple):
    """The wall-clock time, CPU time and peak memory of a process."""

    seconds: float
    cpu_s: float
    memory_mib: float


def measure(rounds: Rounds) -> Iterable[Figure]:
    """Measure one run; it is long enough to need no rounds."""
    del rounds
    with (
        scratch() as home,
        running(coterie_command("--memory"), home / "log") as server,
    ):
        fill(server.address)
        out = home / "out"
        before = server.cpu_s
        cost = run(
            ["groups", "describe", "--all", "--output", "jsonl"], server.address, out
        )
        served_s = server.cpu_s - before
        with out.open("rb") as lines:
            count = sum(1 for _ in lines)
    assert count >= GROUPS * PARTITIONS, f"{count} lines"
    yield Figure(
        name=f"describe {GROUPS:,} groups of {PARTITIONS} partitions",
        value=cost.seconds,
        unit="s",
        bar=TIME_BAR_S,
        side=Bar.AT_MOST,
        detail=f"client {cost.cpu_s:.1f} s of CPU, server {served_s:.1f} s",
    )
    yield Figure(
        name="memory of that command",
        value=cost.memory_mib,
        unit="MiB",
        bar=MEMORY_BAR_MIB,
        side=Bar.AT_MOST,
    )


def fill(address: str) -> None:
    """Commit an offset for every group, with many requests in flight."""
    create_topic(address, TOPIC, PARTITIONS)
    with Connection(address) as peer:
        for number in range(0, GROUPS, IN_FLIGHT):
            for group in range(number, min(number + IN_FLIGHT, GROUPS)):
                request = commit(f"g{group:05}", TOPIC, PARTITIONS)
                for row in request.topics[0].partitions:
                    row.committed_offset = 0  # the topic is empty
                peer.send(request, COMMIT)
            peer.skip(min(IN_FLIGHT, GROUPS - number) - 1)
            answer = peer.receive(m.OffsetCommitResponse, COMMIT)
            assert not answer.topics[0].partitions[0].error_code


def run(words: list[str], address: str, out: Path) -> Cost:
    """Run `coterie` with stdout redirected to a file."""
    program = str(Path(sys.executable).with_name("coterie"))
    command = [program, *words, "--bootstrap-server", address]
    with out.open("wb") as stdout:
        began = time.perf_counter()
        process = subprocess.Popen(command, stdout=stdout)
        _, status, usage = os.wait4(process.pid, 0)
        taken = time.perf_counter() - began
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{' '.join(words)} ended with {process.returncode}")
    return Cost(taken, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)
