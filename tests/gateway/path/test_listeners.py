"""The ports of a gateway node, and the limits of their connections."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from coterie.gateway.path.addresses import UpstreamBroker
from coterie.gateway.path.data_path import DataPath
from coterie.gateway.path.listeners import Listeners
from coterie.wire import messages as m
from tests.broker.server.harness import WireClient
from tests.gateway.path.fake_upstream import FakeUpstream
from tests.gateway.path.gateway import HOST, ThreadGateway
from tests.support.waiting import eventually


@pytest.fixture
def upstream() -> Iterator[FakeUpstream]:
    with FakeUpstream() as running:
        yield running


@pytest.fixture
def gateway(upstream: FakeUpstream) -> Iterator[ThreadGateway]:
    with ThreadGateway([upstream.broker], has_topics=False) as running:
        yield running


def heartbeat(client: WireClient) -> int:
    sent = m.HeartbeatRequest(group_id="g", member_id="m")
    code: int = client.call(sent).error_code
    return code


async def close_idle(gateway: ThreadGateway, sweeps_max: int) -> None:
    gateway.path.connections.close_idle(sweeps_max)


async def learn(gateway: ThreadGateway, broker: UpstreamBroker) -> None:
    gateway.path.addresses.learn([broker])


def connects(gateway: ThreadGateway, position: int) -> bool:
    try:
        gateway.client(position).close()
    except ConnectionRefusedError:
        return False
    return True


def test_idle_connections_are_closed(gateway: ThreadGateway) -> None:
    with gateway.client() as idle, gateway.client() as active:
        for client in (idle, active):
            heartbeat(client)
        for _ in range(2):
            gateway.run(close_idle(gateway, 2))
        heartbeat(active)
        gateway.run(close_idle(gateway, 2))

        assert idle.is_closed()
        heartbeat(active)


def test_a_connection_with_a_pending_request_is_not_idle(
    gateway: ThreadGateway, upstream: FakeUpstream
) -> None:
    with gateway.client(0) as client:
        client.socket.sendall(b"\0\0\0\x0a\0\x23\0\0\0\0\0\1\xff\xff")
        connection = upstream.accept()
        connection.receive()
        for _ in range(5):
            gateway.run(close_idle(gateway, 0))
        connection.answer(1)

        assert client.receive_frame() == b"\0\0\0\1"


def test_the_port_of_a_new_broker_is_opened(gateway: ThreadGateway) -> None:
    assert connects(gateway, 0)
    assert not connects(gateway, 1)
    with FakeUpstream() as new:
        gateway.run(learn(gateway, new.broker._replace(broker_id=7)))
        eventually(lambda: connects(gateway, 1), expected="a port for broker 7")
        new.accept()


def test_connections_are_limited(upstream: FakeUpstream) -> None:
    with (
        ThreadGateway(
            [upstream.broker], has_topics=False, max_connections_per_ip=2
        ) as gateway,
        gateway.client() as first,
        gateway.client() as second,
    ):
        for client in (first, second):
            heartbeat(client)
        with gateway.client() as third:
            assert third.is_closed()
        second.close()
        eventually(
            lambda: len(gateway.path.connections) == 1, expected="the second is closed"
        )
        with WireClient(HOST, gateway.port) as fourth:
            heartbeat(fourth)


def test_known_ids_keep_their_ports_without_an_address(upstream: FakeUpstream) -> None:
    with ThreadGateway(
        [upstream.broker._replace(broker_id=3)], has_topics=False
    ) as gateway:
        addresses = gateway.path.addresses

        async def learn_ids() -> None:
            addresses.learn_ids([3, 1])

        gateway.run(learn_ids())

        assert addresses.advertised(3).port == gateway.port + 2
        eventually(lambda: connects(gateway, 1), expected="a port for broker 3")
        with gateway.client(0) as client:
            assert client.is_closed()
        with gateway.client():
            assert addresses.candidates(None) == [addresses.brokers[3]]


async def start_listeners(path: DataPath, port: int) -> None:
    await Listeners(path, HOST, port).start()


def test_an_unavailable_port_is_named_with_all_that_are_needed(
    gateway: ThreadGateway,
) -> None:
    def start(port: int) -> str:
        with pytest.raises(OSError) as failed:  # noqa: PT011 - its text is asserted
            gateway.run(start_listeners(gateway.path, port))
        return str(failed.value)

    assert start(gateway.port) == (
        f"cannot listen on {HOST}:{gateway.port}, the port of coordination: address "
        f"already in use; the node needs the ports {gateway.port} to "
        f"{gateway.port + 1}, the first from --listen"
    )
    assert "the port of coordination: the largest port is 65535" in start(65_536)
