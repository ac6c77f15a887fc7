"""`coterie gateway status`: the nodes and the shards of a gateway."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

from coterie.cli.command import Command, Run, add_output_options, on_cluster
from coterie.cli.durations import duration_of, whole_number
from coterie.cli.gateway.options import (
    NODES_MAX,
    add_upstream_options,
    gateway_name,
)
from coterie.cli.output.outcome import (
    Column,
    Failure,
    Item,
    Json,
    Outcome,
    Role,
    show_duration,
    show_error,
)

if TYPE_CHECKING:
    from coterie.gateway.overview import GatewayOverview, NodeOverview

_REBALANCE_S: Final = 10.0
"""How long the group may rebalance before the command gives up."""
_POLL_S: Final = 0.5
_NO_STATUS: Final = "NO_STATUS"


def _declare(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "--name",
        metavar="NAME",
        type=gateway_name,
        default="gateway",
        help="name of the gateway (default gateway)",
    )
    add("--shards", action="store_true", help="a row for each shard")
    add(
        "--nodes",
        metavar="N",
        type=whole_number("a number of nodes", most=NODES_MAX),
        default=0,
        help="fail while fewer nodes than these are alive (default: one will do)",
    )
    add(
        "--wait",
        metavar="SECONDS",
        type=duration_of("seconds"),
        default=0.0,
        help="wait until every shard is active, and --nodes are alive, for so long at "
        "most, in seconds or as 1m (default: do not wait)",
    )


async def show_status(run: Run) -> Outcome:
    """Return a row for each node, or for each shard."""
    import asyncio

    from coterie.gateway.overview import read_overview

    options = run.options
    loop = asyncio.get_running_loop()
    ends_s = loop.time() + options.wait
    while True:
        overview = await read_overview(run.admin, options.name, wait_s=_REBALANCE_S)
        outcome = status_outcome(
            overview, by_shard=options.shards, nodes_wanted=options.nodes
        )
        if not outcome.failed or loop.time() >= ends_s:
            return outcome
        await asyncio.sleep(_POLL_S)


def status_outcome(
    overview: GatewayOverview, *, by_shard: bool, nodes_wanted: int = 0
) -> Outcome:
    """Return the outcome: a failure for each shard that no node is known to serve, and
    one for fewer live nodes than wanted."""
    shards = _shard_items(overview)
    nodes = [_node_item(node) for node in overview.nodes]
    active = sum(1 for each in shards if each["phase"] == "active")
    failures = list(_node_failures(overview, nodes_wanted))
    if not by_shard:
        failures += _shard_failures(shards)
    return Outcome(
        schema="coterie.gateway.shard" if by_shard else "coterie.gateway.node",
        columns=_shard_columns() if by_shard else _node_columns(),
        items=tuple(shards if by_shard else nodes),
        failures=tuple(failures),
        summary={
            "nodes": len(nodes),
            "shards": overview.shard_count,
            "active": active,
            "stable": overview.is_stable,
        },
        notes=tuple(_notes(overview, active)),
        unit="shards" if by_shard else "nodes",
    )


def _notes(overview: GatewayOverview, active: int) -> Iterator[str]:
    count = overview.shard_count
    nodes = len(overview.nodes)
    silent = sum(1 for node in overview.nodes if not node.status)
    if overview.is_rebalancing:
        yield "the nodes are rebalancing: try again, or use --wait 1m"
    elif not nodes:
        yield "no node is alive: start one with coterie gateway run"
    elif silent == nodes:
        yield f"{count} shards are assigned; no node says which of them are active"
    elif silent:
        yield f"{active} of {count} shards are known to be active on {nodes} nodes"
    else:
        on = "1 node" if nodes == 1 else f"{nodes} nodes"
        yield f"{active} of {count} shards are active on {on}"
    for node in overview.nodes:
        if node.problem and node.info.status_port:
            yield (
                f"{node.info.name}: {node.problem}; a node that has died leaves after "
                "its session time-out"
            )
        elif node.problem:
            yield f"{node.info.name}: {node.problem}"


# Shards.


def _shard_items(overview: GatewayOverview) -> list[Item]:
    owners = {shard: node for node in overview.nodes for shard in node.shards}
    return [
        _shard_item(shard, owners.get(shard)) for shard in range(overview.shard_count)
    ]


def _shard_item(shard: int, owner: NodeOverview | None) -> Item:
    item: dict[str, Json] = {
        "shard": shard,
        "owner": owner.info.name if owner else None,
        "phase": None,
        "epoch": None,
        "offset": None,
        "end_offset": None,
        "behind": None,
        "since_ms": None,
        "error": None,
    }
    status = owner and _shard_status(owner, shard)
    if owner is None:
        item["error"] = _error("NO_OWNER", "no node owns the shard")
    elif status is not None:
        item |= {key: status.get(key) for key in item if key in status}
        end, offset = status["end_offset"], status["offset"]
        item["behind"] = max(0, end - offset) if end >= 0 else None
        if item["phase"] != "active":
            item["error"] = _error(
                "NOT_ACTIVE", f"the shard is {item['phase']} on {owner.info.name}"
            )
    elif owner.status is not None:
        item["phase"] = "assigned"
        item["error"] = _error(
            "NOT_ACTIVE", f"{owner.info.name} has not taken the shard over yet"
        )
    elif owner.info.status_port:
        item["error"] = _error(_NO_STATUS, owner.problem)
    return item


def _shard_status(owner: NodeOverview, shard: int) -> Mapping[str, int] | None:
    for each in (owner.status or {}).get("shards", ()):
        if each["shard"] == shard:
            return each  # type: ignore[no-any-return]
    return None


def _error(code: str, message: str) -> Item:
    return {"code": code, "message": message}


def _shard_failures(shards: list[Item]) -> Iterator[Failure]:
    for each in shards:
        error = each["error"]
        # The row of a node that does not answer has this error already.
        if isinstance(error, dict) and error["code"] != _NO_STATUS:
            yield Failure("shard", str(each["shard"]), error["code"], error["message"])


def _node_failures(overview: GatewayOverview, wanted: int) -> Iterator[Failure]:
    alive = len(overview.nodes)
    if alive < wanted:
        yield Failure("", "", "TOO_FEW_NODES", f"{alive} of {wanted} nodes are alive")


def _shard_columns() -> tuple[Column, ...]:
    return (
        Column("shard", "SHARD"),
        Column("owner", "OWNER", role=Role.IDENTITY),
        Column("phase", "PHASE"),
        Column("epoch", "EPOCH"),
        Column("behind", "BEHIND"),
        Column("since_ms", "SINCE", show=show_duration, drop=1),
        Column("offset", "OFFSET", is_wide=True),
        Column("end_offset", "END-OFFSET", is_wide=True),
        Column("error", "ERROR", show=show_error, drop=2),
    )


# Nodes.


def _node_item(node: NodeOverview) -> Item:
    info, status = node.info, node.status
    shards = (status or {}).get("shards", ())
    behind = sum(
        max(0, each["end_offset"] - each["offset"])
        for each in shards
        if each["end_offset"] >= 0
    )
    return {
        "node": info.name,
        "host": info.host,
        "port": info.port,
        "status_port": info.status_port or None,
        "version": info.version or None,
        "shards": len(node.shards),
        "active": sum(each["phase"] == "active" for each in shards) if status else None,
        "behind": behind if status else None,
        "lease_ms": status["lease_ms"] if status else None,
        "generation": status["generation"] if status else None,
        "takeovers": status["takeovers"] if status else None,
        "fenced": status["fenced"] if status else None,
        "stopping": status["stopping"] if status else None,
        "error": (
            _error(_NO_STATUS, node.problem)
            if node.problem and info.status_port
            else None
        ),
    }


def _node_columns() -> tuple[Column, ...]:
    return (
        Column("node", "NODE", role=Role.IDENTITY),
        Column("host", "HOST", role=Role.ID),
        Column("port", "PORT"),
        Column("shards", "#SHARDS"),
        Column("active", "#ACTIVE"),
        Column("behind", "BEHIND"),
        Column("lease_ms", "LEASE", show=show_duration),
        Column("generation", "GENERATION", drop=2),
        Column("version", "VERSION", drop=1),
        Column("takeovers", "#TAKEOVERS", is_wide=True),
        Column("fenced", "#FENCED", is_wide=True),
        Column("stopping", "STOPPING", is_wide=True),
        Column("status_port", "STATUS-PORT", is_wide=True),
        Column("error", "ERROR", is_wide=True, show=show_error),
    )


STATUS: Final = Command(
    description="""\
Show the nodes of a gateway and how many of its shards are active.

The nodes are those of the upstream cluster's group coterie-NAME. Each is asked for its
shards at its --metrics-port; without that port #ACTIVE, BEHIND and LEASE are "-".
BEHIND is the number of records that are still to be loaded. LEASE is the time for which
the node serves without another heartbeat.
""",
    examples="""\
examples:
  coterie gateway status --upstream kafka:9092
      a row for each node
  coterie gateway status --upstream kafka:9092 --shards
      a row for each shard: its owner, phase and epoch
  coterie gateway status --upstream kafka:9092 --nodes 3 --wait 2m
      during a rolling upgrade: until 3 nodes are alive and every shard is active
  coterie gateway status --upstream kafka:9092 --output json
      for programs: summary.active and summary.shards

exit codes: 0 all shards are active; 1 a shard has no active owner, a node does not
answer, or fewer than --nodes are alive; 2 usage error
""",
    options=(_declare, add_output_options, add_upstream_options),
    run=on_cluster(show_status),
)
