"""The HTTP server of the live page, from its socket to its last response."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import quote

import uvicorn
from starlette.applications import Starlette
from uvicorn.protocols.http.h11_impl import H11Protocol

from coterie import client
from coterie.errors import SettingError
from coterie.http_endpoint import is_loopback
from coterie.ui.app import make_app
from coterie.ui.changes import Changes
from coterie.ui.connections import Connections
from coterie.ui.guard import TOKEN_LENGTH_MIN, Guard
from coterie.ui.live_groups import LiveGroups
from coterie.ui.rebalances import Rebalances

INTERVAL_S: Final = 2.0
_HEADER_BYTES_MAX: Final = 16 * 1024
_STOP_S: Final = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PageOptions:
    """The options of a page.

    Port 0 selects a free port. `token` is needed for an address of other machines and
    for changes; without one, a random one is made. `allowed_hosts` are further names in
    the Host header, as behind a proxy.
    """

    host: str = "127.0.0.1"
    port: int = 8080
    token: str | None = None
    allow_changes: bool = False
    allowed_hosts: tuple[str, ...] = ()
    interval_s: float = INTERVAL_S
    snapshots: Path = Path("snapshots")
    title: str = ""
    """The address of the cluster, as the page shows it."""


class PageServer:
    """A server of the page over one cluster; `serve` runs until `stop`.

    `make_admin` is called in the event loop of `serve`. Raises SettingError for a token
    that is too short, and OSError for an unavailable address.
    """

    def __init__(
        self,
        options: PageOptions,
        make_admin: Callable[[], client.AdminClient],
        rebalances: Rebalances | None = None,
    ) -> None:
        token = options.token
        if token is None and (options.allow_changes or not is_loopback(options.host)):
            token = secrets.token_urlsafe(24)
        if token is not None and len(token) < TOKEN_LENGTH_MIN:
            raise SettingError(
                f"the token has {len(token)} characters: use {TOKEN_LENGTH_MIN} or more"
            )
        self._options = options
        self.host = options.host
        self._make_admin = make_admin
        self._rebalances = rebalances or Rebalances()
        self._socket = _listen(options.host, options.port)
        self.port: int = self._socket.getsockname()[1]
        names = {"localhost", "127.0.0.1", "::1", options.host.lower()}
        names |= {each.lower() for each in options.allowed_hosts}
        any_address = options.host in {"", "0.0.0.0", "::"}  # noqa: S104
        self._guard = Guard(token, self.port, frozenset(names - {""}), any_address)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._server: _Server | None = None
        self._stopping: asyncio.Event | None = None

    @property
    def token(self) -> str | None:
        """The token; None when none is needed."""
        return self._guard.token

    @property
    def address(self) -> str:
        """The URL of the page, with the token if one is needed."""
        host = self._options.host
        if host in {"", "0.0.0.0", "::"}:  # noqa: S104
            host = socket.gethostname()
            with contextlib.suppress(OSError):
                host = socket.gethostbyname(host)
        name = f"[{host}]" if ":" in host else host
        # The page reads the fragment as a query, in which + is a space.
        fragment = "" if self.token is None else f"#token={quote(self.token, safe='')}"
        return f"http://{name}:{self.port}/{fragment}"

    async def serve(self, ready: Callable[[], None]) -> None:
        """Serve until `stop`; call `ready` once the page can be opened."""
        options = self._options
        self._loop, self._stopping = asyncio.get_running_loop(), asyncio.Event()
        async with self._make_admin() as admin:
            groups = LiveGroups(admin, self._rebalances, options.interval_s)
            changes = None
            if options.allow_changes:
                changes = Changes(admin, options.snapshots)
            app = make_app(self._guard, groups, changes, options.title)
            server = self._server = _uvicorn_server(app, self._guard.connections)
            serving = asyncio.create_task(server.serve(sockets=[self._socket]))
            ready()
            stopping = asyncio.create_task(self._stopping.wait())
            await asyncio.wait([serving, stopping], return_when="FIRST_COMPLETED")
            stopping.cancel()
            server.should_exit = True
            await groups.close()
            await serving

    def stop(self) -> None:
        """Make `serve` return; safe in any thread."""
        loop, stopping = self._loop, self._stopping
        if loop is not None and stopping is not None:
            with contextlib.suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(stopping.set)

    @contextlib.contextmanager
    def in_thread(self) -> Iterator[None]:
        """Serve in a thread of its own until the context ends."""
        is_ready = threading.Event()

        def run() -> None:
            try:
                asyncio.run(self.serve(is_ready.set))
            finally:
                is_ready.set()

        thread = threading.Thread(target=run, name="coterie-ui", daemon=True)
        thread.start()
        is_ready.wait()
        try:
            yield
        finally:
            self.stop()
            thread.join(_STOP_S)


def _listen(host: str, port: int) -> socket.socket:
    """Return a listening socket. Raises OSError with the address in its text."""
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family, backlog=128)
    except OSError as error:
        raise OSError(
            error.errno, f"cannot listen on {host}:{port}: {error.strerror}"
        ) from error


class _Server(uvicorn.Server):
    """A server that leaves signals to the command."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def _uvicorn_server(app: Starlette, connections: Connections) -> _Server:
    class BoundedProtocol(H11Protocol):
        """A connection that the page counts."""

        def connection_made(  # type: ignore[override]
            self, transport: asyncio.Transport
        ) -> None:
            super().connection_made(transport)
            connections.open(self.client, transport)

        def connection_lost(self, exc: Exception | None) -> None:
            connections.close(self.client)
            super().connection_lost(exc)

    config = uvicorn.Config(
        app,
        loop="asyncio",
        http=BoundedProtocol,
        ws="none",
        lifespan="off",
        log_config=None,
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        h11_max_incomplete_event_size=_HEADER_BYTES_MAX,
        timeout_graceful_shutdown=2,
    )
    return _Server(config)
