"""What does a client lose when its connections to Apache Kafka go through a gateway?

Throughput: librdkafka produces and then consumes records of 200 bytes, directly and
through the gateway, in turns; broker, gateway and client share all cores, so the CPU
time of the gateway is lost to the others. Latency: one Produce (acks=all), or Fetch,
of 1 KB at a time on one connection; the figure is the difference of the medians.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
from collections.abc import Callable, Iterator
from functools import partial

from benchmarks.harness.figures import Bar, Figure, Rounds, median_ratio, take_turns
from benchmarks.harness.load import LoadResult, LoadShape, load
from benchmarks.harness.processes import Server, python, running, scratch
from benchmarks.peers.connection import create_topic, frame
from benchmarks.peers.librdkafka_records import RECORD_BYTES
from coterie.wire import messages as m
from coterie.wire.record_batch import LogRecord, encode_batch

DIRECT, THROUGH = "direct", "gateway"
PARTITIONS = 4
RECORDS_PER_S = 250_000
"""Records of a round for each of its seconds."""
THROUGHPUT_BAR = 0.8
ADDED_US_BAR = 200
VALUE_BYTES = 1_000
TOPIC = "latency"
PRODUCE_VERSION, FETCH_VERSION = 11, 12
PRODUCE_ERROR_AT = 12 + len(TOPIC)
"""After correlation id, tags, and the starts of the arrays with name and index."""
FETCH_ERROR_AT = 9
LIMIT_S = 300


def measure(rounds: Rounds) -> Iterator[Figure]:
    """Start a broker and a gateway, and use each in turn."""
    with scratch() as home:
        log = home / "log"
        kafka = python("peers.apache_kafka")
        with running(on_all_cores([*kafka, str(home / "kafka")]), log) as broker:
            gateway = [*python("peers.gateway_path"), broker.address]
            with running(on_all_cores(gateway), log) as node:
                yield from _throughput(broker, node, rounds)
                yield from _latency(broker, node, rounds)


def on_all_cores(command: list[str]) -> list[str]:
    """Return a command that undoes the harness' choice of one core."""
    return ["taskset", "-c", f"0-{(os.cpu_count() or 1) - 1}", *command]


# Throughput.


def _throughput(broker: Server, node: Server, rounds: Rounds) -> Iterator[Figure]:
    count = int(RECORDS_PER_S * rounds.seconds)
    megabytes = count * RECORD_BYTES / 1e6
    names = iter(range(1_000))

    def one_round(server: Server) -> dict[str, float]:
        topic = f"records-{next(names)}"
        create_topic(broker.address, topic, PARTITIONS)
        return {
            kind: megabytes / _run(kind, server.address, topic, count)
            for kind in ("produce", "consume")
        }

    for server in (broker, node):  # the JVM compiles what is used often
        one_round(server)
    sides = {DIRECT: partial(one_round, broker), THROUGH: partial(one_round, node)}
    before = node.cpu_s
    results = take_turns(rounds, sides)
    cpu_s = node.cpu_s - before
    for kind in ("produce", "consume"):
        pairs = [(each[THROUGH][kind], each[DIRECT][kind]) for each in results]
        through, direct = (statistics.median(side) for side in zip(*pairs, strict=True))
        yield Figure(
            name=f"{kind} records of {RECORD_BYTES} bytes, librdkafka: of direct",
            value=median_ratio(pairs),
            bar=THROUGHPUT_BAR,
            ours=f"gateway {through:,.0f} MB/s",
            other=f"direct {direct:,.0f} MB/s",
            detail="rounds " + ", ".join(f"{a / b:.2f}" for a, b in pairs),
        )
    gigabytes = 2 * megabytes * rounds.times / 1_000
    yield Figure(name="CPU time of the gateway", value=cpu_s / gigabytes, unit="s a GB")


def _run(kind: str, address: str, topic: str, count: int) -> float:
    """Return the seconds of a client process, without those of connecting."""
    command = [*python("peers.librdkafka_records"), kind, address, topic, str(count)]
    done = subprocess.run(
        command, check=False, capture_output=True, text=True, timeout=LIMIT_S
    )
    if done.returncode:
        raise RuntimeError(f"{kind} on {address}: {done.stderr}")
    seconds: float = json.loads(done.stdout)["seconds"]
    return seconds


# Latency.


def _latency(broker: Server, node: Server, rounds: Rounds) -> Iterator[Figure]:
    create_topic(broker.address, TOPIC, 1)
    host, _, port = node.address.rpartition(":")
    addresses = {DIRECT: broker.address, THROUGH: f"{host}:{int(port) + 1}"}
    requests = {
        "Produce": (_produce(), PRODUCE_ERROR_AT),
        "Fetch": (_fetch(), FETCH_ERROR_AT),
    }
    for name, (request, error_at) in requests.items():
        shape = LoadShape(connections=1, error_at=error_at)
        sides: dict[str, Callable[[], LoadResult]] = {
            side: partial(load, address, [request], shape, rounds)
            for side, address in addresses.items()
        }
        sides[DIRECT]()
        results = take_turns(rounds, sides)
        added = [each[THROUGH].p50_us - each[DIRECT].p50_us for each in results]
        p50 = {
            side: statistics.median(each[side].p50_us for each in results)
            for side in sides
        }
        yield Figure(
            name=f"{name} of {VALUE_BYTES} bytes: added to the median",
            value=statistics.median(added),
            unit="us",
            bar=ADDED_US_BAR,
            side=Bar.AT_MOST,
            ours=f"gateway {p50[THROUGH]:,.0f} us",
            other=f"direct {p50[DIRECT]:,.0f} us",
            detail="rounds " + ", ".join(f"{each:.0f}" for each in added),
        )


def _produce() -> bytes:
    batch = encode_batch([LogRecord(0, 1_700_000_000_000, None, bytes(VALUE_BYTES))])
    data = m.PartitionProduceData(index=0, records=batch)
    request = m.ProduceRequest(
        acks=-1,
        timeout_ms=30_000,
        topic_data=[m.TopicProduceData(name=TOPIC, partition_data=[data])],
    )
    return frame(request, PRODUCE_VERSION)


def _fetch() -> bytes:
    """Return a request for the first record."""
    partition = m.FetchPartition(
        partition=0, fetch_offset=0, partition_max_bytes=VALUE_BYTES
    )
    request = m.FetchRequest(
        max_wait_ms=0,
        min_bytes=1,
        max_bytes=VALUE_BYTES,
        topics=[m.FetchTopic(topic=TOPIC, partitions=[partition])],
    )
    return frame(request, FETCH_VERSION)
