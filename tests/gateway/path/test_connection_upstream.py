"""The data path when the upstream broker is slow, lost, silent or wrong."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import suppress

import pytest

from coterie.gateway.path.addresses import UpstreamBroker
from coterie.gateway.path.connection import EXPECTED_MAX
from coterie.wire import messages as m
from coterie.wire.api import ApiKey
from coterie.wire.codec import encode
from coterie.wire.error_codes import ErrorCode
from coterie.wire.framing import RequestHeaderV0, frame_of, write_request
from tests.broker.server.harness import WireClient
from tests.gateway.path.fake_upstream import BROKER_ID, FakeUpstream
from tests.gateway.path.gateway import ThreadGateway
from tests.support.waiting import eventually

CHUNK = bytes(1_000_000)
BUFFERED_BYTES_MAX = 16_000_000
"""What kernel and gateway may buffer between two sockets that nobody reads; the test
sends much more."""
LIMIT_BYTES = 100_000_000


@pytest.fixture(scope="module")
def upstream() -> Iterator[FakeUpstream]:
    with FakeUpstream() as running:
        yield running


@pytest.fixture(scope="module")
def gateway(upstream: FakeUpstream) -> Iterator[ThreadGateway]:
    with ThreadGateway([upstream.broker], has_topics=False) as running:
        yield running


def request(correlation_id: int, key: int = 35, body: bytes = b"") -> bytes:
    """Return a request of an API that is forwarded."""
    return write_request(
        RequestHeaderV0(key, 0, correlation_id), "c", body, flexible=False
    )


def heartbeat(client: WireClient) -> int:
    sent = m.HeartbeatRequest(group_id="g", member_id="m")
    code: int = client.call(sent).error_code
    return code


def correlation_id(client: WireClient) -> int:
    return int.from_bytes(client.receive_frame()[:4])


def sent_until_blocked(sender: socket.socket, first: bytes) -> int:
    """Send until the other side takes no more; return the bytes sent."""
    sender.setblocking(True)
    sender.sendall(first)
    sender.settimeout(1.0)
    count = 0
    while count < LIMIT_BYTES:
        try:
            count += sender.send(CHUNK)
        except TimeoutError:
            return count
    return count


def test_requests_before_the_upstream_connection_are_kept(
    gateway: ThreadGateway, upstream: FakeUpstream
) -> None:
    with gateway.client(0) as client:
        client.socket.sendall(request(1) + request(2))
        connection = upstream.accept()

        assert [connection.receive().correlation_id for _ in range(2)] == [1, 2]


def test_a_frame_is_forwarded_before_it_is_complete(
    gateway: ThreadGateway, upstream: FakeUpstream
) -> None:
    frame = request(1, body=CHUNK)
    with gateway.client(0) as client:
        client.socket.sendall(frame[:500_000])
        connection = upstream.accept()
        assert connection._exactly(500_000) == frame[:500_000]
        client.socket.sendall(frame[500_000:])
        assert connection._exactly(len(frame) - 500_000) == frame[500_000:]

        answer = frame_of(b"\0\0\0\1" + CHUNK)
        connection.socket.sendall(answer[:400_000])
        client.socket.settimeout(120)
        assert client._exactly(400_000) == answer[:400_000]
        connection.socket.sendall(answer[400_000:])
        assert client._exactly(len(answer) - 400_000) == answer[400_000:]


def test_leaders_in_fetch_responses_have_addresses_of_the_gateway_or_none(
    gateway: ThreadGateway, upstream: FakeUpstream
) -> None:
    broker = upstream.broker
    leader = m.NodeEndpoint(node_id=BROKER_ID, host=broker.host, port=broker.port)
    body = b"\0" + encode(m.FetchResponse(node_endpoints=[leader]), 17)

    with gateway.client(0) as client:
        for _ in range(2):
            client.send(m.FetchRequest(), 17)
        connection = upstream.accept()
        connection.answer(connection.receive().correlation_id, body)
        whole = client.receive()
        client.socket.sendall(request(9))
        second = frame_of(connection.receive().correlation_id.to_bytes(4) + body)
        connection.socket.sendall(second[:12])
        assert client._exactly(12) == second[:12]
        client._buffer = second[:12]
        third = frame_of(connection.receive().correlation_id.to_bytes(4))
        connection.socket.sendall(second[12:] + third)
        in_parts = client.receive()
        assert correlation_id(client) == 9

    [moved] = whole.node_endpoints
    assert (moved.host, moved.port) == ("127.0.0.1", gateway.port + 1)
    assert in_parts.node_endpoints == []


@pytest.mark.slow
def test_a_client_that_does_not_read_stops_upstream(
    gateway: ThreadGateway, upstream: FakeUpstream
) -> None:
    with gateway.client(0) as client, gateway.client(0) as other:
        connections = upstream.accept(), upstream.accept()
        client.socket.sendall(request(1))
        other.socket.sendall(request(2))
        by_id = {each.receive().correlation_id: each for each in connections}

        head = (2_000_000_000).to_bytes(4) + (1).to_bytes(4)
        sent = sent_until_blocked(by_id[1].socket, head)

        assert sent < BUFFERED_BYTES_MAX
        by_id[2].answer(2)
        assert correlation_id(other) == 2
        assert heartbeat(other) == ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.slow
def test_an_upstream_that_does_not_read_stops_the_client(
    gateway: ThreadGateway, upstream: FakeUpstream
) -> None:
    with gateway.client(0) as client, gateway.client(0) as other:
        connections = upstream.accept(), upstream.accept()
        head = request(1, ApiKey.PRODUCE, body=b"\xff\xff\xff\xff" + bytes(8))
        sent = sent_until_blocked(client.socket, (LIMIT_BYTES).to_bytes(4) + head[4:])

        assert sent < BUFFERED_BYTES_MAX
        assert heartbeat(other) == ErrorCode.UNKNOWN_MEMBER_ID
    for each in connections:
        each.socket.close()


def test_requests_without_a_response_are_limited(
    gateway: ThreadGateway, upstream: FakeUpstream
) -> None:
    count = 2 * EXPECTED_MAX
    before = gateway.sides()
    with gateway.client(0) as client:
        client.socket.sendall(b"".join(map(request, range(count))))
        connection = upstream.accept()
        for number in range(EXPECTED_MAX):
            assert connection.receive().correlation_id == number
        (side,) = gateway.sides() - before
        assert len(side._expected) == EXPECTED_MAX

        for number in range(EXPECTED_MAX):
            connection.answer(number)
        for number in range(EXPECTED_MAX, count):
            assert connection.receive().correlation_id == number
            connection.answer(number)
        assert [correlation_id(client) for _ in range(count)] == list(range(count))


def test_the_loss_of_upstream_closes_the_client(
    gateway: ThreadGateway, upstream: FakeUpstream
) -> None:
    with gateway.client(0) as client:
        client.socket.sendall(request(1))
        connection = upstream.accept()
        connection.receive()
        connection.answer(1)
        assert correlation_id(client) == 1
        connection.socket.close()

        assert client.is_closed()


def test_a_client_that_closes_closes_upstream(
    gateway: ThreadGateway, upstream: FakeUpstream
) -> None:
    with gateway.client(0):
        connection = upstream.accept()
    assert connection.is_closed()


@pytest.mark.parametrize(
    "answer",
    [
        frame_of(b"\0\0\0\x09"),
        frame_of(b"\0\0\0\1") * 2,
        b"\xff\xff\xff\xff\0\0\0\1",
        b"\0\0\0\1\0\0\0\1",
    ],
    ids=["id", "unrequested", "negative", "short"],
)
def test_an_invalid_response_closes_the_client(
    gateway: ThreadGateway, upstream: FakeUpstream, answer: bytes
) -> None:
    with gateway.client(0) as client:
        client.socket.sendall(request(1))
        connection = upstream.accept()
        connection.receive()
        connection.socket.sendall(answer)

        data = b""
        with suppress(ConnectionResetError):
            while chunk := client.socket.recv(1_000):
                data += chunk
        assert len(data) <= 8
        assert connection.is_closed()


def test_coordination_connects_when_a_request_has_to_be_forwarded(
    gateway: ThreadGateway, upstream: FakeUpstream
) -> None:
    before = gateway.sides()
    with gateway.client() as client:
        assert heartbeat(client) == ErrorCode.UNKNOWN_MEMBER_ID
        client.socket.sendall(request(7))
        first = upstream.accept()
        assert first.receive().correlation_id == 7
        first.answer(7)
        assert correlation_id(client) == 7

        # Upstream closes idle connections; groups must not notice.
        first.socket.close()
        (side,) = gateway.sides() - before
        eventually(lambda: side._upstream is None, expected="upstream is lost")
        assert heartbeat(client) == ErrorCode.UNKNOWN_MEMBER_ID
        client.socket.sendall(request(8))
        second = upstream.accept()
        assert second.receive().correlation_id == 8
        second.socket.close()
        assert client.is_closed()


@pytest.mark.parametrize(("host", "port"), [("a..b", 9092), ("127.0.0.1", 70_000)])
def test_a_broker_with_an_invalid_address_closes_the_client(
    upstream: FakeUpstream, host: str, port: int
) -> None:
    wrong = UpstreamBroker(1, host, port)
    right = upstream.broker._replace(broker_id=2)
    with ThreadGateway([wrong, right], has_topics=False) as gateway:
        with gateway.client(0) as client:
            client.socket.sendall(request(1))
            assert client.is_closed()
        for _ in range(2):  # coordination takes the other broker
            with gateway.client() as client:
                client.socket.sendall(request(2))
                assert upstream.accept().receive().correlation_id == 2


def test_a_broker_that_is_down_closes_the_client() -> None:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    down = UpstreamBroker(1, "127.0.0.1", port)
    with (
        FakeUpstream() as live,
        ThreadGateway(
            [down, live.broker._replace(broker_id=2)], has_topics=False
        ) as gateway,
    ):
        with gateway.client(0) as client:
            client.socket.sendall(request(1))
            assert client.is_closed()
        for _ in range(2):  # coordination takes the broker that is alive
            with gateway.client() as client:
                client.socket.sendall(request(2))
                connection = live.accept()
                assert connection.receive().correlation_id == 2
                connection.answer(2)
                assert correlation_id(client) == 2
