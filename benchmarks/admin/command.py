"""Measure the time of a command, from the start to the end of its process.

`coterie --help` and `coterie groups list` against `java -version`, the lower bound of
any tool on the JVM; `coterie groups describe` of one group against
kafka-consumer-groups.sh with its JVM flags. Bars: 0.3 s, 0.6 s, and 5 times faster.
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

from benchmarks.harness.figures import (
    Bar,
    Figure,
    Rounds,
    Skipped,
    alternate,
    median_ratio,
)
from benchmarks.harness.processes import BUILD, coterie_command, running, scratch
from benchmarks.peers.connection import Connection, create_topic
from benchmarks.peers.offset_requests import COMMIT, commit
from coterie.wire import messages as m

GROUP, TOPIC = "billing", "orders"
HELP_BAR_S, LIST_BAR_S, APACHE_BAR = 0.3, 0.6, 5.0
JARS = BUILD / "kafka"
TOOL = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
# The JVM flags in kafka-run-class.sh.
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
    """Run each command in a new process; the two of a pair alternate."""
    java = shutil.which("java")
    if java is None:
        raise Skipped("NO java: nothing to compare with")
    bare = runner([java, "-version"])
    with (
        scratch() as home,
        running(coterie_command("--memory"), home / "log") as server,
    ):
        prepare(server.address)
        connection = ["--bootstrap-server", server.address]
        yield from _pair("--help", coterie("--help"), bare, rounds, HELP_BAR_S)
        listing = coterie("groups", "list", *connection)
        yield from _pair("groups list", listing, bare, rounds, LIST_BAR_S)
        if not any(JARS.glob("kafka-tools-*.jar")):
            raise Skipped("NO Apache Kafka: `make interop` fetches it")
        arguments = ["--describe", "--group", GROUP]
        classes = ["-cp", f"{JARS}{os.sep}*", TOOL]
        apache = runner([java, *SCRIPT_FLAGS, *classes, *connection, *arguments])
        ours = coterie("groups", "describe", GROUP, *connection)
        pairs = alternate(rounds, apache, ours)
        yield Figure(
            name="groups describe: time of Apache's tool relative to ours",
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
    """Create a topic, and a group with offsets in it."""
    create_topic(address, TOPIC, 3)
    with Connection(address) as peer:
        answer = peer.call(commit(GROUP, TOPIC, 3), m.OffsetCommitResponse, COMMIT)
    assert not answer.topics[0].partitions[0].error_code


def coterie(*words: str) -> Callable[[], float]:
    """Return a function that runs `coterie` and returns the seconds it took."""
    return runner([str(Path(sys.executable).with_name("coterie")), *words])


def runner(command: Sequence[str]) -> Callable[[], float]:
    """Return a function that runs a command and returns the seconds it took.

    The function raises RuntimeError when the command fails.
    """

    def run() -> float:
        began = time.perf_counter()
        done = subprocess.run(command, check=False, capture_output=True)
        taken = time.perf_counter() - began
        if done.returncode:
            raise RuntimeError(f"{command}: {done.stderr.decode()}")
        return taken

    return run
