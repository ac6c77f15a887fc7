"""Connections: invalid frames, limits, and the order of responses."""

from __future__ import annotations

import logging
import socket
import struct
from collections.abc import Iterator

import pytest

from coterie.wire import messages as m
from coterie.wire.record_batch import LogRecord, encode_batch
from tests.broker.server.harness import ThreadServer, WireClient

FRAMES_MAX, OTHER_FRAMES_MAX = 100_000, 60_000
ELEMENTS_MAX = 5_000


@pytest.fixture(scope="module")
def server() -> Iterator[ThreadServer]:
    with ThreadServer(
        socket_request_max_bytes=FRAMES_MAX,
        socket_request_without_records_max_bytes=OTHER_FRAMES_MAX,
        socket_request_max_elements=ELEMENTS_MAX,
        message_max_bytes=50_000,
        max_in_flight_requests_per_connection=8,
        group_initial_rebalance_delay_ms=20,
    ) as running:
        yield running


@pytest.fixture(autouse=True)
def _all_lines_are_logged(server: ThreadServer) -> None:
    """Log the first line of each test, although one of the last second was logged."""
    assert server.server._listener is not None
    server.server._listener.connections.disconnect_logs.clear()


@pytest.fixture
def client(server: ThreadServer) -> Iterator[WireClient]:
    with server.client() as connected:
        yield connected


def sized(frame: bytes) -> bytes:
    return struct.pack(">i", len(frame)) + frame


HEADER = struct.Struct(">hhih")


@pytest.mark.fact("G1-04")
@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (struct.pack(">i", -1), "frame of -1 bytes"),
        (struct.pack(">i", FRAMES_MAX + 1), f"frame of {FRAMES_MAX + 1} bytes"),
        (
            struct.pack(">i", OTHER_FRAMES_MAX + 1) + HEADER.pack(3, 0, 1, -1),
            f"frame of {OTHER_FRAMES_MAX + 1} bytes; at most {OTHER_FRAMES_MAX}",
        ),
        (sized(b""), "0 bytes"),
        (sized(b"\0\0\0"), "3 bytes"),
        (sized(HEADER.pack(9_999, 0, 1, -1)), "unknown API key 9999"),
        (sized(HEADER.pack(-1, 0, 1, -1)), "unknown API key -1"),
        (sized(HEADER.pack(12, 99, 1, -1)), "Heartbeat v99"),
        (sized(HEADER.pack(0, 2, 1, -1)), "Produce v2"),
        (sized(HEADER.pack(12, 0, 1, -1) + b"\0\5ab"), "HeartbeatRequest"),
        (sized(HEADER.pack(12, 0, 1, 50) + b"ab"), "client id"),
    ],
)
def test_an_invalid_frame_closes_the_connection_with_one_log_line(
    server: ThreadServer, caplog: pytest.LogCaptureFixture, broken: bytes, message: str
) -> None:
    with server.client() as refused, server.client() as other:
        with caplog.at_level(logging.INFO):
            refused.socket.sendall(broken)
            assert refused.is_closed()
        lines = [record.getMessage() for record in caplog.records]
        assert len(lines) == 1, lines
        assert message in lines[0]
        assert other.call(m.ApiVersionsRequest(), 0).error_code == 0


def test_only_produce_has_the_larger_limit(server: ThreadServer) -> None:
    large = bytes(OTHER_FRAMES_MAX + 1)
    with server.client() as refused, server.client() as other:
        produced = m.ProduceRequest(
            acks=-1,
            topic_data=[
                m.TopicProduceData(
                    name="none",
                    partition_data=[m.PartitionProduceData(index=0, records=large)],
                )
            ],
        )
        (topic,) = other.call(produced, 9).responses
        assert topic.partition_responses[0].error_code
        refused.send(m.FindCoordinatorRequest(key="x" * (OTHER_FRAMES_MAX + 1)), 3)
        assert refused.is_closed()


def test_a_request_with_too_many_elements_closes_its_connection(
    server: ThreadServer, caplog: pytest.LogCaptureFixture
) -> None:
    keys = ["g"] * ELEMENTS_MAX
    with server.client() as refused:
        found = refused.call(m.FindCoordinatorRequest(coordinator_keys=keys), 4)
        assert len(found.coordinators) == ELEMENTS_MAX
        with caplog.at_level(logging.INFO):
            refused.send(m.FindCoordinatorRequest(coordinator_keys=[*keys, "g"]), 4)
            assert refused.is_closed()
    (line,) = (record.getMessage() for record in caplog.records)
    assert f"{ELEMENTS_MAX + 1} elements; only {ELEMENTS_MAX} more" in line


def test_requests_before_an_invalid_frame_get_responses(client: WireClient) -> None:
    good, _ = client.frame(m.ApiVersionsRequest(), 0)
    client.socket.sendall(good + struct.pack(">i", -1))
    assert client.receive().error_code == 0
    assert client.is_closed()


@pytest.mark.fact("G1-01a")
def test_a_frame_can_arrive_byte_by_byte(client: WireClient) -> None:
    frame, _ = client.frame(m.HeartbeatRequest(group_id="g", member_id="m"), 4)
    for at in range(len(frame)):
        client.socket.sendall(frame[at : at + 1])
    assert client.receive().error_code == 25


def test_a_disconnect_inside_a_frame_does_not_affect_others(
    server: ThreadServer,
) -> None:
    with server.client() as leaver:
        frame, _ = leaver.frame(m.HeartbeatRequest(group_id="g"), 4)
        leaver.socket.sendall(frame[:7])
    with server.client() as other:
        assert other.call(m.ApiVersionsRequest(), 0).error_code == 0


@pytest.mark.fact("G1-05")
def test_pipelined_requests_get_responses_in_order(client: WireClient) -> None:
    # A JoinGroup waits for the initial delay, and later requests wait behind it.
    protocol = m.JoinGroupRequestProtocol(name="range", metadata=b"\0\0\0\0\0\0")
    join = m.JoinGroupRequest(
        group_id="ordered",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=[protocol],
    )
    client.send(join, 3)
    client.send(m.HeartbeatRequest(group_id="nobody", member_id="m"), 4)
    client.send(m.ApiVersionsRequest(), 0)
    assert client.receive().generation_id == 1
    assert client.receive().error_code == 25
    assert client.receive().api_keys


def test_a_pending_request_does_not_block_other_connections(
    server: ThreadServer,
) -> None:
    protocol = m.JoinGroupRequestProtocol(name="range", metadata=b"\0\0\0\0\0\0")
    join = m.JoinGroupRequest(
        group_id="parked",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=[protocol],
    )
    with server.client() as waiting, server.client() as other:
        waiting.send(join, 3)
        assert other.call(m.ApiVersionsRequest(), 0).error_code == 0
        assert waiting.receive().error_code == 0


def test_all_requests_over_the_in_flight_limit_get_responses(
    client: WireClient,
) -> None:
    for _ in range(500):
        client.send(m.HeartbeatRequest(group_id="nobody", member_id="m"), 4)
    assert {client.receive().error_code for _ in range(500)} == {25}


def test_reading_pauses_while_too_many_requests_are_in_flight(
    server: ThreadServer,
) -> None:
    # The joins of 20 members arrive together; 8 can be in flight.
    protocol = m.JoinGroupRequestProtocol(name="range", metadata=b"\0\0\0\0\0\0")
    with server.client() as client:
        frames = b""
        for at in range(20):
            join = m.JoinGroupRequest(
                group_id=f"paused-{at}",
                session_timeout_ms=10_000,
                rebalance_timeout_ms=10_000,
                protocol_type="consumer",
                protocols=[protocol],
            )
            frames += client.frame(join, 3)[0]
        client.socket.sendall(frames)
        assert [client.receive().error_code for _ in range(20)] == [0] * 20
        assert client.call(m.ApiVersionsRequest(), 0).error_code == 0


@pytest.mark.slow
def test_reading_pauses_while_the_client_reads_no_responses() -> None:
    with ThreadServer(connection_write_buffer_max_bytes=65_536) as server:
        with server.client() as client:
            frame, _ = client.frame(m.ApiVersionsRequest(), 0)
            client.socket.settimeout(1.0)
            assert send_until_stuck(client.socket, frame * 100, times=10_000)
        with server.client() as other:
            assert other.call(m.ApiVersionsRequest(), 0).error_code == 0


def send_until_stuck(to: socket.socket, data: bytes, *, times: int) -> bool:
    """Return whether the server stops reading."""
    try:
        for _ in range(times):
            to.sendall(data)
    except TimeoutError:
        return True
    return False


def test_connections_over_max_connections_are_refused_until_one_closes() -> None:
    with ThreadServer(max_connections=2) as server:
        first, second = server.client(), server.client()
        assert first.call(m.ApiVersionsRequest(), 0).error_code == 0
        assert second.call(m.ApiVersionsRequest(), 0).error_code == 0
        with server.client() as third:
            assert third.is_closed()
        first.close()
        second.call(m.ApiVersionsRequest(), 0)
        for _ in range(100):
            with server.client() as fourth:
                fourth.socket.sendall(fourth.frame(m.ApiVersionsRequest(), 0)[0])
                try:
                    assert fourth.receive().error_code == 0
                    break
                except (EOFError, ConnectionResetError):
                    continue
        else:
            raise AssertionError("the place that became free was not given away")
        second.close()


@pytest.mark.slow
def test_an_idle_connection_is_closed_and_a_used_one_is_not() -> None:
    with (
        ThreadServer(connections_max_idle_ms=1_000) as server,
        server.client() as idle,
        server.client() as used,
    ):
        idle.call(m.ApiVersionsRequest(), 0)
        idle.socket.settimeout(0.05)
        for _ in range(200):
            used.call(m.ApiVersionsRequest(), 0)
            try:
                if idle.socket.recv(1) == b"":
                    break
            except TimeoutError:
                continue
        else:
            raise AssertionError("the idle connection stayed open")
        assert used.call(m.ApiVersionsRequest(), 0).error_code == 0


def test_connections_without_an_idle_limit_are_served() -> None:
    with (
        ThreadServer(connections_max_idle_ms=-1) as server,
        server.client() as client,
    ):
        assert client.call(m.ApiVersionsRequest(), 0).error_code == 0
        # A Fetch without partitions waits for as long as it says.
        assert client.call(m.FetchRequest(max_wait_ms=1), 12).error_code == 0


@pytest.mark.fact("G1-06")
def test_produce_with_acks_0_has_no_response(client: WireClient) -> None:
    topic = m.CreatableTopic(name="acks", num_partitions=1, replication_factor=1)
    client.call(m.CreateTopicsRequest(topics=[topic], timeout_ms=5_000), 6)
    batch = encode_batch([LogRecord(0, 1_000, None, b"v")])
    part = m.PartitionProduceData(index=0, records=batch)
    data = m.TopicProduceData(name="acks", partition_data=[part])
    frame, _ = client.frame(
        m.ProduceRequest(acks=0, timeout_ms=100, topic_data=[data]), 9
    )
    client._sent.pop()
    client.socket.sendall(frame)
    assert client.call(m.ApiVersionsRequest(), 0).error_code == 0


def test_a_client_id_may_be_null(server: ThreadServer) -> None:
    with server.client(client_id=None) as nameless:
        assert nameless.call(m.FindCoordinatorRequest(key="g"), 0).error_code == 0


def test_a_bug_in_a_handler_closes_the_connection_and_is_logged(
    server: ThreadServer,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from coterie.broker.server.apis import metadata

    monkeypatch.setattr(metadata, "_cluster", None)
    topic = m.MetadataRequestTopic(name="x")
    with server.client() as refused, server.client() as other:
        refused.send(m.MetadataRequest(topics=[topic]), 1)
        assert refused.is_closed()
        assert "a bug in handling a request" in caplog.text
        assert other.call(m.ApiVersionsRequest(), 0).error_code == 0
