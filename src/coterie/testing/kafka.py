"""A Kafka server for tests, in the process of the tests.

    with Kafka() as kafka:
        consumer = Consumer({"bootstrap.servers": kafka.bootstrap_servers, ...})

It is Coterie's server, which speaks Kafka's protocol on a socket, in a thread of its
own: every client library connects to it as to any broker.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from coterie.broker import Log, MemoryLog, Server, ServerOptions, make_settings
from coterie.loop_thread import LoopThread
from coterie.testing.clock import Clock
from coterie.testing.faults.registry import Faults
from coterie.testing.groups import Groups
from coterie.testing.recorder import Rebalances, Requests
from coterie.testing.topics import TopicMethods
from coterie.testing.traffic import Traffic
from coterie.wire.releases import load_release

T = TypeVar("T")

SETTINGS: Final[Mapping[str, object]] = {
    "group.initial.rebalance.delay.ms": 0,
    "group.share.heartbeat.interval.ms": 500,
    "group.share.min.heartbeat.interval.ms": 500,
}
"""The settings that differ from Kafka's defaults: a classic group does not wait 3 s for
further members before its first rebalance, and the first member of a share group, which
gets its partitions with the second heartbeat, does not wait 5 s for it."""


class Kafka(TopicMethods):
    """A Kafka server; `start` and `close` it, or use it as a context manager.

    `data` is the directory of its log; without one it is kept in memory until `close`.
    `nodes` is the number of Kafka nodes that the server presents. `port` is the first
    node's, 0 for free ports. `settings` are Kafka's, by name. With `act_as`, as in
    "3.9", it has the API versions and defaults of that Kafka release; see
    docs/testing/act-as.md. Any thread may use it.

    Raises SettingError for invalid settings and an unknown release, before anything
    is started.
    """

    def __init__(
        self,
        *,
        data: Path | str | None = None,
        nodes: int = 1,
        port: int = 0,
        act_as: str | None = None,
        settings: Mapping[str, object] | None = None,
    ) -> None:
        release = load_release(act_as) if act_as is not None else None
        defaults = release.settings if release is not None else {}
        self._options = ServerOptions(
            settings=make_settings({**SETTINGS, **defaults, **(settings or {})}),
            host="127.0.0.1",
            port=port,
            directory=Path(data) if data is not None else None,
            node_count=nodes,
            release=release,
        )
        self.clock = Clock()
        """The time of groups, offsets, logs and transactions, which `clock.advance`
        moves. It is kept over `restart`."""
        self._server: Server | None = None
        self._thread: LoopThread | None = None
        self._log: Log | None = None
        self._resumed: threading.Event | None = None
        self._traffic = Traffic()
        self.groups = Groups(self)
        """The groups by id, whether they exist or not."""

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def is_running(self) -> bool:
        """Whether the server is started, and was not closed or killed since."""
        return self._server is not None

    @property
    def faults(self) -> Faults:
        """The faults that tests inject, see docs/testing/faults.md. They stay active
        after `kill` and `restart`, until they are removed or the server is closed."""
        return self._traffic.faults

    @property
    def requests(self) -> Requests:
        """The requests that the server received, the latest 10,000."""
        return self._traffic.requests

    @property
    def rebalances(self) -> Rebalances:
        """The rebalances of groups, with their reasons, the latest 1,000."""
        return self._traffic.rebalances

    def history(self, group: str | None = None) -> str:
        """Return the requests and rebalances of a group, or of all, as a table."""
        return self._traffic.history(group)

    @property
    def server(self) -> Server:
        """The running server. Its objects belong to its thread: see `call`.

        Raises RuntimeError when it is not running.
        """
        if self._server is None:
            raise RuntimeError("this Kafka is not running: call start() or restart()")
        return self._server

    @property
    def bootstrap_servers(self) -> str:
        """The addresses of all nodes, as in "127.0.0.1:40001,127.0.0.1:40002".

        They stay the same after `kill` and `restart`."""
        if not self._options.ports:
            raise RuntimeError("this Kafka has no address before start()")
        return ",".join(f"{self._options.host}:{port}" for port in self._options.ports)

    def start(self) -> None:
        """Start the server.

        Raises LogError, OSError for a port in use, and RuntimeError when it is running.
        """
        if self._server is not None:
            raise RuntimeError("this Kafka is already running")
        thread = LoopThread("coterie-kafka")
        server = Server(
            self._options,
            timekeeping=self.clock.timekeeping(),
            wrap_handlers=self._traffic.wrap,
        )
        try:
            thread.wait(server.start(self._log or self._new_log()))
            thread.wait(self._attach(server))
        except BaseException:
            thread.close()
            raise
        ports = tuple(server.ports)
        self._options = replace(self._options, ports=ports)
        self._thread, self._server = thread, server

    def close(self) -> None:
        """Stop the server cleanly: responses are sent, files are closed, and the thread
        ends. A log in memory is lost. May be called again."""
        if self._server is not None:
            self.resume()
            self._traffic.detach()
            self._end(Server.stop)
        self._log = None

    def kill(self) -> None:
        """Stop as `kill -9` does: reset connections, lose what is not durable yet.

        `restart` starts again with the rest, on the same ports."""
        self.resume()
        log = self.server.assembly.broker.log
        self._end(Server.abort)
        self._log = log.reopen() if isinstance(log, MemoryLog) else None

    def restart(self) -> None:
        """Start again on the same ports, after a clean stop if it is running; what was
        durable is kept, in memory as well."""
        if self._server is not None:
            self.resume()
            log = self.server.assembly.broker.log
            self._end(Server.stop)
            self._log = log.reopen() if isinstance(log, MemoryLog) else None
        self.start()

    def pause(self) -> None:
        """Stop responding, as a process that gets SIGSTOP: sockets stay open and accept
        connections, and nothing is answered until `resume`."""
        if self._resumed is not None:
            return
        paused, self._resumed = threading.Event(), threading.Event()
        resumed = self._resumed

        def block() -> None:
            paused.set()
            resumed.wait()

        async def schedule() -> None:
            # Two iterations from now, after this coroutine's result was passed on.
            loop = asyncio.get_running_loop()
            loop.call_soon(loop.call_soon, block)

        assert self._thread is not None
        self._thread.wait(schedule())
        paused.wait()

    def resume(self) -> None:
        """Respond again after `pause`."""
        if self._resumed is not None:
            self._resumed.set()
            self._resumed = None

    def call(self, function: Callable[[Server], T]) -> T:
        """Call a function with the server in the server's thread; return its result.

        Raises what it raises, and RuntimeError while paused or not running.
        """
        server = self.server
        if self._resumed is not None:
            raise RuntimeError("this Kafka is paused: call resume() first")

        async def run() -> T:
            return function(server)

        assert self._thread is not None
        return self._thread.wait(run())

    def _new_log(self) -> Log | None:
        """Return a log in memory, or None: the server opens the directory."""
        return MemoryLog() if self._options.directory is None else None

    async def _attach(self, server: Server) -> None:
        self._traffic.attach(server.assembly.broker, asyncio.get_running_loop())
        self.clock.attach(server.assembly.broker)

    def _end(self, how: Callable[[Server], Coroutine[Any, Any, None]]) -> None:
        server, thread = self.server, self._thread
        assert thread is not None
        self._server = self._thread = None
        try:
            thread.wait(how(server))
        finally:
            thread.close()
            self.clock.detach()
