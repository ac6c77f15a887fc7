"""The broker: everything that the nodes of one process share, put together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from coterie.auth.acl_authorizer import AclAuthorizer
from coterie.auth.authorizer import Authorizer
from coterie.catalog.catalog import Catalog
from coterie.log.log import Log
from coterie.runtime.data import DataPlane
from coterie.runtime.fetch_sessions import FetchSessions
from coterie.runtime.flusher import Flusher
from coterie.runtime.router import partition_for
from coterie.runtime.runtime import Runtime
from coterie.runtime.transactions import TransactionPlane
from coterie.server.node import Node
from coterie.settings import Settings
from coterie.types import GroupId

TRANSACTION_PARTITIONS = 50
"""Kafka's default of `transaction.state.log.num.partitions`: it decides which node
coordinates a transactional id."""


@dataclass(slots=True, kw_only=True, eq=False)
class Broker:
    """The parts of a server. `clock` gives ms since the epoch and never steps back;
    `acls` is the authorizer, if it is one that decides by bindings; `secret` is known
    to the store and nobody else."""

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
    clock: Callable[[], int]
    cluster_id: str
    secret: bytes = field(repr=False)
    nodes: list[Node] = field(default_factory=list)

    def shard_of(self, group_id: GroupId) -> int:
        """The partition of `__consumer_offsets` that holds a group (B-16)."""
        return self.runtime.shard_of(group_id)

    def shard_node(self, shard: int) -> Node:
        """The node that coordinates the groups of a shard."""
        return self.nodes[shard % len(self.nodes)]

    def transaction_coordinator(self, transactional_id: str) -> Node:
        """The node that coordinates a transactional id."""
        partition = partition_for(transactional_id, TRANSACTION_PARTITIONS)
        return self.nodes[partition % len(self.nodes)]
