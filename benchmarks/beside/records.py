"""Produce and consume records of 200 bytes through librdkafka.

The client process shares no core with the servers. Each round has its own topic, which
is produced and then consumed. Before the first round, every server has one unmeasured
round; Kafka has WARM_UP_ROUNDS.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from functools import partial

from benchmarks.beside.servers import KAFKA, Against, Sample, Servers, compare
from benchmarks.harness.figures import Bar, Figure, Rounds, take_turns
from benchmarks.harness.load import GENERATOR_CPU
from benchmarks.harness.processes import Server
from benchmarks.peers.connection import create_topic
from benchmarks.peers.librdkafka_records import RECORD_BYTES

PARTITIONS = 4
RECORDS_PER_S = 250_000
"""Records of a round for each of its seconds."""
WARM_UP_ROUNDS = 3
PRODUCE, CONSUME = "produce", "consume"
NAMES = {
    PRODUCE: f"produce records of {RECORD_BYTES} bytes, librdkafka",
    CONSUME: f"consume records of {RECORD_BYTES} bytes, librdkafka",
}
LIMIT_S = 120


def measure(servers: Servers, rounds: Rounds) -> Iterator[Figure]:
    """Produce and consume in turns on all servers."""
    if not any(map(rounds.includes, NAMES.values())):
        return
    count = int(RECORDS_PER_S * rounds.seconds)
    for side, server in servers.items():
        for number in range(WARM_UP_ROUNDS if side == KAFKA else 1):
            _both(server, f"warm-up-{number}", count)
    topics = {side: iter(range(rounds.times)) for side in servers}

    def one_round(side: str) -> dict[str, Sample]:
        return _both(servers[side], f"records-{next(topics[side])}", count)

    sides = {side: partial(one_round, side) for side in servers}
    results = take_turns(rounds, sides)
    for kind, name in NAMES.items():
        samples = [
            {side: both[kind] for side, both in each.items()} for each in results
        ]
        against = Against(other=KAFKA, bars={})
        yield from compare(name, samples, against, _megabytes, Bar.AT_LEAST)


def _both(server: Server, topic: str, count: int) -> dict[str, Sample]:
    create_topic(server.address, topic, PARTITIONS)
    return {kind: _run(server, kind, topic, count) for kind in (PRODUCE, CONSUME)}


def _run(server: Server, kind: str, topic: str, count: int) -> Sample:
    module = "benchmarks.peers.librdkafka_records"
    command = ["taskset", "-c", str(GENERATOR_CPU), sys.executable, "-m", module]
    command += [kind, server.address, topic, str(count)]
    before = server.cpu_s
    done = subprocess.run(
        command, check=False, capture_output=True, text=True, timeout=LIMIT_S
    )
    if done.returncode:
        raise RuntimeError(f"{kind} on {server.address}: {done.stderr}")
    times: dict[str, float] = json.loads(done.stdout)
    return Sample(
        value=count * RECORD_BYTES / 1e6 / times["seconds"],
        cpu_us=(server.cpu_s - before) / count * 1e6,
        client_cpu=times["cpu_s"] / times["seconds"],
    )


def _megabytes(value: float) -> str:
    return f"{value:,.0f} MB/s"
