"""The data path between raw clients and an embedded server as the upstream cluster."""

from __future__ import annotations

import random
import socket
from collections.abc import Iterator
from typing import Any, Final

import pytest

from coterie.wire import messages as m
from coterie.wire.api import ApiKey
from coterie.wire.error_codes import ErrorCode
from coterie.wire.framing import RequestHeaderV0, frame_of, write_request
from coterie.wire.record_batch import LogRecord, encode_batch
from tests.broker.server.harness import ThreadServer, WireClient
from tests.gateway.path.gateway import ThreadGateway, brokers_of
from tests.support.waiting import eventually

LARGE_BYTES: Final = 900_000
FETCH_VERSION: Final = 12
PRODUCE_VERSION: Final = 9
TOPICS: Final = ("t", "large-12", "large-18", "acks0", "closed", "waits", "bytes")


@pytest.fixture(scope="module")
def upstream() -> Iterator[ThreadServer]:
    with ThreadServer(node_count=2) as server:
        with server.client() as client:
            topics = [
                m.CreatableTopic(name=name, num_partitions=1, replication_factor=1)
                for name in (
                    "t",
                    "large-12",
                    "large-18",
                    "acks0",
                    "closed",
                    "waits",
                    "bytes",
                )
            ]
            client.call(m.CreateTopicsRequest(topics=topics, timeout_ms=10_000))
        yield server


@pytest.fixture(scope="module")
def gateway(upstream: ThreadServer) -> Iterator[ThreadGateway]:
    with ThreadGateway(brokers_of(upstream.addresses)) as running:
        yield running


def produce(topic: str, value: bytes, *, acks: int = -1) -> m.ProduceRequest:
    data = m.PartitionProduceData(
        index=0, records=encode_batch([LogRecord(0, 1_000, None, value)])
    )
    return m.ProduceRequest(
        acks=acks,
        timeout_ms=10_000,
        topic_data=[m.TopicProduceData(name=topic, partition_data=[data])],
    )


def commit(group_id: str) -> m.OffsetCommitRequest:
    partition = m.OffsetCommitRequestPartition(partition_index=0, committed_offset=7)
    topic = m.OffsetCommitRequestTopic(name="t", partitions=[partition])
    return m.OffsetCommitRequest(group_id=group_id, topics=[topic])


def fetch(topic: str, *, wait_ms: int = 0, min_bytes: int = 0) -> m.FetchRequest:
    partition = m.FetchPartition(
        partition=0, fetch_offset=0, partition_max_bytes=10_000_000
    )
    return m.FetchRequest(
        max_wait_ms=wait_ms,
        min_bytes=min_bytes,
        max_bytes=10_000_000,
        topics=[m.FetchTopic(topic=topic, partitions=[partition])],
    )


def topic_id(client: WireClient, topic: str) -> bytes:
    listed = client.call(
        m.MetadataRequest(topics=[m.MetadataRequestTopic(name=topic)]), 12
    )
    found: bytes = listed.topics[0].topic_id
    return found


def heartbeat(group_id: str = "g") -> m.HeartbeatRequest:
    return m.HeartbeatRequest(group_id=group_id, member_id="m")


def end_offset(client: WireClient, topic: str) -> int:
    partition = m.ListOffsetsPartition(partition_index=0, timestamp=-1)
    request = m.ListOffsetsRequest(
        topics=[m.ListOffsetsTopic(name=topic, partitions=[partition])]
    )
    offset: int = client.call(request).topics[0].partitions[0].offset
    return offset


# Order.


def test_forwarded_and_group_requests_are_answered_in_order(
    gateway: ThreadGateway,
) -> None:
    requests = [
        m.MetadataRequest(),
        heartbeat(),
        heartbeat(),
        fetch("t"),
        heartbeat(),
        m.MetadataRequest(),
        m.MetadataRequest(),
        m.FindCoordinatorRequest(coordinator_keys=["g"]),
        fetch("t"),
    ]
    with gateway.client(0) as client:
        frames = [
            client.frame(each, FETCH_VERSION if each.API_KEY == ApiKey.FETCH else None)[
                0
            ]
            for each in requests
        ]
        client.socket.sendall(b"".join(frames))
        # `receive` compares the correlation ids.
        answers = [client.receive() for _ in requests]
    assert [type(each).__name__ for each in answers] == [
        type(each).__name__.replace("Request", "Response") for each in requests
    ]
    assert answers[1].error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert answers[0].cluster_id == answers[5].cluster_id


def test_a_group_response_waits_for_an_earlier_fetch(gateway: ThreadGateway) -> None:
    with gateway.client(0) as client:
        client.send(fetch("t", wait_ms=300, min_bytes=1_000_000), FETCH_VERSION)
        client.send(heartbeat())
        client.send(m.MetadataRequest())

        assert client.receive().error_code == 0
        assert client.receive().error_code == ErrorCode.UNKNOWN_MEMBER_ID
        assert client.receive().brokers


def test_requests_may_arrive_byte_by_byte(gateway: ThreadGateway) -> None:
    requests: list[tuple[Any, int | None]] = [
        (m.MetadataRequest(), None),
        (heartbeat(), None),
        (produce("bytes", b"value"), PRODUCE_VERSION),
        (m.FindCoordinatorRequest(coordinator_keys=["g"]), None),
        (produce("bytes", b"value", acks=0), PRODUCE_VERSION),
        (fetch("bytes"), FETCH_VERSION),
    ]
    with gateway.client(0) as client:
        data = b"".join(client.frame(*each)[0] for each in requests)
        del client._sent[4]  # acks=0 has no response
        for at in range(len(data)):
            client.socket.sendall(data[at : at + 1])
        answers = [client.receive() for _ in range(len(requests) - 1)]
        eventually(lambda: end_offset(client, "bytes") == 2, expected="two records")
    assert answers[-1].responses[0].partitions[0].error_code == 0


@pytest.mark.parametrize("version", [FETCH_VERSION, 18])
def test_large_frames_pass_unchanged(
    gateway: ThreadGateway, upstream: ThreadServer, version: int
) -> None:
    topic = f"large-{version}"
    value = random.Random(1).randbytes(LARGE_BYTES)
    with gateway.client(0) as client, upstream.client(0) as direct:
        request = fetch(topic)
        request.topics[0].topic_id = topic_id(direct, topic)
        for _ in range(3):
            sent = client.call(produce(topic, value), PRODUCE_VERSION)
            assert sent.responses[0].partition_responses[0].error_code == 0
        client.send(request, version)
        client.send(heartbeat())
        client.send(request, version)
        through = [client.receive() for _ in range(3)]
        wanted = direct.call(request, version)
    assert through[0].responses[0].partitions[0].records.count(value) == 3
    assert through[0].responses == through[2].responses == wanted.responses


def test_produce_without_acks_has_no_response(gateway: ThreadGateway) -> None:
    with gateway.client(0) as client:
        frame, _ = client.frame(produce("acks0", b"v", acks=0), PRODUCE_VERSION)
        client._sent.clear()
        client.socket.sendall(frame * 3)

        assert client.call(m.MetadataRequest()).brokers
        eventually(lambda: end_offset(client, "acks0") == 3, expected="three records")


def test_records_without_acks_survive_that_the_client_closes(
    gateway: ThreadGateway, upstream: ThreadServer
) -> None:
    with gateway.client(0) as client:
        frame, _ = client.frame(
            produce("closed", b"v" * 100_000, acks=0), PRODUCE_VERSION
        )
        client.socket.sendall(frame * 4)
    with upstream.client(0) as direct:
        eventually(lambda: end_offset(direct, "closed") == 4, expected="four records")


def test_records_behind_a_waiting_group_request_survive_that_the_client_closes(
    gateway: ThreadGateway, upstream: ThreadServer
) -> None:
    join = m.JoinGroupRequest(
        group_id="waits",
        protocol_type="p",
        session_timeout_ms=10_000,
        protocols=[m.JoinGroupRequestProtocol(name="p")],
    )
    with gateway.client(0) as client:
        client.call(heartbeat())
        frames = [client.frame(join, 3)[0], client.frame(heartbeat())[0]]
        records = produce("waits", b"v", acks=0)
        frames.append(client.frame(records, PRODUCE_VERSION)[0])
        client.socket.sendall(b"".join(frames))
    with upstream.client(0) as direct:
        eventually(lambda: end_offset(direct, "waits") == 1, expected="a record")


def test_requests_before_a_malformed_group_request_get_their_responses(
    gateway: ThreadGateway,
) -> None:
    with gateway.client(0) as client:
        commits = [client.frame(commit("g"), 8) for _ in range(3)]
        malformed = commits[0][0][:-4]
        malformed = (len(malformed) - 4).to_bytes(4) + malformed[4:]
        frames = [frame for frame, _ in commits]
        client.socket.sendall(b"".join([*frames, malformed]))

        for _, correlation_id in commits:
            assert client.receive_frame()[:4] == correlation_id.to_bytes(4)
        assert client.is_closed()


def test_a_half_closed_connection_gets_its_responses(gateway: ThreadGateway) -> None:
    with gateway.client(0) as client:
        client.send(heartbeat())
        client.send(fetch("t", wait_ms=200, min_bytes=1_000_000), FETCH_VERSION)
        client.send(heartbeat())
        client.socket.shutdown(socket.SHUT_WR)

        answers = [client.receive() for _ in range(3)]
        assert client.is_closed()
    assert answers[2].error_code == ErrorCode.UNKNOWN_MEMBER_ID


# Both kinds of port.


@pytest.mark.parametrize("broker", [None, 0, 1])
def test_every_port_describes_the_gateway(
    gateway: ThreadGateway, broker: int | None
) -> None:
    with gateway.client(broker) as client:
        versions = client.call(
            m.ApiVersionsRequest(client_software_name="c", client_software_version="1"),
            4,
        )
        listed = client.call(
            m.MetadataRequest(topics=[m.MetadataRequestTopic(name="t")])
        )
    ranges = {each.api_key: each.max_version for each in versions.api_keys}
    assert ranges[ApiKey.FETCH] == 18
    addresses = {each.node_id: (each.host, each.port) for each in listed.brokers}
    assert addresses == {
        1: ("127.0.0.1", gateway.port + 1),
        2: ("127.0.0.1", gateway.port + 2),
        gateway.own.node_id: ("127.0.0.1", gateway.port),
    }
    assert listed.topics[0].name == "t"


def test_a_group_is_served_at_the_coordination_port(gateway: ThreadGateway) -> None:
    with gateway.client(1) as client:
        request = m.FindCoordinatorRequest(coordinator_keys=["simple"])
        found = client.call(request).coordinators[0]
        old = client.call(m.FindCoordinatorRequest(key="simple"), 3)
    assert (found.error_code, found.node_id) == (0, gateway.own.node_id)
    assert (
        (old.host, old.port)
        == (found.host, found.port)
        == (
            "127.0.0.1",
            gateway.port,
        )
    )
    partition = m.OffsetCommitRequestPartition(partition_index=0, committed_offset=7)
    commit = m.OffsetCommitRequest(
        group_id="simple",
        topics=[m.OffsetCommitRequestTopic(name="t", partitions=[partition])],
    )
    with gateway.client() as client:
        committed = client.call(commit, 9)
    assert committed.topics[0].partitions[0].error_code == 0


def test_the_coordinator_of_a_transaction_is_a_brokers_port(
    gateway: ThreadGateway,
) -> None:
    keys = [f"transaction-{number}" for number in range(6)]
    with gateway.client() as client:
        request = m.FindCoordinatorRequest(key_type=1, coordinator_keys=keys)
        found = client.call(request).coordinators
    assert {(each.node_id, each.port) for each in found} == {
        (1, gateway.port + 1),
        (2, gateway.port + 2),
    }


# Hostile clients.


def header(key: int, version: int) -> bytes:
    return write_request(RequestHeaderV0(key, version, 5), "c", b"", flexible=False)


@pytest.mark.parametrize(
    "bad",
    [
        b"\xff\xff\xff\xff",
        bytes(24),
        (100_000_000).to_bytes(4) + header(ApiKey.METADATA, 9)[4:],
        (2_000_000_000).to_bytes(4) + bytes(8),
        frame_of(b"\0\0\0\x03\0\0\0\1"),
        header(ApiKey.FETCH, 19),
        header(ApiKey.METADATA, 99),
        header(ApiKey.METADATA, -1),
        header(ApiKey.HEARTBEAT, 99),
        header(ApiKey.FIND_COORDINATOR, 99),
        header(76, 1),
        (20_000_000).to_bytes(4) + header(ApiKey.FIND_COORDINATOR, 4)[4:],
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    ],
)
def test_an_invalid_request_closes_only_its_connection(
    gateway: ThreadGateway, bad: bytes
) -> None:
    padding = bytes(12) if len(bad) < 12 else b""
    with gateway.client(0) as client, gateway.client(0) as other:
        client.send(m.MetadataRequest())
        client.send(heartbeat())
        client.socket.sendall(bad + padding)

        assert client.receive().brokers
        assert client.receive().error_code == ErrorCode.UNKNOWN_MEMBER_ID
        assert client.is_closed()
        assert other.call(m.MetadataRequest()).brokers


def test_random_bytes_never_harm_other_connections(gateway: ThreadGateway) -> None:
    chance = random.Random(17)
    with gateway.client(0) as other:
        for number in range(60):
            with gateway.client(None if number % 3 else 0) as client:
                data, _ = client.frame(
                    chance.choice([m.MetadataRequest(), heartbeat()])
                )
                for _ in range(4):
                    data += client.frame(produce("t", b"v"), PRODUCE_VERSION)[0]
                broken = bytearray(data)
                for _ in range(chance.randrange(1, 6)):
                    broken[chance.randrange(len(broken))] = chance.randrange(256)
                client.socket.sendall(broken)
                client.socket.shutdown(socket.SHUT_WR)
            assert other.call(m.MetadataRequest()).brokers
            assert other.call(heartbeat()).error_code == ErrorCode.UNKNOWN_MEMBER_ID
