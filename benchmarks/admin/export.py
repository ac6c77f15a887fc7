"""Measure what exporting 10,000 groups of 10 partitions to Prometheus costs.

Measured are the CPU time of a poll of `coterie groups export` with lag in seconds, the
CPU time of a scrape, and the process's peak memory. Bars: 5 s, 0.5 s and 300 MB. If a
program `kminion` is on PATH, it scrapes the same server in turns: the ratio is its CPU
time for a scrape, which polls, to that of one poll and one scrape of ours.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import statistics
import subprocess
import time
import urllib.request
from collections.abc import Iterable, Iterator
from pathlib import Path

from confluent_kafka import Producer

from benchmarks.admin.many_groups import IN_FLIGHT
from benchmarks.harness.figures import Bar, Figure, Rounds
from benchmarks.harness.processes import (
    START_S,
    Server,
    coterie_command,
    running,
    scratch,
)
from benchmarks.peers.connection import Connection, create_topic
from benchmarks.peers.offset_requests import COMMIT, commit
from coterie.wire import messages as m

GROUPS, PARTITIONS, RECORDS = 10_000, 10, 5_000
TOPIC = "orders"
RECORD_EVERY_MS = 1_000
SCRAPES = 5
POLL_BAR_S, SCRAPE_BAR_S, MEMORY_BAR_MB = 5.0, 0.5, 300.0
INTERVAL_S = 10
KMINION = "kminion"
GZIP = {"Accept-Encoding": "gzip", "Accept": "application/openmetrics-text"}


def measure(rounds: Rounds) -> Iterable[Figure]:
    """Poll and scrape in rounds; kminion in turns with them."""
    with (
        scratch() as home,
        running(coterie_command("--memory"), home / "log") as server,
    ):
        fill(server.address)
        with exporter(server.address, home) as ours:
            polls = [_poll_cpu_s(ours) for _ in range(rounds.times)]
            size = len(_get(ours.address, {}))
            memory_mb = ours.peak_mb
        with exporter(server.address, home, interval="1h") as ours:
            _wait_for_polls(ours, 1)
            plain = _scrape_cpu_s(ours, {})
            packed = _scrape_cpu_s(ours, GZIP)
        theirs: list[float] = []
        if (program := shutil.which(KMINION)) is not None:
            with kminion(program, server.address, home) as (process, url):
                theirs += (_kminion_cpu_s(process, url) for _ in range(rounds.times))
                their_mb = _peak_mb(process.pid)
    poll_s = statistics.median(polls)
    yield Figure(
        name=f"CPU of a poll, {GROUPS:,} groups of {PARTITIONS} partitions",
        value=poll_s,
        unit="s",
        bar=POLL_BAR_S,
        side=Bar.AT_MOST,
        detail=f"{size / 1e6:.0f} MB of text",
    )
    yield Figure(
        name="CPU of a scrape, uncompressed",
        value=plain,
        unit="s",
        bar=SCRAPE_BAR_S,
        side=Bar.AT_MOST,
        detail=f"with gzip {packed:.3f} s",
    )
    yield Figure(
        name="memory of the exporter",
        value=memory_mb,
        unit="MB",
        bar=MEMORY_BAR_MB,
        side=Bar.AT_MOST,
    )
    if theirs:
        scrape_s = statistics.median(theirs)
        yield Figure(
            name="CPU of kminion for a scrape, relative to our poll and scrape",
            value=scrape_s / (poll_s + packed),
            detail=f"kminion {scrape_s:.2f} s and {their_mb:.0f} MB",
        )


def fill(address: str) -> None:
    """Write records, and commit an offset for every group on each partition."""
    create_topic(address, TOPIC, PARTITIONS)
    producer = Producer({"bootstrap.servers": address})
    first_ms = round(time.time() * 1000) - RECORDS * RECORD_EVERY_MS
    for number in range(RECORDS):
        for partition in range(PARTITIONS):
            at_ms = first_ms + number * RECORD_EVERY_MS
            producer.produce(TOPIC, b"x", partition=partition, timestamp=at_ms)
        producer.poll(0)
    producer.flush()
    with Connection(address) as peer:
        for number in range(0, GROUPS, IN_FLIGHT):
            for group in range(number, number + IN_FLIGHT):
                request = commit(
                    f"team-{group % 50}.service-{group}", TOPIC, PARTITIONS
                )
                for row in request.topics[0].partitions:
                    row.committed_offset = RECORDS - group % RECORDS
                peer.send(request, COMMIT)
            peer.skip(IN_FLIGHT - 1)
            answer = peer.receive(m.OffsetCommitResponse, COMMIT)
            assert not answer.topics[0].partitions[0].error_code


def exporter(
    address: str, home: Path, interval: str = f"{INTERVAL_S}s"
) -> contextlib.AbstractContextManager[Server]:
    """Run `coterie groups export` on a free port."""
    program, *_ = coterie_command()
    command = [program, "groups", "export", "--listen", "127.0.0.1:0"]
    command += ["--interval", interval, "--bootstrap-server", address]
    return running(command, home / "export.log")


def _get(url: str, headers: dict[str, str]) -> bytes:
    request = urllib.request.Request(f"{url}/metrics", headers=headers)
    with urllib.request.urlopen(request, timeout=START_S) as response:
        body: bytes = response.read()
        return body


def _polls(ours: Server) -> int:
    with urllib.request.urlopen(f"{ours.address}/health", timeout=START_S) as response:
        text: str = response.read().decode()
    return int(text.partition('"polls": ')[2].partition(",")[0])


def _wait_for_polls(ours: Server, count: int) -> None:
    deadline = time.monotonic() + START_S
    while True:
        with contextlib.suppress(OSError):  # 503 before the first poll
            if _polls(ours) >= count:
                return
        if time.monotonic() > deadline:
            raise RuntimeError("the exporter does not poll")
        time.sleep(0.2)


def _poll_cpu_s(ours: Server) -> float:
    """Return the CPU time of the process from the end of a poll to that of the next."""
    _wait_for_polls(ours, 1)
    done = _polls(ours)
    _wait_for_polls(ours, done + 1)
    before = ours.cpu_s
    _wait_for_polls(ours, done + 2)
    return ours.cpu_s - before


def _scrape_cpu_s(ours: Server, headers: dict[str, str]) -> float:
    before = ours.cpu_s
    for _ in range(SCRAPES):
        _get(ours.address, headers)
    return (ours.cpu_s - before) / SCRAPES


@contextlib.contextmanager
def kminion(
    program: str, address: str, home: Path
) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """Run kminion, polling by the admin API, on a free loopback port."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    config = home / "kminion.yaml"
    config.write_text(
        f'kafka:\n  brokers: ["{address}"]\n'
        "minion:\n  consumerGroups:\n    scrapeMode: adminApi\n"
        "    granularity: partition\n  topics:\n    granularity: partition\n"
        "  logDirs:\n    enabled: false\n"
        f'exporter:\n  namespace: kminion\n  host: "127.0.0.1"\n  port: {port}\n'
        "logger:\n  level: warn\n"
    )
    with (home / "kminion.log").open("wb") as log:
        process = subprocess.Popen(
            ["setpriv", "--pdeathsig", "TERM", program],
            env={**os.environ, "CONFIG_FILEPATH": str(config)},
            stdout=log,
            stderr=log,
        )
    try:
        deadline = time.monotonic() + START_S
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError):
                socket.create_connection(("127.0.0.1", port)).close()
                break
            time.sleep(0.1)
        yield process, f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait()


def _kminion_cpu_s(process: subprocess.Popen[bytes], url: str) -> float:
    before = _cpu_s(process.pid)
    assert _get(url, GZIP)
    return _cpu_s(process.pid) - before


def _cpu_s(pid: int) -> float:
    stat = Path(f"/proc/{pid}/stat").read_text()
    ticks = sum(map(int, stat.rpartition(")")[2].split()[11:13]))
    return ticks / os.sysconf("SC_CLK_TCK")


def _peak_mb(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    (peak,) = [line.split()[1] for line in lines if line.startswith("VmHWM:")]
    return int(peak) * 1024 / 1e6
