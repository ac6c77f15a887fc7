"""How long does a command take, from its first instruction to its last?

`coterie --help` and `coterie groups list` against `java -version`, the least that a
tool on the JVM can take; `coterie groups describe` of one group against Apache Kafka's
own tool, run as its script runs it. Bars: 0.3 s, 0.6 s, and 5 times faster.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from benchmarks.figures import Bar, Figure, Rounds, Skipped, alternate, median_ratio
from benchmarks.offsets import COMMIT, commit
from benchmarks.peer import Peer, create_topic
from benchmarks.processes import BUILD, coterie_command, running, scratch
from coterie.wire.messages.offset_commit import OffsetCommitResponse

GROUP, TOPIC = "billing", "orders"
HELP_BAR_S, LIST_BAR_S, APACHE_BAR = 0.3, 0.6, 5.0
JARS = BUILD / "kafka"
TOOL = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
# What kafka-run-class.sh gives a tool.
SCRIPT_FLAGS = (
    "-Xmx256M",
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-Djava.awt.headless=true",
)


def measure(rounds: Rounds) -> Iterable[Figure]:
    """Each command is a new process; the two of a pair run in turns."""
    java = shutil.which("java")
    if java is None:
        raise Skipped("NO java: nothing to compare with")
    bare = runner([java, "-version"])
    with (
        scratch() as home,
        running(coterie_command("--memory"), home / "log") as server,
    ):
        prepare(server.address)
        there = ["--bootstrap-server", server.address]
        yield from _pair("--help", coterie("--help"), bare, rounds, HELP_BAR_S)
        listing = coterie("groups", "list", *there)
        yield from _pair("groups list", listing, bare, rounds, LIST_BAR_S)
        if not any(JARS.glob("kafka-tools-*.jar")):
            raise Skipped("NO Apache Kafka: `make interop` fetches it")
        asked = ["--describe", "--group", GROUP]
        classes = ["-cp", f"{JARS}{os.sep}*", TOOL]
        apache = runner([java, *SCRIPT_FLAGS, *classes, *there, *asked])
        ours = coterie("groups", "describe", GROUP, *there)
        pairs = alternate(rounds, apache, ours)
        yield Figure(
            name="groups describe, Apache's tool over ours",
            value=median_ratio(pairs),
            bar=APACHE_BAR,
            detail=f"ours {statistics.median(ours for _, ours in pairs):.2f} s",
        )


def _pair(
    name: str,
    ours: Callable[[], float],
    theirs: Callable[[], float],
    rounds: Rounds,
    bar_s: float,
) -> Iterable[Figure]:
    pairs = alternate(rounds, ours, theirs)
    yield Figure(
        name=f"coterie {name}",
        value=statistics.median(ours for ours, _ in pairs),
        unit="s",
        bar=bar_s,
        side=Bar.AT_MOST,
        detail=f"{median_ratio(pairs):.2f} of java -version",
    )


def prepare(address: str) -> None:
    """A topic and a group with offsets in it."""
    create_topic(address, TOPIC, 3)
    with Peer(address) as peer:
        answer = peer.call(commit(GROUP, TOPIC, 3), OffsetCommitResponse, COMMIT)
    assert not answer.topics[0].partitions[0].error_code


def coterie(*words: str) -> Callable[[], float]:
    """Runs our command; the seconds it takes."""
    return runner([str(Path(sys.executable).with_name("coterie")), *words])


def runner(command: Sequence[str]) -> Callable[[], float]:
    """Runs a command that must end well; the seconds it takes."""

    def run() -> float:
        began = time.perf_counter()
        done = subprocess.run(command, check=False, capture_output=True)
        taken = time.perf_counter() - began
        if done.returncode:
            raise RuntimeError(f"{command}: {done.stderr.decode()}")
        return taken

    return run
