"""The parameters of one gateway node, as `coterie gateway run` reads them."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from coterie.client import ClientOptions
from coterie.settings import Settings
from coterie.types import SecurityProtocol

PARTITIONS_DEFAULT: Final = 50
"""The default number of shards, as of `offsets.topic.num.partitions`."""
SESSION_TIMEOUT_MS: Final = 15_000
"""The default session time-out of a node in the upstream group. When the broker that
coordinates this group is killed, KRaft elects another after 7 to 9 s
(`broker.session.timeout.ms`): leases that last longer keep their shards."""


def topic_of(name: str) -> str:
    """Return the upstream topic of a gateway."""
    return f"__coterie_{name}"


def group_of(name: str) -> str:
    """Return the upstream group whose members are the nodes of a gateway."""
    return f"coterie-{name}"


class AuthorizerKind(StrEnum):
    """The source of the rights on groups."""

    UPSTREAM = "upstream"
    """The ACL bindings of the upstream cluster, read with DescribeAcls."""
    OWN = "own"
    """The settings `authorizer` and `super.users` of the node."""
    NONE = "none"
    """Every operation on a group is allowed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayOptions:
    """The parameters of one node of a gateway. Times in ms.

    Nodes with one `name` and one upstream cluster form one gateway: they share the
    topic `__coterie_NAME` and the upstream group `coterie-NAME`. `bootstrap` is the
    upstream cluster's address, and `client` has the options of the node's own
    connections to it.
    """

    settings: Settings
    """The settings of groups, of connections, and of TLS on the listeners."""
    bootstrap: str
    client: ClientOptions = field(default_factory=ClientOptions)
    name: str = "gateway"
    node: str
    """The name of this node, which must be unique: it is the static member's id."""
    host: str
    """The address to listen on."""
    port: int
    """The port of coordination; upstream broker i has the port `port + 1 + i`."""
    protocol: SecurityProtocol = SecurityProtocol.PLAINTEXT
    """The security protocol of all listeners."""
    advertised_host: str
    advertised_port: int | None = None
    """The port that clients connect to for coordination, as behind a mapped port; that
    of broker i is `advertised_port + 1 + i`. None for the listening ports."""
    partition_count: int = PARTITIONS_DEFAULT
    """The number of shards, when the topic is created."""
    replication_factor: int = -1
    """The replication factor of the topic when it is created; -1 for the default of the
    upstream cluster."""
    session_timeout_ms: int = SESSION_TIMEOUT_MS
    """Time without a heartbeat after which upstream gives the shards to other nodes."""
    is_adopting: bool = False
    """Whether the first request for an unknown group fetches its offsets upstream."""
    mirror_interval_ms: int | None = None
    """Interval at which commits are repeated upstream; None for never."""
    authorizer: AuthorizerKind = AuthorizerKind.UPSTREAM
    metrics_port: int | None = None
    """The port of /metrics, /health, /ready and /status; 0 selects a free port."""

    @property
    def upstream_protocol(self) -> SecurityProtocol:
        """The security protocol of connections to upstream, forwarded ones too."""
        transport = "SSL" if self.client.ssl else "PLAINTEXT"
        return SecurityProtocol[f"SASL_{transport}" if self.client.sasl else transport]

    @property
    def topic(self) -> str:
        """The upstream topic with the records of the shards."""
        return topic_of(self.name)

    @property
    def group_id(self) -> str:
        """The upstream group whose members are the nodes."""
        return group_of(self.name)

    def transactional_id(self, shard: int) -> str:
        """Return the transactional id whose producer epoch fences a shard's owners."""
        return f"{self.transactional_id_prefix}{shard}"

    @property
    def transactional_id_prefix(self) -> str:
        """The prefix of the transactional ids of all shards."""
        return f"coterie-{self.name}-"
