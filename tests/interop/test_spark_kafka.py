"""Spark's own Kafka source reads a topic and `__consumer_offsets` of both servers.

`make interop` fetches its jars into build/; the tests are skipped if the jars are
missing.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from coterie.client.admin.group_offsets import CommittedOffset
from coterie.client.sync import SyncAdmin
from coterie.types import TopicPartition as OurTopicPartition
from tests.real_clients.confluent_admin import ANSWER_S
from tests.real_clients.confluent_members import consumer_settings

from .kafka import SPARK_KAFKA_JARS
from .kafka import run as run_to_end

READ_S = 540.0


def jars() -> Path:
    """Return the folder of the connector's jars."""
    return Path(os.environ.get(SPARK_KAFKA_JARS, "build/spark-kafka")).absolute()


pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.skipif(
        not any(jars().glob("spark-sql-kafka-*.jar")),
        reason="Spark's Kafka source is not here; make interop fetches it",
    ),
]


@pytest.mark.fact("G4-14")
def test_sparks_kafka_source_reads_records_and_the_group_log(
    bootstrap: str, topic: str, group: str
) -> None:
    with SyncAdmin(bootstrap) as admin:  # waits until the group has a coordinator
        new_offsets = {OurTopicPartition(topic, 1): CommittedOffset(1)}
        admin.group_offsets.alter(group, new_offsets).all()
    config = {"bootstrap.servers": bootstrap, "transactional.id": group}
    producer = Producer(config)
    producer.init_transactions(ANSWER_S)
    consumer = Consumer(consumer_settings(bootstrap, group))
    for offset, end in (
        (3, producer.commit_transaction),
        (4, producer.abort_transaction),
    ):
        producer.begin_transaction()
        producer.produce(topic, b"v%d" % offset, partition=0)
        producer.flush(ANSWER_S)
        producer.send_offsets_to_transaction(
            [TopicPartition(topic, 0, offset)],
            consumer.consumer_group_metadata(),
            ANSWER_S,
        )
        end(ANSWER_S)
    consumer.close()
    module = "tests.interop.spark_kafka_reader"
    output = run_to_end(
        [sys.executable, "-m", module, str(jars()), bootstrap, topic, group], READ_S
    )
    assert output.exit_code == 0, output.stderr
    content = json.loads(output.stdout.splitlines()[-1])
    assert content["values"] == ["v3"]
    assert content["commits"] == [1, 3]
