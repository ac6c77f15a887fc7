"""Spark's own Kafka source against both servers: a topic of records, and the log of
groups as docs/pipeline-sources.md says.

Its jars are fetched by `make interop` into a folder of the build; where they are not,
these tests are skipped.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from coterie.client.admin.offset_values import CommittedOffset
from coterie.client.sync import SyncAdmin
from coterie.types import TopicPartition as OurTopicPartition
from tests.clients.admin import ANSWER_S
from tests.clients.members import settings_of

from .kafka import SPARK_KAFKA_JARS
from .kafka import run as run_to_end

READ_S = 540.0


def jars() -> Path:
    """Where they are, if they are."""
    return Path(os.environ.get(SPARK_KAFKA_JARS, "build/spark-kafka")).absolute()


pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.skipif(
        not any(jars().glob("spark-sql-kafka-*.jar")),
        reason="Spark's Kafka source is not here; make interop fetches it",
    ),
]


def test_it_reads_records_and_the_log_of_groups(
    bootstrap: str, topic: str, group: str
) -> None:
    with SyncAdmin(bootstrap) as admin:  # which waits for a coordinator
        wanted = {OurTopicPartition(topic, 1): CommittedOffset(1)}
        admin.alter_group_offsets(group, wanted).all()
    config = {"bootstrap.servers": bootstrap, "transactional.id": group}
    producer = Producer(config)
    producer.init_transactions(ANSWER_S)
    consumer = Consumer(settings_of(bootstrap, group))
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
    ran = run_to_end(
        [sys.executable, "-m", module, str(jars()), bootstrap, topic], READ_S
    )
    assert ran.exit_code == 0, ran.stderr
    said = json.loads(ran.stdout.splitlines()[-1])
    assert said["values"] == ["v3"]
    assert sorted(said["commits"]) == [[group, 1], [group, 3]]
