"""Measure commits of 10 partitions from 1, 50 and 500 connections, beside Apache Kafka.

For tuning the flush of commits: rates, and the servers' CPU time of a commit. No bars.
"""

from __future__ import annotations

from collections.abc import Iterable

from benchmarks.beside.requests import COMMITS_BY_CONNECTIONS, measure_rows
from benchmarks.beside.servers import all_running
from benchmarks.harness.figures import Figure, Rounds
from benchmarks.harness.processes import scratch


def measure(rounds: Rounds) -> Iterable[Figure]:
    """Measure each number of connections on all servers."""
    with scratch() as home, all_running(home) as servers:
        yield from measure_rows(COMMITS_BY_CONNECTIONS, servers, home, rounds)
