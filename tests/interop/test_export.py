"""`coterie groups export`: its metrics of real consumers, with both servers."""

from __future__ import annotations

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from coterie.operations.exporter.names import NAMES
from tests.operations.exporter.exported import Samples

from .conftest import Command
from .consumer_groups import PROTOCOLS, consuming

pytestmark = pytest.mark.slow

GROUP = "kafka_consumergroup_group_"


def once(coterie: Command, *words: str) -> Samples:
    output = coterie("groups", "export", "--once", *words)
    return Samples.read(output.stdout.encode())


def produce(bootstrap: str, topic: str, count: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for _ in range(count):
        producer.produce(topic, b"v", partition=0)
    assert producer.flush(60) == 0


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_live_group_is_exported(
    coterie: Command, bootstrap: str, group: str, topic: str, protocol: str
) -> None:
    with consuming(bootstrap, group, topic, protocol):
        samples = once(coterie, group)
    info = {"group": group, "state": "Stable", "type": protocol}
    assert samples.of(f"{GROUP}info", **info) == 1
    assert samples.of(f"{GROUP}members", group=group) == 1
    assert samples.of(f"{GROUP}empty_members", group=group) == 0
    at = {"group": group, "topic": topic}
    assert samples.of(f"{GROUP}topic_assigned_partitions", **at) == 2
    epochs = [
        samples.of(f"{GROUP}{name}", group=group)
        for name in ("epoch", "assignment_epoch")
    ]
    assert (None in epochs) == (protocol == "classic")
    assert samples.of("coterie_exporter_failed_items", kind="group") == 0


@pytest.mark.parametrize("names", NAMES)
def test_lag_in_records_and_seconds_is_exported(
    coterie: Command, bootstrap: str, group: str, topic: str, names: str
) -> None:
    produce(bootstrap, topic, 10)
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    consumer.commit(offsets=[TopicPartition(topic, 0, 4)], asynchronous=False)
    consumer.close()
    samples = once(coterie, group, "--names", names)
    if names == "kminion":
        prefix = "kminion_kafka_consumer_group_topic_partition_"
        at = {"group_id": group, "topic_name": topic, "partition_id": "0"}
    else:
        prefix, at = GROUP, {"group": group, "topic": topic, "partition": "0"}
    assert samples.of(f"{prefix}lag", **at) == 6
    assert samples.of(f"{prefix}offset", **at) == 4
    seconds = samples.of(f"{prefix}lag_seconds", **at)
    assert seconds is not None
    assert 0 <= seconds < 600
    assert samples.of(f"{prefix}lag_seconds_error", **at) is None
