"""The Prometheus endpoint: the coordinator's metrics, under Kafka's names (E26).

Names are Kafka's own in the form of its JMX exporter:
`kafka_server_group_coordinator_metrics_` and the metric's name. A metric that KIP-848
names differently from Kafka is exported under both names (I-08). Gauges are read from
the shards at each scrape; counters come from `runtime.metrics`.

Some of Kafka's metrics have no equivalent here: event-queue-size and -time (requests
are handled as they are read), event-purgatory-time, thread-idle-ratio (there is one
thread), partition-load-time (shards load in slices). event-processing-time would cost
time in every request. batch-flush-time is the flush that all shards share. Rates are
left to Prometheus. Offsets that were not read since the start are not counted.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from prometheus_client import CollectorRegistry, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector

from coterie.broker.coordinator.classic.group import GroupState
from coterie.broker.coordinator.consumer.group import ConsumerGroupState
from coterie.broker.runtime.metrics import Metrics
from coterie.broker.runtime.shards import DrivenShard, Phase

PREFIX: Final = "kafka_server_group_coordinator_metrics_"
MANAGER: Final = "kafka_coordinator_group_GroupMetadataManager_"
OURS: Final = "coterie_group_"
REQUEST_TIMEOUT_S: Final = 10.0
"""The time from a connection to its complete request."""
_BUCKETS: Final = (0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)
_FLUSH_BUCKETS: Final = (0.0001, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.05, 0.25, 1, 5)
_PHASES: Final = {
    "loading": Phase.LOADING,
    "active": Phase.ACTIVE,
    "failed": Phase.STOPPED,
}


class GroupMetrics(Collector):
    """The metrics of a server, and their registry."""

    def __init__(self, shards: Iterable[DrivenShard]) -> None:
        self.registry = CollectorRegistry()
        self._shards = shards
        rebalance = Histogram(
            f"{OURS}rebalance_seconds",
            "From the bump of a group epoch until the group is Stable.",
            buckets=_BUCKETS,
            registry=self.registry,
        )
        unowned = Histogram(
            f"{OURS}partition_unowned_seconds",
            "From the revocation of a partition until it is assigned to a member.",
            buckets=_BUCKETS,
            registry=self.registry,
        )
        self.observe_flush = Histogram(
            "coterie_flush_seconds",
            "Duration of a flush, which makes the writes of a loop iteration durable.",
            buckets=_FLUSH_BUCKETS,
            registry=self.registry,
        ).observe
        """A callback with the duration of a flush in seconds."""
        self.metrics = Metrics(rebalance.observe, unowned.observe)
        self.registry.register(self)

    def describe(self) -> Iterable[Metric]:
        """Return nothing, so that registering does not collect values."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics with their current values."""
        yield from self._gauges()
        for name, value in self.metrics.counters.items():
            yield _counter(f"{PREFIX}{name}_count", name.replace("_", " "), value)
        yield _counter(
            f"{OURS}partitions_moved",
            "partitions assigned to another member than before",
            self.metrics.partitions_moved,
        )

    def _gauges(self) -> Iterator[Metric]:
        phases = Counter(driven.phase for driven in self._shards)
        by_phase = {word: phases[phase] for word, phase in _PHASES.items()}
        for name in ("num_partitions", "partition_count"):
            yield _gauge(f"{PREFIX}{name}", "shards by phase", "state", by_phase)
        states = [driven.shard.state for driven in self._shards]
        classic = [group for state in states for group in state.classic_groups.values()]
        consumer = [
            group for state in states for group in state.consumer_groups.values()
        ]
        protocols = {"classic": len(classic), "consumer": len(consumer)}
        # KIP-848 calls the classic protocol generic.
        protocols["generic"] = protocols["classic"]
        yield _gauge(f"{PREFIX}group_count", "groups", "protocol", protocols)
        consumer_states = Counter(group.state.value.lower() for group in consumer)
        yield _gauge(
            f"{PREFIX}consumer_group_count",
            "consumer groups",
            "state",
            {
                **{each.value.lower(): 0 for each in ConsumerGroupState},
                "dead": 0,
                **consumer_states,
            },
        )
        yield from _classic_gauges(Counter(group.state for group in classic))
        offsets = sum(state.offsets.stored.loaded_count() for state in states)
        yield GaugeMetricFamily(f"{MANAGER}NumOffsets", "committed offsets", offsets)


def _classic_gauges(states: Mapping[GroupState, int]) -> Iterator[Metric]:
    total = sum(states.values())
    yield GaugeMetricFamily(f"{MANAGER}NumGroups", "classic groups", total)
    for state in GroupState:
        name = f"{MANAGER}NumGroups{state.value}"
        yield GaugeMetricFamily(name, "classic groups in this state", states[state])


def _gauge(
    name: str, what: str, label: str, values: Mapping[str, int]
) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, f"Number of {what}.", labels=[label])
    for word, value in values.items():
        family.add_metric([word], value)
    return family


def _counter(name: str, what: str, value: int) -> CounterMetricFamily:
    assert value >= 0
    return CounterMetricFamily(name, f"Count since the start: {what}.", value)


class Endpoint:
    """The HTTP endpoint of the metrics, in the server's event loop."""

    def __init__(
        self, metrics: GroupMetrics, timeout_s: float = REQUEST_TIMEOUT_S
    ) -> None:
        self._metrics = metrics
        self._timeout_s = timeout_s
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.StreamWriter] = set()

    async def start(self, host: str, port: int) -> int:
        """Listen; return the port. Raises OSError when the address is unavailable."""
        self._server = await asyncio.start_server(self._serve, host, port)
        listening: int = self._server.sockets[0].getsockname()[1]
        return listening

    def close(self) -> None:
        """Stop listening and close all connections."""
        if self._server is not None:
            self._server.close()
        for connection in self._connections:
            connection.close()

    async def _serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._connections.add(writer)
        try:
            async with asyncio.timeout(self._timeout_s):
                head = await reader.readuntil(b"\r\n\r\n")
                writer.write(self._response(head))
                await writer.drain()
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, OSError):
            pass  # the client sent no HTTP request, was too slow or has disconnected
        finally:
            self._connections.discard(writer)
            writer.close()

    def _response(self, head: bytes) -> bytes:
        method, path, *_ = (*head.split(b"\r\n", 1)[0].split(), b"", b"")
        if method != b"GET":
            return _http("405 Method Not Allowed", b"only GET\n")
        if path.partition(b"?")[0] not in (b"/metrics", b"/"):
            return _http("404 Not Found", b"the metrics are at /metrics\n")
        body = generate_latest(self._metrics.registry)
        return _http("200 OK", body, CONTENT_TYPE_LATEST)


def _http(status: str, body: bytes, content_type: str = "text/plain") -> bytes:
    head = (
        f"HTTP/1.0 {status}\r\nContent-Type: {content_type}\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + body
