"""What does a commit through a gateway cost, beside a Produce to the same cluster?

A commit through a gateway is one Produce with acks=all to the topic of the gateway. So
the figure is the median time of an OffsetCommit with ten partitions on one connection
to a gateway node, as a multiple of that of a Produce of one batch with ten records of
the same size to the broker, in turns. Broker, gateway and client share all cores.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from benchmarks.gateway.data_path import on_all_cores
from benchmarks.harness.figures import Bar, Figure, Rounds, median_ratio, take_turns
from benchmarks.harness.load import LoadResult, LoadShape, load
from benchmarks.harness.processes import Server, python, running, scratch
from benchmarks.peers.connection import Connection, create_topic, frame
from benchmarks.peers.offset_requests import (
    COMMIT,
    COMMIT_ERROR_AT,
    commit,
    commit_frame,
)
from coterie.wire import messages as m
from coterie.wire.record_batch import LogRecord, encode_batch

PARTITIONS = 10
KEY_BYTES, VALUE_BYTES = 20, 24
"""The sizes of the record of an offset, nearly."""
TOPIC = "commits"
PRODUCE_VERSION = 11
PRODUCE_ERROR_AT = 12 + len(TOPIC)
"""After correlation id, tags, and the starts of the arrays with name and index."""
RATIO_BAR = 1.5


def measure(rounds: Rounds) -> Iterator[Figure]:
    """Start a broker and a gateway node, and use each in turn."""
    with scratch() as home:
        log = home / "log"
        kafka = python("peers.apache_kafka")
        with (
            running(on_all_cores([*kafka, str(home / "kafka")]), log) as broker,
            running(on_all_cores(_gateway(broker)), log) as node,
        ):
            yield _latency(broker, node, rounds)


def _gateway(broker: Server) -> list[str]:
    script = str(Path(sys.executable).with_name("coterie"))
    options = ["--listen", "127.0.0.1:0", "--authorizer", "none", "--partitions", "1"]
    return [script, "gateway", "run", "--upstream", broker.address, *options]


def _latency(broker: Server, node: Server, rounds: Rounds) -> Figure:
    create_topic(broker.address, TOPIC, PARTITIONS)
    _wait_until_owned(node)
    frames = [commit_frame("g", TOPIC, PARTITIONS)]
    commits = LoadShape(connections=1, error_at=COMMIT_ERROR_AT)
    produces = LoadShape(connections=1, error_at=PRODUCE_ERROR_AT)
    sides: dict[str, Callable[[], LoadResult]] = {
        "commit": partial(load, node.address, frames, commits, rounds),
        "produce": partial(load, broker.address, [_produce()], produces, rounds),
    }
    for warm_up in sides.values():  # the JVM compiles what is used often
        warm_up()
    before = node.cpu_s
    results = take_turns(rounds, sides)
    cpu_s = node.cpu_s - before
    pairs = [(each["commit"].p50_us, each["produce"].p50_us) for each in results]
    through, direct = (statistics.median(side) for side in zip(*pairs, strict=True))
    count = sum(each["commit"].rate * rounds.seconds for each in results)
    return Figure(
        name="commit of ten partitions through a gateway: median, of a Produce",
        value=median_ratio(pairs),
        bar=RATIO_BAR,
        side=Bar.AT_MOST,
        ours=f"gateway {through:,.0f} us",
        other=f"Produce {direct:,.0f} us",
        detail="rounds "
        + ", ".join(f"{a / b:.2f}" for a, b in pairs)
        + f"; {cpu_s / max(count, 1) * 1e6:.0f} us CPU of the node a commit",
    )


def _wait_until_owned(node: Server) -> None:
    """Wait until a commit succeeds, as the node takes its shard over."""
    connection = Connection(node.address)
    for _ in range(600):
        response = connection.call(
            commit("g", TOPIC, PARTITIONS), m.OffsetCommitResponse, COMMIT
        )
        codes = {each.error_code for each in response.topics[0].partitions}
        if codes == {0}:
            connection.close()
            return
        time.sleep(0.1)
    raise RuntimeError(f"commits are refused: {codes}")


def _produce() -> bytes:
    records = [
        LogRecord(at, 1_700_000_000_000, bytes(KEY_BYTES), bytes(VALUE_BYTES))
        for at in range(PARTITIONS)
    ]
    data = m.PartitionProduceData(index=0, records=encode_batch(records))
    request = m.ProduceRequest(
        acks=-1,
        timeout_ms=30_000,
        topic_data=[m.TopicProduceData(name=TOPIC, partition_data=[data])],
    )
    return frame(request, PRODUCE_VERSION)
