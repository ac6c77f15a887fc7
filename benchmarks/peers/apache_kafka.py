"""Apache Kafka as a process: one node of broker and controller, its log on the disk.

`python -m benchmarks.peers.apache_kafka FOLDER [NAME=VALUE ...]` fetches the jars that
the comparison tests use, starts a node whose files are in FOLDER, with these settings,
and serves until SIGTERM. The JVM has 2 GiB, G1 and both compilers, and the caller's
core. Kafka does not sync its log.
"""

from __future__ import annotations

import signal
import sys
import time
from pathlib import Path

from benchmarks.harness.processes import BUILD
from benchmarks.peers.connection import Connection
from coterie.wire import messages as m
from tests.interop.kafka import KafkaNode, Unavailable, fetch_jars

JVM = ("-Xms2g", "-Xmx2g", "-XX:+UseG1GC")
GROUPS, START_S = 500, 60.0
LOADING = {14, 15, 16}
"""COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR."""
# The defaults of Kafka, which the node of the comparison tests changes.
SETTINGS = {
    "offsets.topic.num.partitions": "50",
    "group.initial.rebalance.delay.ms": "3000",
    "group.consumer.min.heartbeat.interval.ms": "5000",
    "group.consumer.heartbeat.interval.ms": "5000",
    "group.consumer.min.session.timeout.ms": "45000",
    "group.consumer.session.timeout.ms": "45000",
    "log.cleaner.enable": "true",
}


def main(folder: str, *values: str) -> int:
    """Serve until SIGTERM or SIGINT; return the exit code."""
    try:
        jars = fetch_jars(BUILD / "kafka")
    except Unavailable as reason:
        sys.stderr.write(f"{reason}\n")
        return 1
    listeners = {"PLAIN": "PLAINTEXT"}
    settings = SETTINGS | dict(value.split("=", 1) for value in values)
    with KafkaNode(
        jars, Path(folder), listeners=listeners, settings=settings, jvm=JVM
    ) as node:
        _wait_for_coordinator(node.addresses["PLAIN"])
        print(f"kafka ready on {node.addresses['PLAIN']}", flush=True)
        signal.sigwait({signal.SIGTERM, signal.SIGINT})
    return 0


def _wait_for_coordinator(address: str) -> None:
    """Make Kafka create `__consumer_offsets`; wait until all its partitions are loaded.

    Hundreds of group ids are spread over all partitions.
    """
    groups = [f"probe-{number}" for number in range(GROUPS)]
    deadline = time.monotonic() + START_S
    with Connection(address) as connection:
        while time.monotonic() < deadline:
            find = m.FindCoordinatorRequest(key_type=0, coordinator_keys=groups[:1])
            connection.call(find, m.FindCoordinatorResponse, 4)
            describe = m.DescribeGroupsRequest(groups=groups)
            described = connection.call(describe, m.DescribeGroupsResponse, 5)
            if not LOADING & {group.error_code for group in described.groups}:
                return
    raise RuntimeError(f"Kafka's coordinator is not ready after {START_S:.0f} s")


if __name__ == "__main__":
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})
    sys.exit(main(*sys.argv[1:]))
