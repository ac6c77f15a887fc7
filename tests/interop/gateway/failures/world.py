"""Start a cluster, a gateway and clients, and run failures one kind after another."""

from __future__ import annotations

import asyncio
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from random import Random
from typing import Final, TypeAlias

from coterie.client.admin.admin_client import AdminClient
from coterie.client.admin.topics import NewTopic
from tests.interop.gateway.cluster import KafkaCluster
from tests.interop.gateway.nodes import GatewayNodes
from tests.interop.gateway.upstreams import (
    NEWEST,
    NO_AUTHORIZER,
    Upstream,
    running_upstream,
)

from . import scenarios
from .exactly_once import kill_nodes_under_transactions
from .load import PARTITIONS, TOPIC, CommitLoad, MemberLoad
from .scenarios import HEADER, WAIT_S, Findings, World
from .transactions import TransactionLoad

Scenario: TypeAlias = Callable[[World, int], Awaitable[Findings]]

SCENARIOS: Final[Mapping[str, Scenario]] = {
    "kill_nodes": scenarios.kill_nodes,
    "stop_nodes": scenarios.stop_nodes,
    "pause_nodes": scenarios.pause_nodes,
    "kill_brokers": scenarios.kill_brokers,
    "kill_nodes_under_transactions": kill_nodes_under_transactions,
    "kill_nodes_under_kgo": partial(kill_nodes_under_transactions, client="kgo"),
    "kill_nodes_under_java": partial(kill_nodes_under_transactions, client="java"),
}
_PACE_S = 0.02
_TRANSACTION_PACE_S = 0.1
_MEMBER_GROUPS = 4
_NAME = "failures"
_SETTINGS: Final[tuple[str, ...]] = (
    *("--set", "group.consumer.min.session.timeout.ms=6000"),
    *("--set", "group.consumer.session.timeout.ms=6000"),
    *("--set", "group.consumer.min.heartbeat.interval.ms=1000"),
    *("--set", "group.consumer.heartbeat.interval.ms=1000"),
)
"""A killed member leaves soon, so that the others get its partitions."""


@asynccontextmanager
async def started(
    cluster: Upstream, directory: Path, *, groups: int, random: Random
) -> AsyncIterator[World]:
    """Start a gateway in front of a cluster, and its clients."""
    began_s = time.monotonic()

    def say(text: str) -> None:
        sys.stderr.write(f"{time.monotonic() - began_s:7.1f} s  {text}\n")

    async with AdminClient(cluster.bootstrap) as admin:
        created = await admin.topics.create([NewTopic(TOPIC, PARTITIONS)])
        assert not created.errors, created.errors
    words = _SETTINGS
    if not isinstance(cluster, KafkaCluster):
        words += NO_AUTHORIZER
    gateway = await asyncio.to_thread(GatewayNodes, cluster.bootstrap, _NAME, words)
    with gateway:
        say("three nodes are ready")
        names = [f"commits-{index}" for index in range(groups)]
        commits = CommitLoad(gateway.bootstrap, names, _PACE_S)
        transactions = TransactionLoad(gateway.bootstrap, names, _TRANSACTION_PACE_S)
        members = MemberLoad(gateway.bootstrap, "members", _MEMBER_GROUPS)
        async with commits, transactions, members:
            world = World(
                cluster,
                gateway,
                commits,
                transactions,
                members,
                random,
                say,
                directory,
            )
            await world.ready()
            await members.wait_until_assigned(WAIT_S)
            say("all clients work")
            yield world


async def run(
    jars: Path,
    directory: Path,
    counts: Mapping[str, int],
    *,
    groups: int,
    random: Random,
    upstream: str = NEWEST,
) -> int:
    """Run each scenario by its name and number of times; return the exit code."""
    found: list[Findings] = []
    with running_upstream(upstream, jars, directory / "cluster") as cluster:
        async with started(cluster, directory, groups=groups, random=random) as world:
            for name, times in counts.items():
                if times:
                    findings = await SCENARIOS[name](world, times)
                    found.append(findings)
                    world.say("\n".join((HEADER, findings.row(), *findings.failures)))
            plain = world.commits.histories.values()
            transactions = world.transactions.histories.values()
    lines = [HEADER, *(each.row() for each in found)]
    lines += [failure for each in found for failure in each.failures]
    lines.append(
        f"acknowledged: {sum(len(each.began_s) for each in plain)} commits, "
        f"{sum(len(each.began_s) for each in transactions)} transactions, "
        f"{sum(len(each.aborted) for each in transactions)} aborts"
    )
    refused = Counter[str]()
    for each in transactions:
        refused.update(each.refusals)
    lines += [f"{count} times {error}" for error, count in refused.most_common(10)]
    sys.stdout.write("\n".join(lines) + "\n")
    return int(not all(each.is_clean for each in found))
