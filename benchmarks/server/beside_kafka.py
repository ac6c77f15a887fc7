"""Compare both builds of Coterie with Apache Kafka: the table of the README.

All servers share one core, and are loaded in turns from another. Coterie syncs its data
to the disk before it responds, Kafka does not sync. docs/performance.md has the method.
"""

from __future__ import annotations

from collections.abc import Iterable

from benchmarks.beside import forming, growth, records, requests
from benchmarks.beside.servers import (
    COMPILED_FOLDER,
    SETTINGS,
    all_running,
    compiled_folder,
)
from benchmarks.harness.figures import Figure, Rounds, reported
from benchmarks.harness.processes import scratch
from benchmarks.harness.table import NOT_BUILT
from benchmarks.peers.apache_kafka import JVM


def conditions() -> str:
    """Return the conditions that decide the figures."""
    compiled = compiled_folder()
    changed = ", ".join(f"{name}={value}" for name, value in SETTINGS.items())
    lines = (
        f"Kafka: {' '.join(JVM)}, default JIT; before each load a warm-up of "
        f"{requests.KAFKA_WARM_UP_S:.0f} s (Coterie {requests.OUR_WARM_UP_S:.0f} s); "
        "its log is on the same disk and not synced",
        f"both: {changed}; Kafka's defaults otherwise",
        f"compiled build: {compiled.name}"
        if compiled
        else f"compiled build: {NOT_BUILT} ({COMPILED_FOLDER} names another folder)",
    )
    return "\n".join(lines)


def measure(rounds: Rounds) -> Iterable[Figure]:
    """Measure every row on all servers."""
    with scratch() as home, all_running(home) as servers:
        yield from requests.measure_rows(requests.ROWS, servers, home, rounds)
        yield from reported("records", records.measure(servers, rounds))
        yield from reported("groups", forming.measure(servers, rounds))
        yield from reported("large groups", forming.measure_big_groups(servers, rounds))
    yield from growth.measure(rounds)
