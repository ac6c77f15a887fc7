"""A server from start to stop: a broker, its nodes, and the sockets they listen on."""

from __future__ import annotations

import asyncio
import gc
import logging
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from coterie.auth.authorizer import Authorizer
from coterie.errors import LogError
from coterie.log.log import Log
from coterie.log.memory import MemoryLog
from coterie.server.assembly import Assembly
from coterie.server.authority import choose_authorizer, is_loopback
from coterie.server.dispatch import load_handlers
from coterie.server.listener import Listener
from coterie.server.node import Node
from coterie.server.security import Security
from coterie.settings import Settings
from coterie.types import ScramCredential, ScramMechanism, SecurityProtocol

if TYPE_CHECKING:
    from coterie.server.metrics import Endpoint

_LOGGER = logging.getLogger(__name__)

_GC_THRESHOLDS: Final = (50_000, 20, 50)
"""A request makes tuples and messages that die young and form no cycles."""
_DRAIN_S: Final = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerPlan:
    """What to start. `directory` is None for a log in memory. Node 1 listens on `port`;
    further nodes on the ports after it, or on free ones when it is 0. `metrics_port` is
    where Prometheus may ask, on the same host; None for nowhere. `protocol` is how
    clients connect to all nodes."""

    settings: Settings
    host: str
    port: int
    directory: Path | None = None
    advertised_host: str | None = None
    node_count: int = 1
    metrics_port: int | None = None
    protocol: SecurityProtocol = SecurityProtocol.PLAINTEXT


class Server:
    """A running server. `start` and `stop` belong to one event loop."""

    def __init__(self, plan: ServerPlan, authorizer: Authorizer | None = None) -> None:
        self._plan = plan
        self._authorizer = authorizer
        self._listener: Listener | None = None
        self._assembly: Assembly | None = None
        self._endpoint: Endpoint | None = None
        self.metrics_port: int | None = None
        """Where metrics can be asked for."""

    @property
    def assembly(self) -> Assembly:
        """What has been started."""
        assert self._assembly is not None
        return self._assembly

    @property
    def nodes(self) -> list[Node]:
        """The nodes, each with the address it can be reached at."""
        return self.assembly.broker.nodes

    async def start(self, log: Log | None = None) -> None:
        """Open the log, begin to load, and accept connections.

        `log` is used in place of the plan's directory. Raises LogError, SettingError,
        and OSError when an address cannot be had.
        """
        plan = self._plan
        security = Security(
            plan.protocol, plan.settings, self._credential, self._stand_in
        )
        _warn_of_clear_passwords(plan)
        passwords = _read_users(plan.settings)
        assembly = Assembly(
            plan.settings,
            log or _open_log(plan),
            node_count=plan.node_count,
            authorizer=self._authorizer
            or choose_authorizer(plan.settings, [plan.host]),
        )
        self._assembly = assembly
        self._listener = Listener(plan.settings, load_handlers(), security)
        try:
            self._make_users(passwords)
            await self._listen(self._listener)
            await self._measure()
            assembly.start()
        except BaseException:
            self._listener.close()
            assembly.broker.log.close()
            raise

    async def _listen(self, listener: Listener) -> None:
        plan = self._plan
        for at in range(plan.node_count):
            host = _advertised(plan)
            node = Node(at + 1, host, 0, self.assembly.broker, plan.protocol)
            self.nodes.append(node)
            port = plan.port + at if plan.port else 0
            node.port = await listener.listen(node, plan.host, port)

    def _credential(
        self, user: str, mechanism: ScramMechanism
    ) -> ScramCredential | None:
        return self.assembly.broker.catalog.users.find(user, mechanism)

    def _stand_in(self, user: str, mechanism: ScramMechanism) -> ScramCredential | None:
        from coterie.auth.scram import stand_in

        broker = self.assembly.broker
        shape = broker.catalog.users.usual_shape(mechanism)
        return shape and stand_in(mechanism, user, shape, broker.secret)

    def _make_users(self, passwords: Mapping[str, str]) -> None:
        broker = self.assembly.broker
        if passwords:
            from coterie.server.users_file import make_users

            make_users(passwords, broker)
        if self._plan.protocol.has_sasl and not broker.catalog.users.names():
            _LOGGER.warning(
                "there are no users, so nobody can come in: stop, and add one with "
                "coterie users add, or name a file of them with sasl.users.file"
            )

    async def _measure(self) -> None:
        port = self._plan.metrics_port
        if port is None:
            return
        # Only who asks for metrics pays for the library.
        from coterie.server.metrics import Endpoint, GroupMetrics

        broker = self.assembly.broker
        metrics = GroupMetrics(broker.runtime.shards)
        broker.runtime.metrics = metrics.metrics
        broker.flusher.observe = metrics.observe_flush
        self._endpoint = Endpoint(metrics)
        self.metrics_port = await self._endpoint.start(self._plan.host, port)
        _LOGGER.info("metrics on port %d, at /metrics", self.metrics_port)

    async def stop(self) -> None:
        """Accept nothing more, make everything durable, and let go of the log."""
        assert self._listener is not None
        self._listener.close()
        if self._endpoint is not None:
            self._endpoint.close()
        try:
            self.assembly.stop()
        finally:
            self._listener.close_sessions()
            await asyncio.sleep(_DRAIN_S)
            self._listener.security.close()


async def serve(plan: ServerPlan, ready: Callable[[str], None]) -> None:
    """Serve until SIGTERM or SIGINT; `ready` is given the addresses once it accepts.

    Raises LogError and OSError as `Server.start` does.
    """
    over = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, over.set)
    server = Server(plan)
    await server.start()
    gc.set_threshold(*_GC_THRESHOLDS)
    gc.collect()
    gc.freeze()
    ready(",".join(_address(node) for node in server.nodes))
    await over.wait()
    _LOGGER.info("stopping")
    await server.stop()


def _read_users(settings: Settings) -> Mapping[str, str]:
    """Those of the users file, if there is one."""
    if not settings.sasl_users_file:
        return {}
    from coterie.server.users_file import read_users

    return read_users(Path(settings.sasl_users_file))


def _warn_of_clear_passwords(plan: ServerPlan) -> None:
    is_clear = plan.protocol is SecurityProtocol.SASL_PLAINTEXT
    if (
        is_clear
        and "PLAIN" in plan.settings.sasl_enabled_mechanisms
        and not is_loopback(plan.host)
    ):
        _LOGGER.warning(
            "PLAIN is enabled without TLS, and other machines can reach %s: anybody on "
            "the way can read passwords; listen with SASL_SSL, or enable SCRAM alone",
            plan.host or "every address",
        )


def _open_log(plan: ServerPlan) -> Log:
    if plan.directory is None:
        return MemoryLog()
    from coterie.log.sqlite import SqliteLog

    try:
        synchronous = "FULL" if plan.settings.log_flush_sync else "OFF"
        return SqliteLog(plan.directory, synchronous=synchronous)
    except OSError as error:
        raise LogError(f"{plan.directory}: {error}") from error


def _address(node: Node) -> str:
    host = f"[{node.host}]" if ":" in node.host else node.host
    return f"{host}:{node.port}"


def _advertised(plan: ServerPlan) -> str:
    """The host that clients are told: one they can connect to."""
    if plan.advertised_host is not None:
        return plan.advertised_host
    return "127.0.0.1" if plan.host in {"", "0.0.0.0", "::"} else plan.host  # noqa: S104
