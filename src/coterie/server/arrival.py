"""A client that has connected and is not secured yet: TLS before its session begins.

The event loop could do this by itself, but then nobody would count who connects and
never shakes hands, and nobody would be told why a handshake failed.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from coterie.server.session import Session, Sessions

_LOGGER = logging.getLogger(__name__)


class Arrival(asyncio.Protocol):
    """Shakes hands, then hands the connection over to its session."""

    def __init__(
        self, session: Session, sessions: Sessions, loop: asyncio.AbstractEventLoop
    ) -> None:
        self._session = session
        self._sessions = sessions
        self._loop = loop
        self._task: asyncio.Task[None] | None = None
        self._early = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Somebody has connected."""
        transport = cast("asyncio.Transport", transport)
        if self._sessions.opened(self._session):
            self._task = self._loop.create_task(self._secure(transport))
        else:
            transport.abort()

    def data_received(self, data: bytes) -> None:
        """Keep what came in one piece with the end of the handshake."""
        self._early += data

    async def _secure(self, transport: asyncio.Transport) -> None:
        security = self._sessions.security
        assert security.tls is not None
        try:
            secured = await self._loop.start_tls(
                transport,
                self,
                security.tls,
                server_side=True,
                ssl_handshake_timeout=security.patience_s,
            )
            if secured is None or secured.get_extra_info("cipher") is None:
                raise ConnectionResetError("hung up")
        except OSError as error:
            self._sessions.closed(self._session)
            _LOGGER.info(
                "connection from %s closed: its TLS handshake failed: %s",
                _host(transport),
                _reason(error),
            )
            return
        secured.set_protocol(self._session)
        self._session.connection_made(secured)
        if self._early:
            self._session.data_received(self._early)


def _host(transport: asyncio.Transport) -> str:
    peer = transport.get_extra_info("peername")
    return f"/{peer[0]}" if peer else "/unknown"


def _reason(error: OSError) -> str:
    """The library's word for it, as in TLSV1_ALERT_UNKNOWN_CA, if it has one."""
    if isinstance(error, ssl.SSLError) and error.reason:
        return error.reason
    return str(error) or type(error).__name__
