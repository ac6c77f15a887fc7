"""What all client connections of a gateway node share, and the route of each API."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from coterie.broker import Connections, Node
from coterie.client import ClientOptions
from coterie.gateway.counts import GatewayCounts
from coterie.gateway.path.addresses import Addresses
from coterie.gateway.path.rewriting import CAPS, REFUSED, Rewriting
from coterie.gateway.path.sasl import SaslExchange
from coterie.gateway.path.upstream_side import UpstreamSide
from coterie.wire.api import ApiKey

FORWARD: Final = 0
"""Requests and responses are forwarded."""
REWRITE: Final = 1
"""Requests are forwarded, responses are rewritten."""
PRODUCE: Final = 2
"""As `REWRITE`, but a request with acks=0 has no response."""
GROUPS: Final = 3
"""Requests are served by the group server."""
WHOLE: Final = 4
"""Requests are read before their route is decided."""
_WHOLE: Final = (
    ApiKey.FIND_COORDINATOR,
    ApiKey.API_VERSIONS,
    ApiKey.SASL_HANDSHAKE,
    ApiKey.SASL_AUTHENTICATE,
)


class Port(NamedTuple):
    """The routes of requests by API, and the functions that rewrite responses, on one
    kind of port. An API without a route is forwarded."""

    routes: Mapping[int, int]
    rewriting: Rewriting


class DataPath:
    """The parts that the connections of one gateway node share.

    The APIs that have a handler in `connections` are served here. `options` are those
    of connections to upstream, for TLS and time limits. With `new_exchange`, clients
    have to authenticate upstream before they may use groups.
    """

    def __init__(
        self,
        node: Node,
        connections: Connections,
        addresses: Addresses,
        options: ClientOptions,
        *,
        topic: str,
        new_exchange: Callable[[], SaslExchange] | None = None,
    ) -> None:
        self.node = node
        self.connections = connections
        self.addresses = addresses
        self.options = options
        self.counts = GatewayCounts()
        """The counts of forwarded bytes; a node sets its own before it listens."""
        self.new_exchange = new_exchange
        self.connected: set[UpstreamSide] = set()
        """The connections to upstream brokers that are open."""
        self.coordination = self._port(topic, is_coordination=True)
        self.forwarding = self._port(topic, is_coordination=False)

    def _port(self, topic: str, *, is_coordination: bool) -> Port:
        rewriting = Rewriting(
            self.addresses,
            self.connections,
            topic=topic,
            is_coordination=is_coordination,
        )
        routes = dict.fromkeys((*CAPS, *REFUSED), REWRITE)
        routes |= dict.fromkeys(self.connections.handlers, GROUPS)
        if not is_coordination:
            routes[ApiKey.LIST_GROUPS] = REWRITE
        routes[ApiKey.PRODUCE] = PRODUCE
        for key in _WHOLE:
            routes[key] = WHOLE
        return Port(routes, rewriting)
