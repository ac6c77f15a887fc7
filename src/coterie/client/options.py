"""Options of a client's connections and retries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ssl import SSLContext

    from coterie.client.sasl import Credentials


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientOptions:
    """Options of a client. Times in ms, sizes in bytes."""

    client_id: str = "coterie"
    """The client id in requests: brokers log, meter and describe the client by it."""
    ssl: SSLContext | None = None
    """The TLS context of every connection; `client.tls` creates one."""
    sasl: Credentials | None = None
    """The credentials of every connection; see `client.sasl`."""
    connect_timeout_ms: int = 10_000
    """The limit for connecting, with TLS, ApiVersions and authentication."""
    request_timeout_ms: int = 15_000
    """The limit for one response; after it the connection is closed. A third of the
    default session time-out, so that a lost heartbeat can be sent again before its
    member is fenced."""
    api_timeout_ms: int = 60_000
    """The limit for a call with all its retries."""
    first_contact_ms: int = 60_000
    """The limit for retries while no broker was ever reached. The address is then more
    likely wrong than all brokers are about to restart, and an interactive command
    should report that soon."""
    leader_wait_ms: int = 3_000
    """The limit for retries of a partition whose leader is missing or unreachable. A
    leader election takes less; Kafka moves the partitions of a dead broker after 9 s
    (broker.session.timeout.ms), so use more than that to wait for a fail-over."""
    retry_backoff_ms: int = 100
    """The backoff before the first retry; it doubles with each."""
    retry_backoff_max_ms: int = 1_000
    """The longest backoff."""
    frame_bytes_max: int = 104_857_600
    """The largest response that is accepted."""
    stable_fetch_is_required: bool = False
    """Whether a request for stable offsets fails on a broker that cannot check for open
    transactions (before 2.5), instead of returning its offsets (A-66)."""
