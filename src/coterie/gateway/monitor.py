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


class NodeMonitor:
    """The port of one node, and the status that it serves."""

    def __init__(
        self,
        plan: GatewayPlan,
        status: NodeStatus,
        broker: Broker,
        connections: Connections,
    ) -> None:
        self.status = status
        self._plan = plan
        self._monitoring = Monitoring(
            broker, connections, None, readiness=status.readiness
        )
        GatewayMetrics(self._monitoring.registry, status)

    async def start(self) -> int:
        """Listen; return the port. Raises OSError when it is unavailable."""
        plan = self._plan
        assert plan.metrics_port is not None
        routes = {b"/status": self.status.document}
        try:
            return await self._monitoring.start(plan.host, plan.metrics_port, routes)
        except OSError as error:
            raise OSError(
                f"--metrics-port {plan.metrics_port} of {plan.host} is unavailable: "
                f"{reason_of(error)}"
            ) from error

    def stop(self) -> None:
        """Stop listening."""
        self._monitoring.stop()


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
