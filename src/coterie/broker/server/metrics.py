"""The coordinator's metrics for Prometheus, under Kafka's names.

Names are Kafka's own in the form of its JMX exporter:
`kafka_server_group_coordinator_metrics_` and the metric's name. A metric that KIP-848
names differently from Kafka is exported under both names. Gauges are read from
the shards at each scrape; counters come from `runtime.metrics`. The server's own
metrics are in server_metrics.py.

Some of Kafka's metrics have no equivalent here: event-queue-size and -time (requests
are handled as they are read), event-purgatory-time, thread-idle-ratio (there is one
thread), partition-load-time (shards load in slices). event-processing-time would cost
time in every request. batch-flush-time is the flush that all shards share. Rates are
left to Prometheus. Offsets that were not read since the start are not counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from prometheus_client import CollectorRegistry, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from coterie.broker.coordinator.classic.group import GroupState
from coterie.broker.coordinator.consumer.group import ConsumerGroupState
from coterie.broker.coordinator.share.group import ShareGroupState
from coterie.broker.runtime.metrics import Metrics
from coterie.broker.runtime.shards import CoordinatorPartition, Phase

PREFIX: Final = "kafka_server_group_coordinator_metrics_"
MANAGER: Final = "kafka_coordinator_group_GroupMetadataManager_"
OURS: Final = "coterie_group_"
_BUCKETS: Final = (0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)
_FLUSH_BUCKETS: Final = (0.0001, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.05, 0.25, 1, 5)
_PHASES: Final = {
    "loading": Phase.LOADING,
    "active": Phase.ACTIVE,
    "failed": Phase.STOPPED,
}


class GroupMetrics(Collector):
    """The metrics of a server, and their registry."""

    def __init__(self, shards: Iterable[CoordinatorPartition]) -> None:
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
        phases = Counter(partition.phase for partition in self._shards)
        by_phase = {word: phases[phase] for word, phase in _PHASES.items()}
        for name in ("num_partitions", "partition_count"):
            yield _gauge(f"{PREFIX}{name}", "shards by phase", "state", by_phase)
        states = [partition.shard.state for partition in self._shards]
        classic = [group for state in states for group in state.classic_groups.values()]
        consumer = [
            group for state in states for group in state.consumer_groups.values()
        ]
        share = [group for state in states for group in state.share_groups.values()]
        protocols = {
            "classic": len(classic),
            "consumer": len(consumer),
            "share": len(share),
        }
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
        yield _gauge(
            f"{PREFIX}share_group_count",
            "share groups",
            "state",
            {
                each.value.lower(): sum(group.state is each for group in share)
                for each in ShareGroupState
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
