"""The bounds of a client's connection: memory, work and time, whatever the peers do."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import pytest

from coterie.gateway.path.connection import EXPECTED_MAX, ClientSide
from coterie.gateway.path.sasl import SaslExchange
from coterie.gateway.path.upstream_side import CLOSE_S
from coterie.wire import messages as m
from coterie.wire.api import ApiKey
from coterie.wire.framing import RequestHeaderV0, write_request
from tests.broker.server.harness import WireClient
from tests.gateway.path.fake_upstream import FakeUpstream
from tests.gateway.path.gateway import ThreadGateway
from tests.support.waiting import eventually

REFUSED_VERSION = 99
REQUESTS = 10
TIMEOUT_S = 40
"""More than every limit of a connection."""


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


def side_of(gateway: ThreadGateway, client: WireClient) -> ClientSide:
    """Return the gateway's side of a connection."""
    port = client.socket.getsockname()[1]

    def found() -> list[ClientSide]:
        return [
            side
            for side in gateway.sides()
            if side._transport is not None
            and side._transport.get_extra_info("peername")[1] == port
        ]

    eventually(lambda: bool(found()), expected="the connection is accepted")
    return found()[0]


def pass_time(gateway: ThreadGateway, side: ClientSide, seconds: float) -> None:
    """Make the periodic checks of so many seconds."""

    async def check() -> None:
        for _ in range(round(seconds)):
            side.check_progress()

    gateway.run(check())


def test_a_client_that_does_not_read_gets_no_further_responses_of_the_gateway(
    gateway: ThreadGateway,
) -> None:
    refused = struct.pack(">ihhih", 10, ApiKey.API_VERSIONS, REFUSED_VERSION, 7, -1)
    with gateway.client() as client:
        side = side_of(gateway, client)

        async def receive_while_full() -> None:
            side.pause_writing()
            side.data_received(refused * REQUESTS)
            assert len(side._cutter.kept) == len(refused) * REQUESTS
            side.resume_writing()

        gateway.run(receive_while_full())
        for _ in range(REQUESTS):
            assert client.receive_frame()[:4] == (7).to_bytes(4)


def test_waiting_requests_are_not_copied_for_each_response(
    gateway: ThreadGateway, upstream: FakeUpstream
) -> None:
    with gateway.client(0) as client:
        connection = upstream.accept()
        client.socket.sendall(b"".join(map(request, range(EXPECTED_MAX + 1))))
        for number in range(EXPECTED_MAX):
            assert connection.receive().correlation_id == number
        side = side_of(gateway, client)
        eventually(lambda: bool(side._cutter.kept), expected="the last one waits")

        connection.answer(0)
        assert client.receive_frame()[:4] == (0).to_bytes(4)
        assert side._cutter.kept
        for number in range(1, EXPECTED_MAX // 2):
            connection.answer(number)
        assert connection.receive().correlation_id == EXPECTED_MAX


def test_waiting_records_of_a_client_that_has_closed_need_no_upstream(
    gateway: ThreadGateway, caplog: pytest.LogCaptureFixture
) -> None:
    join = m.JoinGroupRequest(
        group_id="parked", protocol_type="p", session_timeout_ms=10_000
    )
    acks_0 = request(1, ApiKey.PRODUCE, body=bytes(10))
    with gateway.client() as client:
        side = side_of(gateway, client)
        parked, _ = client.frame(join, 0)

        async def receive_and_lose() -> None:
            side._expected.extend([None] * (EXPECTED_MAX - 1))
            side.data_received(parked + acks_0)
            transport = side._transport
            assert transport is not None
            assert side._cutter.kept
            side.connection_lost(None)
            transport.abort()

        gateway.run(receive_and_lose())
        assert side not in gateway.sides()
        assert side._upstream is None
    assert not caplog.records


def test_a_hung_upstream_does_not_keep_connections_of_clients_that_have_closed(
    gateway: ThreadGateway, upstream: FakeUpstream
) -> None:
    with gateway.client(0) as client:
        connection = upstream.accept()
        client.socket.sendall(request(1))
        connection.receive()
        side = side_of(gateway, client)
    eventually(
        lambda: bool(side._reading.reasons), expected="the end of the requests is read"
    )
    pass_time(gateway, side, CLOSE_S + 5)

    eventually(lambda: side not in gateway.sides(), expected="closed")
    assert connection.is_closed()


def test_an_upstream_that_consumes_nothing_is_left(
    gateway: ThreadGateway, upstream: FakeUpstream
) -> None:
    with gateway.client(0) as client:
        connection = upstream.accept()
        side = side_of(gateway, client)
        # More than the kernel buffers.
        large = request(1, ApiKey.PRODUCE, body=b"\xff\xff" + bytes(32_000_000))

        async def receive() -> None:
            side.data_received(large)

        eventually(lambda: side._upstream is not None, expected="connected")
        gateway.run(receive())
        pass_time(gateway, side, TIMEOUT_S)

        assert client.is_closed()
        connection.socket.close()


def test_a_client_has_to_authenticate_in_time(upstream: FakeUpstream) -> None:
    with (
        ThreadGateway(
            [upstream.broker],
            has_topics=False,
            new_exchange=lambda: SaslExchange(lambda: 0),
        ) as gateway,
        gateway.client() as client,
    ):
        side = side_of(gateway, client)
        pass_time(gateway, side, TIMEOUT_S)

        assert client.is_closed()
        closed = gateway.path.node.broker.counts.connections_closed
        assert closed["authentication timeout"] == 1
