"""Measure the test kit: start, stop, and tests with a topic and a group each.

`coterie.testing.Kafka` runs in the process of the tests. First response: the time of a
Python process that imports the kit, starts a server and creates a topic, less that of
one that does nothing: bar 0.15 s; of a second server in the same process: bar 30 ms.
1,000 tests, each of which has a new topic and a new group, commits an offset and waits
for the lag, against 1,000 tests that do nothing: bar 20 ms a test.

Beside it, without bars: librdkafka's mock cluster, in the process of the tests, and one
node of Apache Kafka as the comparison tests start it. All three get tests by
clients: a new topic, a record, and a consumer of a new group that reads it.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient

from benchmarks.harness.figures import Bar, Figure, Rounds
from benchmarks.harness.processes import BUILD, scratch
from tests.interop.kafka import KafkaNode, Unavailable, fetch_jars

TESTS, CLIENT_TESTS, MOCK_TESTS = 1_000, 50, 5
FIRST_BAR_S, SECOND_BAR_MS, TEST_BAR_MS = 0.15, 30.0, 20.0
TIMEOUT_S = 30

START = """
from coterie.testing import Kafka
kafka = Kafka()
kafka.start()
kafka.topic()
"""
EMPTY = """
import pytest

@pytest.mark.parametrize("at", range({count}))
def test_it(at):
    pass
"""
FRESH = """
import pytest

@pytest.mark.parametrize("at", range({count}))
def test_it(kafka, kafka_topic, kafka_group, at):
    kafka.produce(kafka_topic, ["a", "b"])
    kafka_group.commit({{(kafka_topic, 0): 1}})
    kafka_group.wait_for(state="Empty", lag=1)
"""


def measure(rounds: Rounds) -> Iterable[Figure]:
    """Measure Coterie's kit, then the same client tests on three servers."""
    bare = statistics.median(process_s("pass") for _ in range(rounds.times))
    first = [process_s(START) - bare for _ in range(rounds.times)]
    yield at_most("first response in a new process", first, "s", FIRST_BAR_S)
    again = [second_ms() for _ in range(rounds.times * 3)]
    starts, stops = zip(*again, strict=True)
    yield at_most("second server, first response", starts, "ms", SECOND_BAR_MS)
    yield at_most("stop", stops, "ms")
    with scratch() as home:
        runs = [
            (run_s(home, FRESH) - run_s(home, EMPTY)) * 1_000 / TESTS
            for _ in range(rounds.times)
        ]
        yield at_most("a test with topic and group", runs, "ms", TEST_BAR_MS)
        for name, serve, tests in (
            ("Coterie", coterie, CLIENT_TESTS),
            # Its groups wait 3 s for further members, and no setting changes that.
            ("librdkafka's mock", mock, MOCK_TESTS),
            ("Apache Kafka", lambda: apache_kafka(home), CLIENT_TESTS),
        ):
            try:
                yield from beside(name, serve, tests)
            except Unavailable as reason:
                print(f"no {name}: {reason}")


def at_most(
    name: str, values: Iterable[float], unit: str, bar: float | None = None
) -> Figure:
    """Return the median as a figure."""
    values = list(values)
    return Figure(
        name=name,
        value=statistics.median(values),
        unit=unit,
        bar=bar,
        side=Bar.AT_MOST,
        detail=f"{min(values):.3g} to {max(values):.3g} {unit}",
    )


def process_s(code: str) -> float:
    """Return the time from the creation of a Python process to the end of some code."""
    command = [sys.executable, "-c", f"{code}\nprint('done', flush=True)"]
    began = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"done\n"
        return time.perf_counter() - began


def second_ms() -> tuple[float, float]:
    """Return the times to start another server, and to stop it, in ms."""
    from coterie.testing import Kafka

    kafka = Kafka()
    began = time.perf_counter()
    kafka.start()
    kafka.topic()
    started = time.perf_counter()
    kafka.close()
    return (started - began) * 1_000, (time.perf_counter() - started) * 1_000


def run_s(home: Path, tests: str) -> float:
    """Return the time of a run of pytest."""
    file = home / "test_it.py"
    file.write_text(tests.format(count=TESTS))
    options = ("-q", "-p", "no:randomly", "-p", "no:cacheprovider", "-p", "no:asyncio")
    began = time.perf_counter()
    subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            *options,
            "-c",
            "/dev/null",
            file.name,
        ],
        check=True,
        stdout=subprocess.DEVNULL,
        cwd=home,
    )
    return time.perf_counter() - began


# Beside other servers.


def beside(
    name: str, serve: Callable[[], Iterator[str]], tests: int
) -> Iterator[Figure]:
    """Measure the start of a server, and tests with clients on it."""
    began = time.perf_counter()
    with contextmanager(serve)() as address:
        AdminClient({"bootstrap.servers": address}).list_topics(timeout=TIMEOUT_S)
        yield at_most(f"{name}: start", [time.perf_counter() - began], "s")
        times = [client_test_ms(address) for _ in range(tests)]
        yield at_most(f"{name}: a test with clients", times, "ms")


def coterie() -> Iterator[str]:
    """Run a server of the kit."""
    from coterie.testing import Kafka

    with Kafka() as kafka:
        yield kafka.bootstrap_servers


def mock() -> Iterator[str]:
    """Run librdkafka's mock cluster, which lives as long as its client."""
    producer = Producer({"test.mock.num.brokers": 1, "log_level": 0})
    (broker,) = producer.list_topics(timeout=TIMEOUT_S).brokers.values()
    yield f"{broker.host}:{broker.port}"


def apache_kafka(home: Path) -> Iterator[str]:
    """Run one node of Apache Kafka."""
    jars = fetch_jars(BUILD / "kafka")
    settings = {"group.initial.rebalance.delay.ms": "0"}
    listeners = {"PLAIN": "PLAINTEXT"}
    with KafkaNode(
        jars, home / "kafka", listeners=listeners, settings=settings
    ) as node:
        yield node.addresses["PLAIN"]


def client_test_ms(address: str) -> float:
    """Return the time of a test with a new topic and a new group, in ms."""
    began = time.perf_counter()
    name = uuid4().hex
    # The mock cluster has no CreateTopics; all three create a topic on first use.
    producer = Producer({"bootstrap.servers": address, "linger.ms": 0})
    producer.produce(name, b"a")
    assert producer.flush(TIMEOUT_S) == 0
    consumer = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": name,
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe([name])
    try:
        record = consumer.poll(TIMEOUT_S)
        assert record is not None
        assert record.value() == b"a"
    finally:
        consumer.close()
    return (time.perf_counter() - began) * 1_000
