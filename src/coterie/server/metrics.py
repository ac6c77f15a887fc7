"""The Prometheus endpoint: what the coordinator is doing, under Kafka's names (E26).

Names are Kafka's own in the form its JMX exporter gives them:
`kafka_server_group_coordinator_metrics_` and the metric's name. Where KIP-848 named one
otherwise than Kafka did, both are there (I-08). Gauges are read from the shards when
somebody asks, so they are what is so now; counters come from `runtime.metrics`.

Not here, because this design has no such thing: event-queue-size and -time (requests
are handled as they are read), event-purgatory-time, thread-idle-ratio (there is one
thread), partition-load-time (groups load lazily, in slices). Not here, because it would
be paid for by every request: event-processing-time. What Kafka calls batch-flush-time
is the flush that all shards share. Rates are Prometheus' business. Offsets that nobody
has looked at since the start are not counted.
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

from coterie.coordinator.classic.group import GroupState
from coterie.coordinator.consumer.group import ConsumerGroupState
from coterie.runtime.metrics import Metrics
from coterie.runtime.shards import DrivenShard, Phase

PREFIX: Final = "kafka_server_group_coordinator_metrics_"
MANAGER: Final = "kafka_coordinator_group_GroupMetadataManager_"
OURS: Final = "coterie_group_"
PATIENCE_S: Final = 10.0
"""How long somebody who connected may take to ask."""
_BUCKETS: Final = (0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)
_FLUSH_BUCKETS: Final = (0.0001, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.05, 0.25, 1, 5)
_PHASES: Final = {
    "loading": Phase.LOADING,
    "active": Phase.ACTIVE,
    "failed": Phase.STOPPED,
}


class GroupMetrics(Collector):
    """Everything that is measured, and the registry that holds it."""

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
            "From the moment a member let a partition go until one has it.",
            buckets=_BUCKETS,
            registry=self.registry,
        )
        self.observe_flush = Histogram(
            "coterie_flush_seconds",
            "How long it took to make what a turn of the loop wrote durable.",
            buckets=_FLUSH_BUCKETS,
            registry=self.registry,
        ).observe
        """Tell how many seconds a flush took."""
        self.metrics = Metrics(rebalance.observe, unowned.observe)
        self.registry.register(self)

    def describe(self) -> Iterable[Metric]:
        """Nothing: names are not asked for before there are values."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """Everything, as it is now."""
        yield from self._gauges()
        for name, value in self.metrics.counters.items():
            yield _counter(f"{PREFIX}{name}_count", name.replace("_", " "), value)
        yield _counter(
            f"{OURS}partitions_moved",
            "partitions that another member got than had them before",
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
        # The KIP called the classic protocol generic.
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
    family = GaugeMetricFamily(name, f"The {what} there are.", labels=[label])
    for word, value in values.items():
        family.add_metric([word], value)
    return family


def _counter(name: str, what: str, value: int) -> CounterMetricFamily:
    assert value >= 0
    return CounterMetricFamily(name, f"How often since the start: {what}.", value)


class Endpoint:
    """Serves the metrics over HTTP, in the server's own event loop."""

    def __init__(self, metrics: GroupMetrics, patience_s: float = PATIENCE_S) -> None:
        self._metrics = metrics
        self._patience_s = patience_s
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.StreamWriter] = set()

    async def start(self, host: str, port: int) -> int:
        """Listen; the port. Raises OSError when the address cannot be had."""
        self._server = await asyncio.start_server(self._answer, host, port)
        listening: int = self._server.sockets[0].getsockname()[1]
        return listening

    def close(self) -> None:
        """Listen no more, and send away who is there."""
        if self._server is not None:
            self._server.close()
        for connection in self._connections:
            connection.close()

    async def _answer(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._connections.add(writer)
        try:
            async with asyncio.timeout(self._patience_s):
                head = await reader.readuntil(b"\r\n\r\n")
                writer.write(self._response(head))
                await writer.drain()
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, OSError):
            pass  # whoever asked does not speak HTTP, is too slow, or is gone
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
