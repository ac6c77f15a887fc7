"""The addresses of upstream brokers, and those that the gateway advertises for them.

Upstream brokers have consecutive ports in the order of their ids, on every gateway node
the same. A client is directed to one gateway node for each broker, so that connections
are spread over the nodes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from coterie.client.connection import Address
from coterie.gateway.view import FORMER_MS, NodeInfo, View, node_id_of


class UpstreamBroker(NamedTuple):
    """An upstream broker with its own address."""

    broker_id: int
    host: str
    port: int


class Addresses:
    """The upstream brokers by id, and the view of the gateway's nodes.

    A broker that was known once keeps its place, because upstream's Metadata lists only
    brokers that are alive, and the ports of the others must not move. All nodes must
    order the same ids: those of replicas count even while their broker is down, and
    those that another node knew when it joined. `on_new` is called after a broker was
    added. `seconds` is a steady clock.
    """

    def __init__(
        self,
        view: Callable[[], View],
        own: NodeInfo,
        seconds: Callable[[], float] = time.monotonic,
    ) -> None:
        self._view = view
        self._own = own
        self._seconds = seconds
        self._brokers: dict[int, Address] = {}
        self._positions: dict[int, int] = {}
        self._counted: View | None = None
        """The view whose brokers are in `_positions`."""
        self._former_until_s: dict[int, float] = {}
        self._advertised: dict[int, Address] = {}
        self._moved_s: dict[int, float] = {}
        """When another address than before was advertised, by broker."""
        self._turn = 0
        self.on_new: Callable[[], None] | None = None

    @property
    def nodes(self) -> tuple[NodeInfo, ...]:
        """The live nodes of the gateway; this one alone before it has joined."""
        return self._current().nodes or (self._own,)

    @property
    def former_ids(self) -> list[int]:
        """The node ids of nodes of the gateway that have left not long ago."""
        self._current()
        now_s = self._seconds()
        until_s = self._former_until_s
        return [each for each, end_s in until_s.items() if now_s < end_s]

    @property
    def brokers(self) -> Mapping[int, Address]:
        """The addresses of the upstream brokers whose address is known."""
        return self._brokers

    @property
    def ids(self) -> tuple[int, ...]:
        """The ids of all known brokers in their order."""
        self._current()
        return tuple(self._positions)

    def learn(self, brokers: Iterable[UpstreamBroker]) -> None:
        """Add brokers, and replace the addresses of known ones."""
        ids = []
        for broker_id, host, port in brokers:
            self._brokers[broker_id] = Address(host, port)
            ids.append(broker_id)
        self.learn_ids(ids)

    def learn_ids(self, broker_ids: Iterable[int]) -> None:
        """Add brokers whose addresses are not known, as those of replicas."""
        new = {each for each in broker_ids if each not in self._positions}
        if new:
            ids = sorted(new.union(self._positions))
            self._positions = {each: at for at, each in enumerate(ids)}
            if self.on_new is not None:
                self.on_new()

    def advertised(self, broker_id: int) -> Address:
        """Return the address at which clients reach a known broker."""
        nodes, at = self.nodes, self._positions[broker_id]
        node = nodes[at % len(nodes)]
        address = Address(node.host, node.broker_port + at)
        before = self._advertised.get(broker_id)
        if address != before:
            self._advertised[broker_id] = address
            if before is not None:
                self._moved_s[broker_id] = self._seconds()
        return address

    def has_moved(self, broker_id: int, within_s: float) -> bool:
        """Return whether another address of a broker was advertised in the last
        `within_s` seconds."""
        moved_s = self._moved_s.get(broker_id)
        return moved_s is not None and self._seconds() - moved_s <= within_s

    def candidates(self, broker_id: int | None) -> list[Address]:
        """Return the upstream addresses to connect to for a broker's port, or for
        coordination, where None stands for any broker.

        Connections for coordination start with different brokers in turn.
        """
        if broker_id is not None:
            address = self._brokers.get(broker_id)
            return [] if address is None else [address]
        addresses = list(self._brokers.values())
        self._turn += 1
        start = self._turn % max(len(addresses), 1)
        return addresses[start:] + addresses[:start]

    def _current(self) -> View:
        """Return the view, after its brokers were added."""
        view = self._view()
        if view is not self._counted:
            self._counted = view
            self.learn_ids(each for node in view.nodes for each in node.brokers)
            now_s = self._seconds()
            self._former_until_s = {
                node_id_of(each.name): now_s + (FORMER_MS - each.age_ms) / 1000
                for each in view.former
            }
        return view
