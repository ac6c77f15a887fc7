"""A server: a broker, its nodes and their sockets, from start to stop."""

from __future__ import annotations

import asyncio
import gc
import logging
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

from coterie.auth.authorizer import Authorizer
from coterie.broker.log.journal import JournalLog
from coterie.broker.log.log import Log
from coterie.broker.log.memory import MemoryLog
from coterie.broker.runtime.system import Timekeeping
from coterie.broker.server.apis.cluster import api_versions
from coterie.broker.server.assembly import Assembly
from coterie.broker.server.audit import AuditLog
from coterie.broker.server.broker import Node
from coterie.broker.server.call import Handler
from coterie.broker.server.client_connection import ClientConnection
from coterie.broker.server.connections import Connections
from coterie.broker.server.dispatch import HANDLERS
from coterie.broker.server.listener import Listener
from coterie.broker.server.secret_files import open_secrets
from coterie.broker.server.security import Security, choose_authorizer
from coterie.http_endpoint import is_loopback
from coterie.portable_os import STOP_SIGNALS, handle_signals
from coterie.settings import Settings
from coterie.types import ScramCredential, ScramMechanism, SecurityProtocol
from coterie.wire.api import ApiKey
from coterie.wire.releases import Release

if TYPE_CHECKING:
    from coterie.broker.server.monitoring import Monitoring

_LOGGER = logging.getLogger(__name__)

Handlers: TypeAlias = Mapping[int, Handler]
"""The handlers by API key."""

_GC_THRESHOLDS: Final = (50_000, 20, 50)
"""Requests create many short-lived objects without cycles, so the collector runs less
often than by default (700, 10, 10)."""
_DRAIN_S: Final = 0.05
_SWITCH_INTERVAL_S: Final = 0.0005
"""The longest wait of the event loop for a worker thread that runs Python code, such as
the decoder of large batches. Python's default, 5 ms, would delay every client."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerOptions:
    """The parameters of a server.

    `directory` is None for a log in memory. Node 1 listens on `port`, further nodes on
    the ports after it, or all on free ports when it is 0. `metrics_port` serves metrics
    to Prometheus on the same host; None disables them. `protocol` is the security
    protocol of all nodes. `config` is the file of the settings, if any. `ports` has the
    port of each node, for a server that starts again on free ports it had before. With
    `release` the server has the API versions of that Kafka release; the settings of the
    release are not applied. Clients connect to `advertised_host` and, on node 1, to
    `advertised_port`; further nodes have the ports after it. Both are by default where
    the nodes listen.
    """

    settings: Settings
    host: str
    port: int
    directory: Path | None = None
    advertised_host: str | None = None
    advertised_port: int | None = None
    node_count: int = 1
    metrics_port: int | None = None
    protocol: SecurityProtocol = SecurityProtocol.PLAINTEXT
    config: Path | None = None
    ports: tuple[int, ...] = ()
    release: Release | None = None


class Server:
    """A running server. `start` and `stop` are called in the same event loop.

    `wrap_handlers` returns the handlers to use instead of those it is given. All
    requests then pass through them: the paths that respond without a handler are off.
    """

    def __init__(
        self,
        options: ServerOptions,
        authorizer: Authorizer | None = None,
        *,
        timekeeping: Timekeeping | None = None,
        wrap_handlers: Callable[[Handlers], Handlers] | None = None,
    ) -> None:
        self._options = options
        self._authorizer = authorizer
        self._wrap_handlers = wrap_handlers
        self._timekeeping = timekeeping
        self._listener: Listener | None = None
        self._assembly: Assembly | None = None
        self._monitoring: Monitoring | None = None
        self.ports: list[int] = []
        """The port on which each node listens."""
        self.metrics_port: int | None = None
        """The bound metrics port; None without metrics."""

    @property
    def assembly(self) -> Assembly:
        """The broker and its background work, after `start`."""
        assert self._assembly is not None
        return self._assembly

    @property
    def nodes(self) -> list[Node]:
        """The nodes, each with its advertised address."""
        return self.assembly.broker.nodes

    @property
    def addresses(self) -> str:
        """The advertised addresses of all nodes, separated by commas."""
        return ",".join(_address(node) for node in self.nodes)

    async def start(self, log: Log | None = None) -> None:
        """Open the log, start loading, and accept connections.

        `log` is used instead of the plan's directory. Raises LogError, SettingError,
        and OSError when an address is unavailable.
        """
        options = self._options
        security = Security(
            options.protocol, options.settings, self._credential, self._stand_in
        )
        _warn_of_cleartext_passwords(options)
        passwords = _read_users_file(options.settings)
        for each in open_secrets(options.settings, options.config, options.directory):
            _LOGGER.warning("%s", each)
        assembly = Assembly(
            options.settings,
            log or _open_log(options),
            node_count=options.node_count,
            authorizer=self._authorizer
            or choose_authorizer(options.settings, [options.host]),
            timekeeping=self._timekeeping,
        )
        self._assembly = assembly
        handlers = AuditLog().wrap(HANDLERS)
        if options.release is not None:
            versions = partial(api_versions, release=options.release)
            handlers = {**handlers, ApiKey.API_VERSIONS: versions}
        if self._wrap_handlers is not None:
            handlers = self._wrap_handlers(handlers)
        connections = Connections(
            options.settings,
            handlers,
            security,
            has_fast_paths=self._wrap_handlers is None,
            release=options.release,
        )
        self._listener = Listener(connections)
        try:
            self._create_users(passwords)
            await self._listen(self._listener)
            await self._start_metrics(self._listener.connections)
            assembly.start()
        except BaseException:
            self._listener.close()
            assembly.broker.log.close()
            raise

    async def _listen(self, listener: Listener) -> None:
        options = self._options
        loop = asyncio.get_running_loop()
        for index in range(options.node_count):
            host = _advertised(options)
            node = Node(index + 1, host, 0, self.assembly.broker, options.protocol)
            self.nodes.append(node)
            port = options.port + index if options.port else 0
            if options.ports:
                port = options.ports[index]
            accept = partial(ClientConnection, node, listener.connections, loop)
            bound = await listener.listen(accept, options.host, port)
            self.ports.append(bound)
            node.port = (
                options.advertised_port + index if options.advertised_port else bound
            )

    def _credential(
        self, user: str, mechanism: ScramMechanism
    ) -> ScramCredential | None:
        return self.assembly.broker.catalog.users.find(user, mechanism)

    def _stand_in(self, user: str, mechanism: ScramMechanism) -> ScramCredential | None:
        """Return a credential for a user that does not exist.

        A SCRAM exchange then fails as with a wrong password, and does not reveal
        which users exist.
        """
        from coterie.auth.scram import mock_credential

        broker = self.assembly.broker
        shape = broker.catalog.users.most_common_parameters(mechanism)
        return shape and mock_credential(mechanism, user, shape, broker.secret)

    def _create_users(self, passwords: Mapping[str, str]) -> None:
        """Create the users of the users file, durably. Raises LogError."""
        broker = self.assembly.broker
        if passwords:
            from coterie.broker.server.users import changed_users

            entries = list(changed_users(broker.catalog.users, passwords))
            broker.data.stage(entries)
            broker.flusher.flush()
            changed = {entry.name.partition("/")[2] for entry in entries}
            _LOGGER.info(
                "users file: %d of %d users created or changed",
                len(changed),
                len(passwords),
            )
        if self._options.protocol.has_sasl and not broker.catalog.users.names():
            _LOGGER.warning(
                "there are no users, so no client can authenticate: stop the server "
                "and add one with coterie users add, or set sasl.users.file"
            )

    async def _start_metrics(self, connections: Connections) -> None:
        port = self._options.metrics_port
        if port is None:
            return
        # Imported here, as the library delays the start of a server without metrics.
        from coterie.broker.server.monitoring import Monitoring

        self._monitoring = Monitoring(
            self.assembly.broker, connections, self._options.directory
        )
        self.metrics_port = await self._monitoring.start(self._options.host, port)

    async def stop(self) -> None:
        """Stop accepting, make everything durable, and close the log."""
        connections = await self._close_sockets()
        try:
            self.assembly.stop()
        finally:
            connections.close()
            if len(connections):
                await asyncio.sleep(_DRAIN_S)
                connections.abort()  # clients that do not consume their responses
            await asyncio.sleep(0)  # asyncio closes their sockets in the next iteration
            connections.security.close()

    async def abort(self) -> None:
        """Stop as a killed process does: reset every connection, and drop what is not
        durable yet. The log can then be opened again."""
        connections = await self._close_sockets()
        connections.abort()
        self.assembly.abort()
        await asyncio.sleep(0)  # asyncio closes the sockets in the next iteration
        connections.security.close()

    async def _close_sockets(self) -> Connections:
        """Stop listening; return the connections, which stay open."""
        assert self._listener is not None
        await self._listener.stop_accepting()
        self._listener.close()
        if self._monitoring is not None:
            self._monitoring.stop()
        return self._listener.connections


async def serve(options: ServerOptions, ready: Callable[[Server], None]) -> None:
    """Serve until SIGTERM or SIGINT; call `ready` with the server once it accepts.

    Raises LogError and OSError as `Server.start` does.
    """
    stopped = asyncio.Event()
    with handle_signals(STOP_SIGNALS, lambda _: stopped.set()):
        server = Server(options)
        await server.start()
        tune_interpreter()
        ready(server)
        await stopped.wait()
        _LOGGER.info("stopping")
        await server.stop()


def tune_interpreter() -> None:
    """Set the collector and the switching of threads for a process that serves."""
    sys.setswitchinterval(_SWITCH_INTERVAL_S)
    gc.set_threshold(*_GC_THRESHOLDS)
    gc.collect()
    gc.freeze()


def _read_users_file(settings: Settings) -> Mapping[str, str]:
    if not settings.sasl_users_file:
        return {}
    from coterie.broker.server.users import read_users_file

    return read_users_file(Path(settings.sasl_users_file))


def _warn_of_cleartext_passwords(options: ServerOptions) -> None:
    is_clear = options.protocol is SecurityProtocol.SASL_PLAINTEXT
    if (
        is_clear
        and "PLAIN" in options.settings.sasl_enabled_mechanisms
        and not is_loopback(options.host)
    ):
        _LOGGER.warning(
            "PLAIN is enabled without TLS, and other machines can connect to %s: "
            "passwords cross the network in clear text; listen with SASL_SSL, or "
            "enable only SCRAM mechanisms",
            options.host or "every address",
        )


def _open_log(options: ServerOptions) -> Log:
    if options.directory is None:
        return MemoryLog()
    return JournalLog(
        options.directory,
        is_synced=options.settings.log_flush_sync,
        verify=True,
        journal_bytes=options.settings.log_journal_bytes,
    )


def _address(node: Node) -> str:
    host = f"[{node.host}]" if ":" in node.host else node.host
    return f"{host}:{node.port}"


def _advertised(options: ServerOptions) -> str:
    """Return the host that clients connect to."""
    if options.advertised_host is not None:
        return options.advertised_host
    return "127.0.0.1" if options.host in {"", "0.0.0.0", "::"} else options.host  # noqa: S104
