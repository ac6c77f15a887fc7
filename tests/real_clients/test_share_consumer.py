"""confluent-kafka's ShareConsumer: acknowledgements, two consumers, and kill -9."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import AcknowledgeType, ShareConsumer

from tests.real_clients.confluent_admin import (
    admin_client,
    alter_group,
    create_topic,
    produce,
)
from tests.support.server_process import ServerProcess, start_server
from tests.support.waiting import eventually

pytestmark = pytest.mark.slow

SETTINGS = {
    "group.share.min.heartbeat.interval.ms": 300,
    "group.share.heartbeat.interval.ms": 300,
}
Choose = Callable[[int, int], AcknowledgeType]
"""A function from a record's value and delivery count to its acknowledgement."""


@pytest.fixture
def server() -> Iterator[ServerProcess]:
    with start_server(settings=SETTINGS) as started:
        yield started


class Queue:
    """The consumers of one share group, which reads its topic from the start."""

    def __init__(self, address: str, records: int, consumers: int = 1) -> None:
        create_topic(address, "t", partitions=2)
        alter_group(admin_client(address), "q", "share.auto.offset.reset", "earliest")
        for partition in range(2):
            values = [b"%d" % at for at in range(partition, records, 2)]
            produce(address, "t", {partition: values})
        self.accepted: Counter[int] = Counter()
        self.deliveries: Counter[int] = Counter()
        self._stack = ExitStack()
        self._consumers = [self._consumer(address) for _ in range(consumers)]
        self.used: set[int] = set()
        """The consumers that got records."""

    def _consumer(self, address: str) -> Any:
        consumer = ShareConsumer(
            {
                "bootstrap.servers": address,
                "group.id": "q",
                "share.acknowledgement.mode": "explicit",
            }
        )
        consumer.subscribe(["t"])
        return self._stack.enter_context(closing(consumer))

    def __enter__(self) -> Queue:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def poll(self, choose: Choose) -> None:
        """Poll with every consumer, and acknowledge what it got."""
        for index, consumer in enumerate(self._consumers):
            accepted = []
            messages = list(consumer.poll(timeout=0.2) or ())
            for message in messages:
                assert message.error() is None
                value = int(message.value())
                self.deliveries[value] += 1
                kind = choose(value, message.delivery_count())
                consumer.acknowledge(message, kind)
                if kind is AcknowledgeType.ACCEPT:
                    accepted.append((message.partition(), value))
            if messages:
                self.used.add(index)
                self._commit(consumer, accepted)

    def _commit(self, consumer: Any, accepted: list[tuple[int, int]]) -> None:
        results = consumer.commit_sync(timeout=60)
        failed = {part.partition for part, error in results.items() if error}
        self.accepted.update(
            value for partition, value in accepted if partition not in failed
        )


def accept(value: int, delivery_count: int) -> AcknowledgeType:
    return AcknowledgeType.ACCEPT


def test_released_records_come_again_and_rejected_ones_do_not(
    server: ServerProcess,
) -> None:
    def choose(value: int, delivery_count: int) -> AcknowledgeType:
        if value % 5 == 0:
            return AcknowledgeType.REJECT
        if value % 5 == 1 and delivery_count == 1:
            return AcknowledgeType.RELEASE
        return AcknowledgeType.ACCEPT

    with Queue(server.bootstrap, 100) as queue:

        def is_done() -> bool:
            queue.poll(choose)
            return len(queue.accepted) == 80 and len(queue.deliveries) == 100

        eventually(is_done, expected="all records but the rejected ones accepted")
        for value, count in queue.deliveries.items():
            assert count == (2 if value % 5 == 1 else 1)
        queue.poll(accept)
        assert queue.deliveries.total() == 120


def test_two_consumers_share_the_records(server: ServerProcess) -> None:
    with Queue(server.bootstrap, 4_000, consumers=2) as queue:

        def is_done() -> bool:
            queue.poll(accept)
            return len(queue.accepted) == 4_000

        eventually(is_done, expected="all records accepted")
        assert set(queue.deliveries.values()) == {1}
        assert queue.used == {0, 1}


def test_a_killed_server_delivers_no_accepted_record_again_and_loses_none(
    tmp_path: Path,
) -> None:
    server = start_server(data=tmp_path, settings=SETTINGS)
    again: list[int] = []

    def choose(value: int, delivery_count: int) -> AcknowledgeType:
        if value in queue.accepted:
            again.append(value)
        is_first = value not in released
        released.add(value)
        is_released = is_first and value % 7 == 0
        return AcknowledgeType.RELEASE if is_released else AcknowledgeType.ACCEPT

    released: set[int] = set()
    try:
        with Queue(server.bootstrap, 20_000, consumers=2) as queue:
            for at_least in (4_000, 8_000, 20_000):

                def is_done(count: int = at_least) -> bool:
                    queue.poll(choose)
                    return len(queue.accepted) >= count

                eventually(is_done, expected=f"{at_least} records accepted")
                if at_least < 20_000:
                    address = server.bootstrap
                    server.kill()
                    server = start_server(
                        data=tmp_path, settings=SETTINGS, listen=address
                    )
            assert again == []
    finally:
        server.kill()
