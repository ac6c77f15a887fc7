"""A commit of librdkafka recovers at once, although a Fetch waits for records."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from confluent_kafka import Consumer

from coterie.testing import Kafka
from coterie.testing.faults.fault import Fault
from coterie.testing.faults.registry import Faults
from tests.support.waiting import DEADLINE_S

pytestmark = pytest.mark.slow

TOPIC = "t"
FETCH_WAIT_MS = 120_000
"""Longer than the test may take, and than the session."""


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
@pytest.mark.parametrize(
    "start",
    [
        lambda faults: faults.drop_response("OffsetCommit", times=1),
        lambda faults: faults.lose_request("OffsetCommit", times=1),
        lambda faults: faults.drop_connections("OffsetCommit", times=1),
        lambda faults: faults.reply("OffsetCommit", "NOT_COORDINATOR", times=1),
    ],
    ids=["drop_response", "lose_request", "drop_connections", "NOT_COORDINATOR"],
)
def test_a_commit_does_not_wait_for_a_fetch(
    protocol: str, start: Callable[[Faults], Fault]
) -> None:
    with Kafka() as kafka:
        kafka.topic(TOPIC)
        kafka.produce(TOPIC, [b"a", b"b"])
        consumer = Consumer(
            {
                "bootstrap.servers": kafka.bootstrap_servers,
                "group.id": "g",
                "group.protocol": protocol,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "fetch.wait.max.ms": FETCH_WAIT_MS,
                "socket.timeout.ms": FETCH_WAIT_MS + 1_000,
            }
        )
        consumer.subscribe([TOPIC])
        message = consumer.poll(DEADLINE_S)
        assert message is not None
        assert message.error() is None
        with start(kafka.faults):
            consumer.commit(message=message, asynchronous=False)

        assert kafka.groups["g"].offsets == {(TOPIC, 0): 1}
        consumer.close()
