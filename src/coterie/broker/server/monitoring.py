"""The HTTP port of a server: /metrics for Prometheus, /health and /ready.

Rules of this file: it is imported only by servers with such a port, as the library of
the metrics delays the start of the others.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeAlias

from prometheus_client import CollectorRegistry

from coterie.broker.server.broker import Broker
from coterie.broker.server.connections import Connections
from coterie.broker.server.health import Health
from coterie.broker.server.metrics import GroupMetrics
from coterie.broker.server.server_metrics import Exposition, ServerMetrics
from coterie.http_endpoint import Endpoint, Headers, Reply, Route, json_reply

_LOGGER = logging.getLogger(__name__)

Report: TypeAlias = Callable[[], tuple[bool, Mapping[str, Any]]]
"""A function that returns whether all is well, and the details."""


class Monitoring:
    """The metrics and the health of a server, and the port that serves them.

    `directory` is the data directory, None without one. `readiness` replaces that of
    `Health`. It has to be created inside a running loop.
    """

    def __init__(
        self,
        broker: Broker,
        connections: Connections,
        directory: Path | None,
        *,
        readiness: Report | None = None,
    ) -> None:
        metrics = GroupMetrics(broker.runtime.shards)
        broker.runtime.metrics = metrics.metrics
        broker.flusher.observe = metrics.observe_flush
        self.registry: CollectorRegistry = metrics.registry
        """The registry, for further collectors."""
        server = ServerMetrics(self.registry, broker, connections, directory)
        loop = asyncio.get_running_loop()
        self.health = Health(broker, loop, server.observe_delay, version("coterie"))
        server.monitor = self.health.monitor
        self._metrics = Exposition(self.registry, server.measure_disk).reply
        self._readiness = readiness or self.health.readiness
        self._endpoint: Endpoint | None = None

    async def start(
        self, host: str, port: int, routes: Mapping[bytes, Report] | None = None
    ) -> int:
        """Listen, also on further paths; return the port. Raises OSError when the
        address is unavailable."""
        reports = {
            b"/health": self.health.liveness,
            b"/ready": self._readiness,
            **(routes or {}),
        }
        self._endpoint = Endpoint(
            {
                b"/metrics": self._metrics,
                b"/": self._metrics,
                **{path: _route(report) for path, report in reports.items()},
            }
        )
        bound = await self._endpoint.start(host, port)
        self.health.monitor.start()
        paths = b", ".join(reports).decode()
        _LOGGER.info("metrics on port %d, at /metrics; %s", bound, paths)
        return bound

    def stop(self) -> None:
        """Stop measuring and listening; the server is not ready from now on."""
        self.health.stop()
        if self._endpoint is not None:
            self._endpoint.close()


def _route(report: Report) -> Route:
    async def reply(_: Headers) -> Reply:
        is_ok, content = report()
        return json_reply(content, is_ok=is_ok)

    return reply
