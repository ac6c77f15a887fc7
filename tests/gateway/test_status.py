"""The status, the readiness and the metrics of a gateway node."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from coterie.gateway.counts import GatewayCounts
from coterie.gateway.monitor import GatewayMetrics
from coterie.gateway.status import ACTIVE, NodeStatus, ShardStatus
from coterie.gateway.view import NO_VIEW, NodeInfo, View

NODES = tuple(
    NodeInfo(name=name, host="gw.example", port=9192, broker_port=9193)
    for name in ("a", "b")
)
VIEW = View(NODES, owners=(0, 1, 0, 1), generation=7)


def active(shard: int) -> ShardStatus:
    return ShardStatus(shard, ACTIVE, 3, 100, 100, 5_000)


@dataclass
class NodeState:
    """The state of a node that is ready with two of four shards."""

    view: View = VIEW
    shards: list[ShardStatus] = field(default_factory=lambda: [active(0), active(2)])
    lease_ms: int = 4_000
    counts: GatewayCounts = field(default_factory=GatewayCounts)

    def status(self) -> NodeStatus:
        return NodeStatus(
            gateway="gateway",
            node="a",
            version="1",
            cluster_id="cluster",
            view=lambda: self.view,
            shards=lambda: self.shards,
            lease_ms=lambda: self.lease_ms,
            counts=self.counts,
        )


def missing(state: NodeState) -> list[str]:
    is_ready, document = state.status().readiness()
    assert is_ready is not bool(document["missing"])
    return list(document["missing"])


def test_a_node_with_its_even_share_active_is_ready() -> None:
    assert missing(NodeState()) == []


@pytest.mark.parametrize("phase", ["assigned", "taking-over", "loading", "failed"])
def test_a_node_with_a_shard_that_is_not_active_is_not_ready(phase: str) -> None:
    shards = [active(0), active(2)._replace(phase=phase)]
    assert missing(NodeState(shards=shards)) == ["1 of 2 shards are active"]


def test_a_node_with_less_than_its_share_is_not_ready() -> None:
    [reason] = missing(NodeState(shards=[active(0)]))
    assert reason == "1 shards are assigned, of a share of 2"


def test_a_node_stays_ready_while_another_has_no_shards_yet() -> None:
    view = View(
        (*NODES, NodeInfo(name="c", host="gw.example", port=9192, broker_port=9193)),
        (0, 1, 0, -1),
        8,
    )
    assert missing(NodeState(view=view)) == []


def test_a_node_outside_the_group_is_not_ready() -> None:
    state = NodeState(view=NO_VIEW, shards=[], lease_ms=0)
    [first, second] = missing(state)
    assert first.startswith("the node has not joined")
    assert second.startswith("the lease has ended")


def test_a_node_whose_lease_has_ended_is_not_ready() -> None:
    assert missing(NodeState(lease_ms=0))[0].startswith("the lease has ended")


def test_a_node_that_stops_is_not_ready() -> None:
    status = NodeState().status()
    status.is_stopping = True
    is_ready, document = status.readiness()
    assert not is_ready
    assert document["missing"] == ["the node is stopping"]


def test_the_status_has_the_shards_of_the_node() -> None:
    _, document = NodeState(counts=GatewayCounts(fenced=2)).status().document()
    assert document["schema"] == "coterie.gateway.node"
    assert (document["node"], document["nodes"]) == ("a", ["a", "b"])
    assert document["fenced"] == 2
    assert document["shards"][1] == {
        "shard": 2,
        "phase": "active",
        "epoch": 3,
        "offset": 100,
        "end_offset": 100,
        "since_ms": 5_000,
    }


def test_metrics_have_shards_by_phase_leases_and_counts() -> None:
    state = NodeState(shards=[active(0), active(2)._replace(phase="loading")])
    state.counts.bytes_to_clients = 5
    state.counts.adoptions["adopted"] += 2
    state.counts.mirrored["committed"] += 3
    registry = CollectorRegistry()
    GatewayMetrics(registry, state.status())
    state.counts.observe_takeover(0.2)
    text = generate_latest(registry).decode()
    for line in (
        'coterie_gateway_shards{phase="active"} 1.0',
        'coterie_gateway_shards{phase="loading"} 1.0',
        'coterie_gateway_shards{phase="failed"} 0.0',
        "coterie_gateway_nodes 2.0",
        "coterie_gateway_unowned_shards 0.0",
        "coterie_gateway_generation 7.0",
        "coterie_gateway_lease_seconds 4.0",
        "coterie_gateway_takeover_seconds_count 1.0",
        'coterie_gateway_forwarded_bytes_total{to="clients"} 5.0',
        'coterie_gateway_adoptions_total{outcome="adopted"} 2.0',
        'coterie_gateway_mirrored_total{outcome="committed"} 3.0',
    ):
        assert line in text.splitlines()
