"""What a client may be told about how it talks to brokers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ssl import SSLContext

    from coterie.client.sasl import Credentials


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientOptions:
    """How a client talks to brokers. Times in ms, sizes in bytes."""

    client_id: str = "coterie"
    """The name under which brokers log, meter and describe this client."""
    ssl: SSLContext | None = None
    """With it, every connection is encrypted; `client.tls` makes one."""
    sasl: Credentials | None = None
    """With them, every connection says who it is; `client.sasl` has the kinds."""
    connect_timeout_ms: int = 10_000
    """How long a connection may take to be made, ApiVersions included."""
    request_timeout_ms: int = 15_000
    """How long one request may wait for its answer; a connection on which one waits
    longer is closed. A third of the usual session time-out, so that a heartbeat which
    was lost can be sent anew before its member is fenced."""
    api_timeout_ms: int = 60_000
    """How long a call that tries again may take in all."""
    first_contact_ms: int = 60_000
    """For how long of that a cluster is tried of which no broker was ever reached. Its
    address is more likely wrong than all its brokers are about to come back, so that
    somebody who waits at a terminal is better told soon."""
    leader_wait_ms: int = 3_000
    """For how long of that a partition is asked for again that has no leader, or one
    that cannot be reached. Leaders that move are back sooner; Kafka gives the
    partitions of a broker that died to others after 9 s (broker.session.timeout.ms),
    and whoever wants them all waits longer than that."""
    retry_backoff_ms: int = 100
    """The wait before a second try; it doubles with each."""
    retry_backoff_max_ms: int = 1_000
    """What that wait grows to."""
    frame_bytes_max: int = 104_857_600
    """The largest answer that is read."""
    stable_fetch_is_required: bool = False
    """Whether an admin that wants stable offsets is refused by a broker that cannot
    wait for them (before 2.5), rather than told what is there (A-66)."""
