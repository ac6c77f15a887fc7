"""One Kafka node: an id and an address that clients see, and the broker behind it.

All nodes of a process share one broker. What differs is what each leads: partition p of
any topic is led by the node at place p modulo the number of nodes, and the leader of a
partition of `__consumer_offsets` coordinates the groups in it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from coterie.types import SecurityProtocol

if TYPE_CHECKING:
    from coterie.server.broker import Broker


@dataclass(slots=True, eq=False)
class Node:
    """One node. `host` and `port` are what clients are told to connect to."""

    node_id: int
    host: str
    port: int
    broker: Broker
    protocol: SecurityProtocol = SecurityProtocol.PLAINTEXT

    @property
    def rack(self) -> str | None:
        """The node's rack, if the settings name one."""
        racks = self.broker.settings.broker_rack
        return racks[self.node_id - 1] if self.node_id <= len(racks) else None
