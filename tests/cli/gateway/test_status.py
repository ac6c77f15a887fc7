"""The table of `coterie gateway status`, from descriptions of a gateway."""

from __future__ import annotations

import re
from typing import Any, Final

import pytest

from coterie.cli.gateway.status import status_outcome
from coterie.cli.output.outcome import Exit
from coterie.cli.output.terminal import terminal_table
from coterie.gateway.overview import GatewayOverview, NodeOverview
from coterie.gateway.view import NodeInfo

ESCAPES: Final = re.compile(r"\x1b\[[0-9;]*m")


def info(name: str, status_port: int = 9644) -> NodeInfo:
    host = f"{name}.gateway.kafka.svc.cluster.example"
    return NodeInfo(
        name=name,
        host=host,
        port=9192,
        broker_port=9193,
        version="0.17.0",
        status_port=status_port,
    )


def shard(index: int, phase: str = "active", offset: int = 100) -> dict[str, Any]:
    return {
        "shard": index,
        "phase": phase,
        "epoch": 3,
        "offset": offset,
        "end_offset": 100,
        "since_ms": 65_000,
    }


def node(name: str, *shards: dict[str, Any]) -> NodeOverview:
    status = {
        "lease_ms": 5_300,
        "generation": 12,
        "takeovers": 2,
        "fenced": 0,
        "stopping": False,
        "shards": shards,
    }
    return NodeOverview(info(name), tuple(each["shard"] for each in shards), status)


def overview(*nodes: NodeOverview, shards: int = 4) -> GatewayOverview:
    return GatewayOverview(nodes, shards, is_stable=True)


HEALTHY = overview(node("gw-1", shard(0), shard(2)), node("gw-2", shard(1), shard(3)))


def test_a_gateway_with_all_shards_active_has_exit_code_0() -> None:
    outcome = status_outcome(HEALTHY, by_shard=False)
    assert outcome.exit_code is Exit.OK
    assert outcome.summary == {"nodes": 2, "shards": 4, "active": 4, "stable": True}
    assert outcome.notes == ("4 of 4 shards are active on 2 nodes",)
    assert [each["active"] for each in outcome.items] == [2, 2]


@pytest.mark.parametrize("by_shard", [False, True])
def test_a_shard_without_an_owner_has_exit_code_1(by_shard: bool) -> None:
    outcome = status_outcome(
        overview(node("gw-1", shard(0)), shards=2), by_shard=by_shard
    )
    assert (outcome.exit_code, outcome.failed) == (Exit.FAILED, 1)
    assert outcome.summary["active"] == 1


def test_a_shard_that_loads_shows_how_far_it_is_behind() -> None:
    loading = overview(node("gw-1", shard(0), shard(1, "loading", 60)), shards=2)
    _, item = status_outcome(loading, by_shard=True).items
    assert (item["phase"], item["behind"]) == ("loading", 40)
    assert item["error"] == {
        "code": "NOT_ACTIVE",
        "message": "the shard is loading on gw-1",
    }
    [row] = status_outcome(loading, by_shard=False).items
    assert (row["shards"], row["active"], row["behind"]) == (2, 1, 40)


def test_an_assigned_shard_that_a_node_does_not_know_is_not_active() -> None:
    late = node("gw-1", shard(0))._replace(shards=(0, 1))
    outcome = status_outcome(overview(late, shards=2), by_shard=False)
    [failure] = outcome.failures
    assert failure.message == "gw-1 has not taken the shard over yet"


def test_a_node_without_a_metrics_port_is_no_failure() -> None:
    silent = NodeOverview(
        info("gw-1", 0), (0,), None, "it was started without --metrics-port"
    )
    outcome = status_outcome(overview(silent, shards=1), by_shard=False)
    assert outcome.exit_code is Exit.OK
    assert outcome.items[0]["active"] is None
    assert "gw-1: it was started without --metrics-port" in outcome.notes


def test_a_node_that_does_not_answer_is_a_failure() -> None:
    dead = NodeOverview(info("gw-1"), (0,), None, "no status from gw-1:9644: refused")
    outcome = status_outcome(overview(dead, shards=1), by_shard=False)
    assert outcome.exit_code is Exit.FAILED
    assert outcome.items[0]["error"]["code"] == "NO_STATUS"  # type: ignore[index,call-overload]
    # Once for the node, and not for each of its shards.
    assert (outcome.failed, outcome.failures) == (1, ())
    assert "0 of 1 shards" not in outcome.notes[0]
    assert "leaves after its session time-out" in outcome.notes[1]


def test_a_silent_node_beside_others_leaves_its_shards_uncounted() -> None:
    dead = NodeOverview(info("gw-2"), (1,), None, "no status from gw-2:9644: refused")
    outcome = status_outcome(
        overview(node("gw-1", shard(0)), dead, shards=2), by_shard=False
    )
    assert outcome.notes[0] == "1 of 2 shards are known to be active on 2 nodes"


def test_a_gateway_without_nodes_has_exit_code_1() -> None:
    outcome = status_outcome(GatewayOverview((), 2, is_stable=False), by_shard=False)
    assert outcome.exit_code is Exit.FAILED
    assert outcome.notes[0].startswith("no node is alive: start one")


def test_a_rebalance_of_the_nodes_is_said() -> None:
    moving = GatewayOverview((), 2, is_stable=False, is_rebalancing=True)
    outcome = status_outcome(moving, by_shard=False)
    assert outcome.notes[0].startswith("the nodes are rebalancing")


def test_fewer_nodes_than_wanted_are_a_failure() -> None:
    for by_shard in (False, True):
        missing = status_outcome(HEALTHY, by_shard=by_shard, nodes_wanted=3)
        assert (missing.exit_code, missing.failed) == (Exit.FAILED, 1)
        [failure] = missing.failures
        assert failure.message == "2 of 3 nodes are alive"
    assert status_outcome(HEALTHY, by_shard=False, nodes_wanted=2).failed == 0


@pytest.mark.parametrize("by_shard", [False, True])
def test_the_tables_fit_80_columns(by_shard: bool) -> None:
    outcome = status_outcome(HEALTHY, by_shard=by_shard)
    text = terminal_table(outcome.columns, outcome.items, width=80)
    lines = ESCAPES.sub("", text).splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[1].split()[0] == ("0" if by_shard else "gw-1")
