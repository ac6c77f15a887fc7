"""The time limits of a client's connection: progress, authentication and the end."""

from __future__ import annotations

from typing import Final

from coterie.broker.server.connections import Connections
from coterie.broker.server.request_memory import (
    EXHAUSTED_TIMEOUT_S,
    PROGRESS_INTERVAL_S,
    Progress,
)
from coterie.gateway.path.sasl import SaslExchange

CLOSE_S: Final = 30.0
"""Time in which the peer of a closed connection has to consume what was written, and
upstream has to respond to a client that sends nothing more."""


class TimeLimits:
    """The limits of one connection; call `check` every `PROGRESS_INTERVAL_S`."""

    def __init__(self, connections: Connections, exchange: SaslExchange | None) -> None:
        settings = connections.settings
        self._progress_limit_s = settings.connection_request_timeout_ms / 1_000
        self._authentication_limit_s = connections.security.timeout_s
        self._exchange = exchange
        self._progress = Progress()
        self._upstream_progress = Progress()
        self._unauthenticated_s = 0.0
        self._ending_s = 0.0

    def check(
        self,
        *,
        incomplete_bytes: int,
        unsent_bytes: int,
        unconsumed_bytes: int,
        is_paused: bool,
        is_ending: bool,
        must_free: bool,
    ) -> tuple[str, str] | None:
        """Return which limit has passed, as a fixed word and the reason; both are empty
        for a connection that was closed already, and got no response in time.

        `incomplete_bytes` are those of a request that is not complete, `unsent_bytes`
        and `unconsumed_bytes` what the client and upstream have not consumed.
        `is_paused` tells that the client is not read, `is_ending` that only responses
        are expected, and `must_free` that memory is exhausted.
        """
        self._progress.check(incomplete_bytes, unsent_bytes, is_paused=is_paused)
        self._upstream_progress.check(0, unconsumed_bytes, is_paused=False)
        # The client may have closed: then nothing else ends the connection to a hung
        # broker.
        self._ending_s = self._ending_s + PROGRESS_INTERVAL_S if is_ending else 0.0
        limit_s = self._progress_limit_s
        if must_free:
            limit_s = min(limit_s, EXHAUSTED_TIMEOUT_S)
        if self._progress.stalled_s >= limit_s:
            return "no progress", "no progress"
        if self._upstream_progress.stalled_s >= limit_s:
            return "no progress", "the upstream broker consumes no requests"
        if self._ending_s > CLOSE_S:
            return "", ""
        if self._is_authentication_late():
            return "authentication timeout", "authentication timeout"
        return None

    def _is_authentication_late(self) -> bool:
        """Return whether the client has not authenticated for the first time."""
        exchange = self._exchange
        if exchange is None or exchange.has_succeeded:
            return False
        self._unauthenticated_s += PROGRESS_INTERVAL_S
        return self._unauthenticated_s > self._authentication_limit_s
