"""`coterie gateway run` as separate processes, which tests may kill and pause.

    with GatewayNodes(cluster.bootstrap, "gw") as gateway:
        gateway.nodes[0].kill()
        gateway.restart(0)

A node keeps its name and its ports over restarts, as a deployed one does.
"""

from __future__ import annotations

import json
import signal
from collections.abc import Sequence
from http.client import HTTPConnection
from typing import Any, ClassVar, Final, Self

from tests.support.ports import free_ports
from tests.support.server_process import ServerProcess
from tests.support.waiting import eventually

SESSION_MS: Final = 6_000
READY_S: Final = 120.0
_HTTP_S: Final = 5.0


class GatewayProcess(ServerProcess):
    """One node. `metrics_port` is that of /ready and /status."""

    COMMAND: ClassVar[tuple[str, ...]] = ("gateway", "run")
    READY: ClassVar[str] = "coterie gateway ready on "

    def __init__(self, *arguments: str, listen: str, metrics_port: int) -> None:
        self.metrics_port = metrics_port
        super().__init__(*arguments, "--metrics-port", str(metrics_port), listen=listen)

    def pause(self) -> None:
        """Stop the process with SIGSTOP."""
        self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Continue a paused process."""
        self.process.send_signal(signal.SIGCONT)

    def get(self, path: str) -> tuple[int, Any]:
        """Return the status and the JSON of a path; (0, None) without an answer."""
        connection = HTTPConnection("127.0.0.1", self.metrics_port, timeout=_HTTP_S)
        try:
            connection.request("GET", path)
            reply = connection.getresponse()
            return reply.status, json.loads(reply.read())
        except OSError:
            return 0, None
        finally:
            connection.close()

    @property
    def is_ready(self) -> bool:
        """Whether /ready answers with 200."""
        return self.get("/ready")[0] == 200


class GatewayNodes:
    """The nodes of one gateway. `arguments` are further ones of each."""

    def __init__(
        self,
        upstream: str,
        name: str,
        arguments: Sequence[str] = (),
        *,
        nodes: int = 3,
        brokers: int = 3,
    ) -> None:
        self.upstream = upstream
        self.name = name
        self._arguments = (
            "--session-timeout",
            str(SESSION_MS),
            "--partitions",
            "12",
            *arguments,
        )
        self._ports = [free_ports(brokers + 1)[0] for _ in range(nodes)]
        self._metrics = free_ports(nodes)
        self.nodes: list[GatewayProcess] = []
        try:
            for index in range(nodes):
                self.nodes.append(self._start(index))
            self.wait_until_ready()
        except BaseException:
            self.kill()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is not None:
            self.kill()
        for node in self.nodes:
            if node.return_code is None:
                node.stop()

    @property
    def bootstrap(self) -> str:
        """The coordination addresses of all nodes."""
        return ",".join(node.bootstrap for node in self.nodes)

    def restart(self, index: int) -> None:
        """Start a node that has ended with its name and ports."""
        self.nodes[index] = self._start(index)

    def wait_until_ready(self) -> None:
        """Wait until every running node is ready. Raises AssertionError."""
        eventually(
            lambda: all(
                node.is_ready for node in self.nodes if node.return_code is None
            ),
            within_s=READY_S,
            expected="every node of the gateway is ready",
        )

    def kill(self) -> None:
        """Kill every node with SIGKILL; paused ones too."""
        for node in self.nodes:
            if node.return_code is None:
                node.kill()

    def _start(self, index: int) -> GatewayProcess:
        node = f"node-{index}"
        words = ["--upstream", self.upstream, "--name", self.name, "--node", node]
        return GatewayProcess(
            *words,
            *self._arguments,
            listen=f"127.0.0.1:{self._ports[index]}",
            metrics_port=self._metrics[index],
        )
