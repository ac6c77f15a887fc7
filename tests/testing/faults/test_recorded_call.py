"""Fetch requests that wait for records do not hold up the requests behind them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from coterie.testing.kafka import Kafka
from coterie.wire import messages as m
from coterie.wire.schema import Message
from tests.broker.server.harness import ThreadServer, WireClient
from tests.testing.clients import TOPIC, connect, create_topic

LONG_MS = 3_600_000
SHORT_S = 0.05
VERSION = 12


@pytest.fixture(name="kafka", scope="module")
def start_kafka() -> Iterator[Kafka]:
    with Kafka() as kafka:
        with connect(kafka) as client:
            create_topic(client)
        yield kafka


@pytest.fixture(name="client")
def connect_client(kafka: Kafka) -> Iterator[WireClient]:
    with connect(kafka) as client:
        yield client


def fetch() -> m.FetchRequest:
    partition = m.FetchPartition(
        partition=0, fetch_offset=0, partition_max_bytes=1 << 20
    )
    return m.FetchRequest(
        max_wait_ms=LONG_MS,
        min_bytes=1,
        topics=[m.FetchTopic(topic=TOPIC, partitions=[partition])],
    )


def send_together(client: WireClient, *requests: Message) -> None:
    """Send requests in one write."""
    frames = []
    for request in requests:
        version = VERSION if isinstance(request, m.FetchRequest) else None
        frames.append(client.frame(request, version)[0])
    client.socket.sendall(b"".join(frames))


def assert_nothing_is_received(client: WireClient) -> None:
    client.socket.settimeout(SHORT_S)
    with pytest.raises(TimeoutError):
        client.receive_frame()
    client.socket.settimeout(60)


def test_a_request_behind_a_fetch_ends_its_wait(client: WireClient) -> None:
    client.send(fetch(), VERSION)
    assert_nothing_is_received(client)
    client.send(m.MetadataRequest(topics=[]))

    assert client.receive().error_code == 0
    assert client.receive().brokers


def test_a_request_in_the_same_packet_ends_the_wait(client: WireClient) -> None:
    send_together(client, fetch(), m.MetadataRequest(topics=[]), fetch())

    assert client.receive().error_code == 0
    assert client.receive().brokers
    assert_nothing_is_received(client)


def test_a_fetch_behind_a_fetch_leaves_it_waiting(client: WireClient) -> None:
    send_together(client, fetch(), fetch())
    assert_nothing_is_received(client)
    client.send(m.MetadataRequest(topics=[]))

    assert [client.receive().error_code for _ in range(2)] == [0, 0]
    assert client.receive().brokers


def test_a_request_that_arrives_in_parts_ends_the_wait(client: WireClient) -> None:
    client.send(fetch(), VERSION)
    frame, _ = client.frame(m.MetadataRequest(topics=[]))
    client.socket.sendall(frame[:-1])
    assert_nothing_is_received(client)
    client.socket.sendall(frame[-1:])

    assert client.receive().error_code == 0
    assert client.receive().brokers


def test_a_server_without_the_kit_lets_the_fetch_wait_as_kafka_does() -> None:
    with ThreadServer() as server, server.client() as client:
        create_topic(client)
        send_together(client, fetch(), m.MetadataRequest(topics=[]))
        assert_nothing_is_received(client)
