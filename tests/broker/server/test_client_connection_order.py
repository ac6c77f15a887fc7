"""Requests of one connection take effect in order, as in Apache Kafka."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import pytest

from coterie.broker.server.connections import Connections
from coterie.wire import messages as m
from coterie.wire.record_batch import LogRecord, encode_batch
from tests.broker.server.harness import ThreadServer, WireClient
from tests.support.waiting import eventually

EARLIEST, LATEST = -2, -1


@pytest.fixture(scope="module")
def server() -> Iterator[ThreadServer]:
    with ThreadServer() as running:
        yield running


def connections_of(server: ThreadServer) -> Connections:
    assert server.server._listener is not None
    return server.server._listener.connections


def create(client: WireClient, name: str) -> None:
    topic = m.CreatableTopic(name=name, num_partitions=1, replication_factor=1)
    client.call(m.CreateTopicsRequest(topics=[topic], timeout_ms=5_000), 6)


def one_record(topic: str, acks: int = -1) -> m.ProduceRequest:
    batch = encode_batch([LogRecord(0, 1_000, None, b"v")])
    part = m.PartitionProduceData(index=0, records=batch)
    data = m.TopicProduceData(name=topic, partition_data=[part])
    return m.ProduceRequest(acks=acks, timeout_ms=100, topic_data=[data])


def list_offset(topic: str, timestamp: int) -> m.ListOffsetsRequest:
    part = m.ListOffsetsPartition(partition_index=0, timestamp=timestamp)
    return m.ListOffsetsRequest(
        topics=[m.ListOffsetsTopic(name=topic, partitions=[part])]
    )


def delete_before(topic: str, offset: int) -> m.DeleteRecordsRequest:
    part = m.DeleteRecordsPartition(partition_index=0, offset=offset)
    return m.DeleteRecordsRequest(
        topics=[m.DeleteRecordsTopic(name=topic, partitions=[part])]
    )


def test_a_pipelined_read_has_the_effect_of_the_deletion_before_it(
    server: ThreadServer,
) -> None:
    with server.client() as client:
        create(client, "deleted")
        for at in range(1, 31):
            client.call(one_record("deleted"), 9)
            deletion, _ = client.frame(delete_before("deleted", at), 2)
            listing, _ = client.frame(list_offset("deleted", EARLIEST), 5)
            client.socket.sendall(deletion + listing)
            client.receive()
            (topic,) = client.receive().topics
            assert topic.partitions[0].offset == at


def test_a_pipelined_read_has_the_effect_of_the_append_before_it(
    server: ThreadServer,
) -> None:
    with server.client() as client:
        create(client, "appended")
        for at in range(1, 31):
            append, _ = client.frame(one_record("appended"), 9)
            listing, _ = client.frame(list_offset("appended", LATEST), 5)
            client.socket.sendall(append + listing)
            client.receive()
            (topic,) = client.receive().topics
            assert topic.partitions[0].offset == at


def test_appends_keep_their_order_when_one_is_validated_in_the_worker(
    server: ThreadServer,
) -> None:
    count = 20_000
    with server.client() as client:
        create(client, "ordered")
        large = one_record("ordered")
        records = [LogRecord(at, 1_000, None, None) for at in range(count)]
        large.topic_data[0].partition_data[0].records = encode_batch(records)
        frames = [client.frame(each, 9) for each in (large, one_record("ordered"))]
        client.socket.sendall(b"".join(frame for frame, _ in frames))
        offsets = [
            client.receive().responses[0].partition_responses[0].base_offset
            for _ in frames
        ]
    assert offsets == [0, count]


def test_records_without_acknowledgement_survive_a_disconnect(
    server: ThreadServer,
) -> None:
    count = 500
    with server.client() as client, server.client() as other:
        create(other, "unacknowledged")
        frame, _ = client.frame(one_record("unacknowledged", acks=0), 9)
        client.socket.sendall(frame * count)
        client.close()

        def newest() -> int:
            (topic,) = other.call(list_offset("unacknowledged", LATEST), 5).topics
            offset: int = topic.partitions[0].offset
            return offset

        eventually(lambda: newest() == count, expected="all are appended")


@pytest.mark.slow
def test_expensive_requests_of_one_read_are_handled_in_several_turns() -> None:
    # test_client_connection_turns.py tests the turns of several connections.
    with ThreadServer() as server, server.client() as hostile, server.client() as other:
        topic = m.CreatableTopic(
            name="wide", num_partitions=5_000, replication_factor=1
        )
        other.call(m.CreateTopicsRequest(topics=[topic], timeout_ms=5_000), 6)
        count = 40
        frames = b"".join(
            hostile.frame(m.MetadataRequest(topics=None), 12)[0] for _ in range(count)
        )
        hostile.socket.sendall(frames)
        assert other.call(m.ApiVersionsRequest(), 0).error_code == 0
        for _ in range(count):
            topics = {
                topic.name: topic.partitions for topic in hostile.receive().topics
            }
            assert len(topics["wide"]) == 5_000
        assert connections_of(server).turns.exhausted_count > 0
        eventually(
            lambda: connections_of(server).memory.used_bytes == 0,
            expected="all is sent",
        )


@pytest.mark.slow
def test_half_requests_do_not_hold_more_than_the_memory_limit() -> None:
    limit, half = 2_000_000, 600_000
    with ThreadServer(
        queued_max_request_bytes=limit, socket_request_max_bytes=limit
    ) as server:
        hostile = [server.client() for _ in range(20)]
        for client in hostile:
            client.socket.setblocking(False)
            frame = struct.pack(">ihh", limit, 0, 9) + bytes(half)
            try:
                client.socket.send(frame)
            except BlockingIOError:
                continue
        with server.client() as good:
            for _ in range(50):
                assert good.call(m.ApiVersionsRequest(), 0).error_code == 0
            assert connections_of(server).memory.used_bytes < limit + 20 * 262_144
            for client in hostile:
                client.close()
            held = connections_of(server)
            eventually(
                lambda: held.memory.used_bytes == 0, expected="the bytes are freed"
            )
            assert held.memory.paused_count == 0


@pytest.mark.slow
def test_a_stopped_server_closes_connections_that_do_not_consume_responses() -> None:
    with ThreadServer() as server:
        client = server.client()
        topic = m.CreatableTopic(
            name="wide", num_partitions=5_000, replication_factor=1
        )
        client.call(m.CreateTopicsRequest(topics=[topic]))
        frames = [client.frame(m.MetadataRequest(topics=None))[0] for _ in range(200)]
        client.socket.sendall(b"".join(frames))
        connections = connections_of(server)
        eventually(
            lambda: connections.memory.used_bytes > 1_000_000,
            expected="responses that are not consumed",
        )
    assert len(connections) == 0
    client.close()
