"""The nodes of a gateway that are alive, and the owner of each shard, as one node knows
them."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Final, NamedTuple

from coterie.wire.schema import Struct, array, int32, int64, string

FIRST_NODE_ID: Final = 1_000_000_000
"""The smallest node id of a gateway node in responses to clients: far above the ids of
brokers, and positive, as Kafka's clients compute 2,147,483,647 - id."""
_NODE_IDS: Final = 1_000_000_000
FORMER_MS: Final = 1_800_000
"""How long the id of a node that has left is still listed in Metadata: for longer than
librdkafka keeps a coordinator that is not used, by default 15 minutes
(`metadata.max.age.ms`)."""


class NodeInfo(Struct):
    """The name of a node and the addresses that it advertises to clients."""

    name: str = string()
    host: str = string()
    port: int = int32()
    """The port of coordination."""
    broker_port: int = int32()
    """The port of the first upstream broker; that of the next one is one higher."""
    version: str = string()
    """The version of the node's software."""
    status_port: int = int32()
    """The port of /status and /ready on `host`; 0 without one."""
    brokers: list[int] = array("int32")
    """The ids of upstream's brokers that the node knew when it started."""

    @property
    def node_id(self) -> int:
        """The node id in responses to clients.

        It depends on the name alone: clients keep connections by node id, so an id must
        not move to another address when a node joins or leaves.
        """
        return node_id_of(self.name)


def node_id_of(name: str) -> int:
    """Return the node id of the node with this name."""
    return FIRST_NODE_ID + zlib.crc32(name.encode()) % _NODE_IDS


class FormerNode(Struct):
    """A node that has left, and for how long it had at the assignment."""

    name: str = string()
    age_ms: int = int64()


class View(NamedTuple):
    """The live nodes in the order of their names, and the owners of the shards."""

    nodes: tuple[NodeInfo, ...]
    owners: tuple[int, ...]
    """The position in `nodes` of the owner, by shard; -1 for none."""
    generation: int
    former: tuple[FormerNode, ...] = ()
    """The nodes that have left, for `FORMER_MS` each."""

    def owner(self, shard: int) -> NodeInfo | None:
        """Return the node that owns a shard; None while it has no owner."""
        at = self.owners[shard] if shard < len(self.owners) else -1
        return self.nodes[at] if at >= 0 else None

    def shards_of(self, name: str) -> list[int]:
        """Return the shards of the node with this name, in order."""
        return [
            shard
            for shard, owner in enumerate(self.owners)
            if owner >= 0 and self.nodes[owner].name == name
        ]


NO_VIEW: Final = View((), (), -1)
"""The view of a node that has not joined yet."""


class FormerNodes:
    """The nodes that have left, as one node knows them. `clock_ms` is steady."""

    def __init__(self, clock_ms: Callable[[], int]) -> None:
        self._clock_ms = clock_ms
        self._left_ms: dict[str, int] = {}

    def of_next(self, before: View, after: View) -> tuple[FormerNode, ...]:
        """Return the former nodes at the time of a view `after`: those of both views,
        and the nodes of `before` that it lacks."""
        now_ms = self._clock_ms()
        left_ms = self._left_ms
        for node in before.nodes:
            left_ms.setdefault(node.name, now_ms)
        for each in after.former:
            left_ms[each.name] = min(
                left_ms.get(each.name, now_ms), now_ms - each.age_ms
            )
        for node in after.nodes:
            left_ms.pop(node.name, None)
        self._left_ms = {
            name: each_ms
            for name, each_ms in sorted(left_ms.items())
            if now_ms - each_ms < FORMER_MS
        }
        return tuple(
            FormerNode(name=name, age_ms=now_ms - each_ms)
            for name, each_ms in self._left_ms.items()
        )
