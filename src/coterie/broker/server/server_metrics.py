"""The server's own metrics: event loop, requests, connections, refusals and the disk.

The coordinator's metrics, with Kafka's names, are in metrics.py. Request counters have
an entry for each API and version; every other label is a fixed word, so that clients
cannot create time series.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import struct
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from prometheus_client import CollectorRegistry, Histogram, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector

from coterie.broker.server.broker import Broker
from coterie.broker.server.connections import Connections
from coterie.broker.server.health import LoopMonitor
from coterie.http_endpoint import Headers, Reply
from coterie.wire.api import ApiKey

_DELAY_BUCKETS: Final = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
_SHARE: Final = 10
"""Rendering takes at most one of this many parts of the event loop's time."""
_PAUSE_MAX_S: Final = 5.0


class ServerMetrics(Collector):
    """The metrics of a server besides its groups.

    `directory` is the data directory; None for a log in memory.
    """

    def __init__(
        self,
        registry: CollectorRegistry,
        broker: Broker,
        connections: Connections,
        directory: Path | None,
    ) -> None:
        self._broker = broker
        self._connections = connections
        self._directory = directory
        self._disk: tuple[int, int] | None = None
        """The size of the directory's files, and the free bytes of its disk."""
        self.observe_delay = Histogram(
            "coterie_event_loop_delay_seconds",
            "Delay of a callback that is due every 0.1 s.",
            buckets=_DELAY_BUCKETS,
            registry=registry,
        ).observe
        """A callback with a delay of the event loop in seconds."""
        self.monitor: LoopMonitor | None = None
        ProcessCollector(registry=registry)
        registry.register(self)

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics with their current values."""
        broker, counts = self._broker, self._broker.counts
        if self.monitor is not None:
            yield _counter("event_loop_long_turns", self.monitor.long_turns)
        yield _requests(counts.requests, counts.heartbeats)
        yield _by_words(
            "authorization_refused",
            ("resource", "operation"),
            {
                (resource.name, operation.name): count
                for (resource, operation), count in (
                    counts.authorization_refusals.items()
                )
            },
        )
        failures = counts.authentication_failures
        yield _by_words("authentication_failures", ("reason",), _words(failures))
        delayed = self._connections.security.delayed_checks
        yield _counter("authentications_delayed", delayed)
        closed = counts.connections_closed
        yield _by_words("connections_closed", ("reason",), _words(closed))
        yield _counter("connections_refused", self._connections.limits.refused_count)
        open_connections = self._connections
        yield _gauge("connections", len(open_connections))
        yield _gauge("connection_bytes", open_connections.memory.used_bytes)
        yield _gauge("connections_paused", open_connections.memory.paused_count)
        yield _counter("exhausted_turns", open_connections.turns.exhausted_count)
        throttled = broker.quotas.throttled
        yield _by_words(
            "throttled",
            ("quota",),
            {(key.value,): each.count for key, each in throttled.items()},
        )
        yield _by_words(
            "throttle_ms",
            ("quota",),
            {(key.value,): each.total_ms for key, each in throttled.items()},
        )
        yield _counter("flush_failures", broker.flusher.failures)
        yield _counter("shard_reloads", broker.runtime.reloads)
        if self._disk is not None:
            log_bytes, free_bytes = self._disk
            yield _gauge("log_bytes", log_bytes)
            yield _gauge("disk_free_bytes", free_bytes)

    def measure_disk(self) -> None:
        """Measure the data directory. It may have many files, so this runs in a worker
        thread. Without a directory that can be read, there are no such metrics."""
        if self._directory is not None:
            self._disk = _measure(self._directory)


class Exposition:
    """The text of all metrics, rendered at most for a tenth of the time.

    Requests that arrive during the pause after a rendering share the next one, so that
    many of them cannot block the event loop. `measure` runs in a worker thread before a
    rendering.
    """

    def __init__(
        self, registry: CollectorRegistry, measure: Callable[[], None] | None = None
    ) -> None:
        self._registry = registry
        self._measure = measure
        self._measuring: asyncio.Future[None] | None = None
        self._text = b""
        self._next_s = 0.0
        self.renderings = 0

    async def reply(self, _: Headers) -> Reply:
        """Return metrics that were rendered after the call."""
        loop = asyncio.get_running_loop()
        known = self.renderings
        while self.renderings == known:
            wait_s = self._next_s - loop.time()
            if wait_s > 0:
                await asyncio.sleep(wait_s)
                continue
            await self._measure_once(loop)
            if self.renderings == known:
                self._render(loop)
        return Reply("200 OK", self._text, CONTENT_TYPE_LATEST)

    async def _measure_once(self, loop: asyncio.AbstractEventLoop) -> None:
        """Measure, or wait for the measurement in progress."""
        if self._measure is None:
            return
        if self._measuring is None:
            self._measuring = loop.run_in_executor(None, self._measure)
        try:
            await asyncio.shield(self._measuring)
        finally:
            self._measuring = None

    def _render(self, loop: asyncio.AbstractEventLoop) -> None:
        started_s = loop.time()
        self._text = generate_latest(self._registry)
        self.renderings += 1
        ended_s = loop.time()
        pause_s = min(_PAUSE_MAX_S, (_SHARE - 1) * (ended_s - started_s))
        self._next_s = ended_s + pause_s


def _requests(
    requests: Mapping[tuple[int, int], int], heartbeats: Mapping[bytes, int]
) -> Metric:
    total = Counter(requests)
    for front, count in heartbeats.items():
        key, version = struct.unpack(">hh", front)
        total[key, version] += count
    return _by_words(
        "requests",
        ("api", "version"),
        {
            # A raw SASL token has no version.
            (ApiKey(key).title, str(version) if version >= 0 else "raw"): count
            for (key, version), count in total.items()
        },
    )


def _words(counts: Mapping[str, int]) -> Mapping[tuple[str, ...], int]:
    return {(word,): count for word, count in counts.items()}


def _by_words(
    name: str, labels: tuple[str, ...], values: Mapping[tuple[str, ...], int]
) -> CounterMetricFamily:
    family = CounterMetricFamily(f"coterie_{name}", _help(name), labels=labels)
    for words, value in values.items():
        family.add_metric(words, value)
    return family


def _counter(name: str, value: int) -> CounterMetricFamily:
    assert value >= 0
    return CounterMetricFamily(f"coterie_{name}", _help(name), value)


def _gauge(name: str, value: int) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"coterie_{name}", _HELP[name], value)


def _help(name: str) -> str:
    return f"Count since the start: {_HELP[name]}."


_HELP: Final = {
    "authentication_failures": "failed authentications",
    "authentications_delayed": "checks of passwords delayed after failures",
    "authorization_refused": "refused checks of ACLs, hidden resources included",
    "connection_bytes": "Bytes counted against queued.max.request.bytes.",
    "connections": "Open connections.",
    "connections_paused": "Connections that are not read, as the memory is exhausted.",
    "connections_closed": "connections closed after an error of the client",
    "connections_refused": "connections refused at a limit",
    "disk_free_bytes": "Free bytes of the data directory's file system.",
    "event_loop_long_turns": "delays of the event loop of at least 0.25 s",
    "exhausted_turns": "turns that ended before all received requests were handled",
    "flush_failures": "flushes that failed",
    "log_bytes": "Size of the files in the data directory.",
    "requests": "requests",
    "throttle_ms": "throttle times of requests over a quota, in milliseconds",
    "throttled": "requests and connections over a quota",
    "shard_reloads": "shards that were loaded again after a failure",
}


def _measure(directory: Path) -> tuple[int, int] | None:
    """Return the size of a directory's files and the free bytes of its disk; None if it
    cannot be read."""
    total = 0
    try:
        free = shutil.disk_usage(directory).free
        for folder, _, names in os.walk(directory):
            for name in names:
                with suppress(FileNotFoundError):  # segments are removed meanwhile
                    total += Path(folder, name).stat().st_size
    except OSError:
        return None
    return total, free
