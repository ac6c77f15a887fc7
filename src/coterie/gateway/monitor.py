"""The HTTP port of a gateway node: /metrics, /health, /ready and /status.

Rules of this file: it is imported only by nodes with a metrics port.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Final

from prometheus_client import CollectorRegistry, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from coterie.broker import Broker, Connections, Monitoring, Phase
from coterie.gateway.options import GatewayOptions
from coterie.gateway.ownership import Ownership
from coterie.gateway.path.listeners import reason_of
from coterie.gateway.status import (
    ACTIVE,
    ASSIGNED,
    FAILED,
    LOADING,
    PHASES,
    TAKING_OVER,
    NodeStatus,
    ShardStatus,
)

_PREFIX: Final = "coterie_gateway_"
_TAKEOVER_BUCKETS: Final = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 60)
_PRODUCE_BUCKETS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.5, 2.5, 30)


class GatewayMetrics(Collector):
    """The metrics of one node; it registers them and observes the durations."""

    def __init__(self, registry: CollectorRegistry, status: NodeStatus) -> None:
        self._status = status
        status.counts.observe_takeover = Histogram(
            f"{_PREFIX}takeover_seconds",
            "From the assignment of a shard until it is active.",
            buckets=_TAKEOVER_BUCKETS,
            registry=registry,
        ).observe
        status.counts.observe_produce = Histogram(
            f"{_PREFIX}produce_seconds",
            "From sending a batch to upstream until its answer.",
            buckets=_PRODUCE_BUCKETS,
            registry=registry,
        ).observe
        registry.register(self)

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics with their current values."""
        status, counts = self._status, self._status.counts
        phases = Counter(each.phase for each in status.shards())
        family = GaugeMetricFamily(
            f"{_PREFIX}shards", "Shards assigned to this node.", labels=["phase"]
        )
        for phase in PHASES:
            family.add_metric([phase], phases[phase])
        yield family
        view = status.view()
        yield _gauge("nodes", "Live nodes, as this one knows.", len(view.nodes))
        unowned = sum(1 for owner in view.owners if owner < 0)
        yield _gauge("unowned_shards", "Shards without an owner.", unowned)
        yield _gauge("generation", "Generation of the upstream group.", view.generation)
        yield _gauge(
            "lease_seconds",
            "Time until the node stops serving without another heartbeat.",
            status.lease_ms() / 1_000,
        )
        for name, what, value in (
            ("takeovers", "shards that became active", counts.takeovers),
            ("failed_takeovers", "shards not loaded", counts.failed_takeovers),
            ("fenced", "shards whose writes a newer owner fenced", counts.fenced),
            ("lapsed_leases", "leases that ended", counts.lapsed_leases),
            ("produce_retries", "batches sent again", counts.produce_retries),
        ):
            yield _counter(name, what, value)
        forwarded = CounterMetricFamily(
            f"{_PREFIX}forwarded_bytes",
            "Count since the start: forwarded bytes.",
            labels=["to"],
        )
        forwarded.add_metric(["upstream"], counts.bytes_to_upstream)
        forwarded.add_metric(["clients"], counts.bytes_to_clients)
        yield forwarded
        yield _by_outcome("adoptions", "groups looked up upstream", counts.adoptions)
        yield _by_outcome(
            "mirrored", "offsets repeated upstream, groups that failed", counts.mirrored
        )


def _by_outcome(name: str, what: str, values: Counter[str]) -> CounterMetricFamily:
    family = CounterMetricFamily(
        f"{_PREFIX}{name}", f"Count since the start: {what}.", labels=["outcome"]
    )
    for outcome, value in sorted(values.items()):
        family.add_metric([outcome], value)
    return family


def _gauge(name: str, what: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"{_PREFIX}{name}", what, value)


def _counter(name: str, what: str, value: int) -> CounterMetricFamily:
    return CounterMetricFamily(
        f"{_PREFIX}{name}", f"Count since the start: {what}.", value
    )


async def start_monitor(
    plan: GatewayOptions, status: NodeStatus, broker: Broker, connections: Connections
) -> tuple[int, Callable[[], None]]:
    """Listen on the port of a node; return the port and the function that stops it.
    Raises OSError when the port is unavailable."""
    assert plan.metrics_port is not None
    monitoring = Monitoring(broker, connections, None, readiness=status.readiness)
    GatewayMetrics(monitoring.registry, status)
    routes = {b"/status": status.document}
    try:
        port = await monitoring.start(plan.host, plan.metrics_port, routes)
    except OSError as error:
        raise OSError(
            f"--metrics-port {plan.metrics_port} of {plan.host} is unavailable: "
            f"{reason_of(error)}"
        ) from error
    return port, monitoring.stop


def shard_statuses(
    ownership: Ownership, broker: Broker, clock: Callable[[], int]
) -> Iterator[ShardStatus]:
    """Yield the shards that are assigned to a node. `clock` is that of the
    ownership."""
    now_ms = clock()
    for index in sorted(ownership.shards):
        partition = broker.runtime.shards[index]
        phase = {Phase.ACTIVE: ACTIVE, Phase.LOADING: LOADING}.get(
            partition.phase, FAILED if ownership.is_failed(index) else ASSIGNED
        )
        progress = ownership.progress(index)
        if phase == LOADING and progress.barrier < 0:
            phase = TAKING_OVER
        yield ShardStatus(
            shard=index,
            phase=phase,
            epoch=progress.epoch,
            offset=progress.offset,
            end_offset=progress.barrier + 1 if progress.barrier >= 0 else -1,
            since_ms=now_ms - ownership.since_ms(index),
        )
