"""The nodes of a gateway that are alive, and the owner of each shard, as one node knows
them."""

from __future__ import annotations

import zlib
from typing import Final, NamedTuple

FIRST_NODE_ID: Final = 1_000_000_000
"""The smallest node id of a gateway node in responses to clients: far above the ids of
brokers, and positive, as Kafka's clients compute 2,147,483,647 - id."""
_NODE_IDS: Final = 1_000_000_000


class NodeInfo(NamedTuple):
    """The name of a node and the addresses that it advertises to clients."""

    name: str
    host: str
    port: int
    """The port of coordination."""
    broker_port: int
    """The port of the first upstream broker; that of the next one is one higher."""
    version: str = ""
    """The version of the node's software."""
    status_port: int = 0
    """The port of /status and /ready on `host`; 0 without one."""
    brokers: tuple[int, ...] = ()
    """The ids of upstream's brokers that the node knew when it started."""

    @property
    def node_id(self) -> int:
        """The node id in responses to clients.

        It depends on the name alone: clients keep connections by node id, so an id must
        not move to another address when a node joins or leaves.
        """
        return FIRST_NODE_ID + zlib.crc32(self.name.encode()) % _NODE_IDS


class View(NamedTuple):
    """The live nodes in the order of their names, and the owners of the shards."""

    nodes: tuple[NodeInfo, ...]
    owners: tuple[int, ...]
    """The position in `nodes` of the owner, by shard; -1 for none."""
    generation: int

    def owner(self, shard: int) -> NodeInfo | None:
        """Return the node that owns a shard; None while it has no owner."""
        at = self.owners[shard] if shard < len(self.owners) else -1
        return self.nodes[at] if at >= 0 else None


NO_VIEW: Final = View((), (), -1)
"""The view of a node that has not joined yet."""
