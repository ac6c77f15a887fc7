"""How long does it take to describe 65,000 groups on one local coordinator?

`coterie groups describe` of all of them, as JSON lines, the whole process: state,
committed offsets, ends of the logs, lag. Bars: 10 s and 300 MiB (a monitoring agent
elsewhere needed 355 s one by one, and 8 s in batches).
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from benchmarks.figures import Bar, Figure, Rounds
from benchmarks.offsets import COMMIT, commit
from benchmarks.peer import Peer, create_topic
from benchmarks.processes import coterie_command, running, scratch
from coterie.wire.messages.offset_commit import OffsetCommitResponse

GROUPS, PARTITIONS, IN_FLIGHT = 65_000, 2, 100
TOPIC = "t"
TIME_BAR_S, MEMORY_BAR_MIB = 10.0, 300.0


class Cost(NamedTuple):
    """What a process took from its start to its end."""

    seconds: float
    cpu_s: float
    memory_mib: float


def measure(rounds: Rounds) -> Iterable[Figure]:
    """One run is one round: it is long enough."""
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
    """Commit for every group, many requests in flight."""
    create_topic(address, TOPIC, PARTITIONS)
    with Peer(address) as peer:
        for number in range(0, GROUPS, IN_FLIGHT):
            for group in range(number, min(number + IN_FLIGHT, GROUPS)):
                request = commit(f"g{group:05}", TOPIC, PARTITIONS)
                for row in request.topics[0].partitions:
                    row.committed_offset = 0  # of a log that is empty
                peer.send(request, COMMIT)
            peer.skip(min(IN_FLIGHT, GROUPS - number) - 1)
            answer = peer.receive(OffsetCommitResponse, COMMIT)
            assert not answer.topics[0].partitions[0].error_code


def run(words: list[str], address: str, out: Path) -> Cost:
    """Run `coterie` to its end, with stdout into a file."""
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
