"""The counted bytes of the data path."""

from __future__ import annotations

from coterie.wire import messages as m
from tests.broker.server.harness import ThreadServer
from tests.gateway.path.gateway import ThreadGateway, brokers_of


def test_forwarded_bytes_are_counted_and_those_of_groups_are_not() -> None:
    with (
        ThreadServer() as upstream,
        ThreadGateway(brokers_of(upstream.addresses)) as gateway,
        gateway.client(0) as client,
    ):
        counts = gateway.path.counts
        client.call(m.HeartbeatRequest(group_id="g", member_id="m"))
        assert (counts.bytes_to_upstream, counts.bytes_to_clients) == (0, 0)
        frame, _ = client.frame(m.MetadataRequest(), None)
        client.socket.sendall(frame)
        client.receive()
        assert counts.bytes_to_upstream == len(frame)
        assert counts.bytes_to_clients > len(frame)
