"""The plan of a world with several nodes, drawn from its seed before it starts."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Final

from sim.gateway.upstream import EPOCH_MAX, UpstreamFaults
from sim.network import NetworkFaults
from sim.plan import Plan, draw_plan

_FOREIGN_SHARE: Final = 0.04
_ROLLING_SHARE: Final = 0.2


@dataclass(frozen=True)
class GatewayPlan:
    """The plan of a world with nodes."""

    base: Plan
    node_count: int
    shard_count: int
    session_timeout_ms: int
    """The session timeout of the nodes in their group."""
    is_static: bool
    last_epoch: int
    """The last epoch of a producer id. With 0 upstream fences nothing."""
    foreign_shard: int | None
    """The shard whose partition has the barrier of another cluster's node."""
    upstream: UpstreamFaults
    group_faults: NetworkFaults
    """The faults of the network between the nodes and their group's coordinator."""
    has_epochs: bool
    """Whether each transaction of an application has its own epoch (KIP-890)."""
    fault_kinds: int
    """A bit for each kind of fault of nodes and upstream in this world."""
    delete_retention_ms: int
    """`delete.retention.ms` of the shards' topic."""
    late_ends: float
    """The share of EndTxn requests that arrive a second time, later."""

    @property
    def usable_within_ms(self) -> int:
        """The time after the last fault within which every shard must be served: the
        session of a lost node, a rebalance, and the takeover.
        """
        return self.session_timeout_ms + 25_000


def draw_gateway_plan(rng: Random, more: Random) -> GatewayPlan:
    """Draw a plan. `more` draws what worlds did not always have, so that the others of
    a seed stay as they were."""
    base = draw_plan(rng)
    shard_count = rng.choice((1, 2, 3))
    is_foreign = rng.random() < _FOREIGN_SHARE
    return GatewayPlan(
        base=base,
        node_count=rng.choice((1, 2, 2, 3, 3, 4)),
        shard_count=shard_count,
        session_timeout_ms=rng.choice((3_000, 6_000)),
        is_static=rng.random() < 0.5,
        last_epoch=0 if rng.random() < _ROLLING_SHARE else EPOCH_MAX,
        foreign_shard=rng.randrange(shard_count) if is_foreign else None,
        upstream=_upstream_faults(rng, more),
        group_faults=_group_faults(rng),
        has_epochs=rng.random() < 0.5,
        fault_kinds=rng.getrandbits(32) | rng.getrandbits(32),
        delete_retention_ms=more.choice((0, 1_000, 10_000)),
        late_ends=more.choice((0.0, 0.5)),
    )


def _upstream_faults(rng: Random, more: Random) -> UpstreamFaults:
    compactions = more.choice((0.0, 0.0, 0.02, 0.3, 1.0))
    empty_fetches = more.choice((0.0, 0.0, 0.2))
    if rng.random() < 0.3:
        return UpstreamFaults(compactions=compactions, empty_fetches=empty_fetches)
    return UpstreamFaults(
        compactions=compactions,
        empty_fetches=empty_fetches,
        usual_ms=rng.choice((2, 10, 100)),
        replication_ms=rng.choice((0, 5, 100, 500)),
        refusals=rng.choice((0.0, 0.02, 0.1)),
        breaks=rng.choice((0.0, 0.02, 0.1)),
        late_ms=rng.choice((10, 1_000, 8_000)),
        request_timeout_ms=rng.choice((1_000, 4_000)),
    )


def _group_faults(rng: Random) -> NetworkFaults:
    if rng.random() < 0.3:
        return NetworkFaults()
    return NetworkFaults(
        loss=rng.choice((0.0, 0.02, 0.1)),
        repetition=rng.choice((0.0, 0.02)),
        delay_share=rng.choice((0.0, 0.05, 0.2)),
        late_ms=rng.choice((500, 3_000)),
        usual_ms=rng.choice((5, 40)),
    )
