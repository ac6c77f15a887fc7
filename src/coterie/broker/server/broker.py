"""A broker, which the nodes of one process share, and its nodes.

Each node has its own id and address. Partition p of any topic is led by the node at
position p modulo the number of nodes; the leader of a partition of `__consumer_offsets`
coordinates the groups in it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from coterie.auth.acl import Operation, ResourceType
from coterie.auth.authorizer import AclAuthorizer, Authorizer
from coterie.broker.catalog.catalog import Catalog
from coterie.broker.log.log import Log
from coterie.broker.runtime.data import DataPlane
from coterie.broker.runtime.fetch_sessions import FetchSessions
from coterie.broker.runtime.flusher import Flusher
from coterie.broker.runtime.quotas import Quotas
from coterie.broker.runtime.runtime import Runtime
from coterie.broker.runtime.shards import Phase, partition_for
from coterie.broker.runtime.share_partitions import SharePartitions
from coterie.broker.runtime.share_sessions import ShareSessions
from coterie.broker.runtime.share_state import ShareStates
from coterie.broker.runtime.transactions import TransactionPlane
from coterie.settings import Settings
from coterie.types import GroupId, SecurityProtocol
from coterie.wire.error_codes import ErrorCode

TRANSACTION_PARTITIONS: Final = 50
"""Kafka's default of `transaction.state.log.num.partitions`. It decides which node
coordinates a transactional id."""


Admit: TypeAlias = Callable[[int, GroupId, Callable[[ErrorCode], None]], None]
"""A function that calls its last argument, now or later, with NONE when requests for a
group of a shard may be handled, or with the error to respond with."""


@dataclass(slots=True, eq=False)
class Node:
    """A node of this process. `host` and `port` are its advertised address."""

    node_id: int
    host: str
    port: int
    broker: Broker
    protocol: SecurityProtocol = SecurityProtocol.PLAINTEXT

    @property
    def rack(self) -> str | None:
        """The node's rack, if `broker.rack` is set."""
        racks = self.broker.settings.broker_rack
        return racks[self.node_id - 1] if self.node_id <= len(racks) else None


class Counts:
    """The counters of a broker's requests, connections and refusals since the start.

    Requests have an entry for each API and version that was decoded, so their number is
    bounded. The other keys are words of the code, never a client's.
    """

    __slots__ = (
        "authentication_failures",
        "authorization_refusals",
        "connections_closed",
        "heartbeats",
        "requests",
    )

    def __init__(self) -> None:
        self.requests: dict[tuple[int, int], int] = defaultdict(int)
        """The number of requests by API key and version, except for `heartbeats`."""
        self.heartbeats: dict[bytes, int] = defaultdict(int)
        """The number of heartbeats with a stored response, by the bytes of their API
        key and version."""
        self.authorization_refusals: Counter[tuple[ResourceType, Operation]] = Counter()
        self.authentication_failures: Counter[str] = Counter()
        self.connections_closed: Counter[str] = Counter()
        """The number of connections that the server closed, by the kind of error."""


@dataclass(slots=True, kw_only=True, eq=False)
class Broker:
    """The parts that all nodes of a process share.

    `clock` returns ms since the epoch and never steps back; it is for connections, and
    the clocks of groups, logs and transactions are `data`'s. `acls` is the authorizer
    when it decides by ACL bindings. `secret` is random, and stored in the log.
    """

    settings: Settings
    log: Log
    flusher: Flusher
    catalog: Catalog
    data: DataPlane
    runtime: Runtime
    transactions: TransactionPlane
    authorizer: Authorizer
    acls: AclAuthorizer | None
    fetch_sessions: FetchSessions
    share_states: ShareStates
    share_partitions: SharePartitions
    share_sessions: ShareSessions
    quotas: Quotas
    clock: Callable[[], int]
    cluster_id: str
    secret: bytes = field(repr=False)
    nodes: list[Node] = field(default_factory=list)
    counts: Counts = field(default_factory=Counts)
    moved_shards: dict[int, Node] = field(default_factory=dict)
    """The nodes that coordinate a shard instead of its leader; tests fill it."""
    moved_transactions: dict[int, Node] = field(default_factory=dict)
    """The same for partitions of the transaction log."""
    admit: Admit | None = None
    """The function that every request for a group has to pass; None for none."""

    def shard_of(self, group_id: GroupId) -> int:
        """Return the partition of `__consumer_offsets` that holds a group."""
        return self.runtime.shard_of(group_id)

    def shard_node(self, shard: int) -> Node | None:
        """Return the node that coordinates the groups of a shard; None when another
        process does."""
        moved = self.moved_shards
        if moved and shard in moved:
            return moved[shard]
        shards = self.runtime.shards
        if shards and shards[shard].phase is Phase.UNASSIGNED:
            return None
        return self.nodes[shard % len(self.nodes)]

    def transaction_coordinator(self, transactional_id: str) -> Node:
        """Return the node that coordinates a transactional id."""
        partition = partition_for(transactional_id, TRANSACTION_PARTITIONS)
        moved = self.moved_transactions
        if moved and partition in moved:
            return moved[partition]
        return self.nodes[partition % len(self.nodes)]
