"""The HTTP port of a gateway node: /metrics, /health, /ready and /status.

Rules of this file: it is imported only by nodes with a metrics port.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from coterie.broker.runtime.shards import Phase
from coterie.broker.server.broker import Broker
from coterie.broker.server.connections import Connections
from coterie.broker.server.monitoring import Monitoring
from coterie.gateway.metrics import GatewayMetrics
from coterie.gateway.ownership import Ownership
from coterie.gateway.path.listeners import reason_of
from coterie.gateway.plan import GatewayPlan
from coterie.gateway.status import (
    ACTIVE,
    ASSIGNED,
    FAILED,
    LOADING,
    TAKING_OVER,
    NodeStatus,
    ShardStatus,
)


async def start_monitor(
    plan: GatewayPlan, status: NodeStatus, broker: Broker, connections: Connections
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
        driven = broker.runtime.shards[index]
        phase = {Phase.ACTIVE: ACTIVE, Phase.LOADING: LOADING}.get(
            driven.phase, FAILED if ownership.is_failed(index) else ASSIGNED
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
