"""Failures of nodes and brokers under load, each repeated some times."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Final, NamedTuple

from coterie.client.admin.admin_client import AdminClient
from coterie.types import GroupId
from coterie.wire import messages as m
from coterie.wire.error_codes import ErrorCode
from tests.broker.server.harness import WireClient
from tests.interop.gateway.cluster import ClusterBroker
from tests.interop.gateway.nodes import GatewayNodes, GatewayProcess
from tests.interop.gateway.upstreams import Upstream

from .history import percentile
from .load import (
    CommitLoad,
    MemberLoad,
    commit_request,
    fetch_request,
    until,
)
from .transactions import TransactionLoad

WAIT_S: Final = 90.0
_ZOMBIE_PARTITION: Final = 1
"""The partition of the commits that are sent to a paused node; clients use 0."""
_NAMED_COMMIT: Final = 9
_NAMED_FETCH: Final = 9
_REPLICAS: Final = 3


@dataclass(slots=True)
class Findings:
    """What one kind of failure led to."""

    name: str
    count: int = 0
    recoveries_s: list[float] = field(default_factory=list)
    """For each failure and group concerned, the time until a commit succeeded."""
    lost: int = 0
    """Fetches that returned less than what was acknowledged; records that were not
    copied."""
    repeated: int = 0
    """Records that were copied twice."""
    hung: int = 0
    """Workers that did not end."""
    overlaps: int = 0
    """Partitions that had two owners."""
    stale_answers: int = 0
    accepted_writes: int = 0
    refused_by_zombie: int = 0
    failures: list[str] = field(default_factory=list)

    @property
    def is_clean(self) -> bool:
        """Whether nothing happened that must not."""
        return not any(self._counts) and not self.failures

    @property
    def _counts(self) -> tuple[int, ...]:
        clients = (self.lost, self.repeated, self.hung)
        return (*clients, self.overlaps, self.stale_answers, self.accepted_writes)

    def row(self) -> str:
        """Return a line of the table."""
        times = [0.0, 0.0, 0.0]
        if self.recoveries_s:
            times = [percentile(self.recoveries_s, each) for each in (0.5, 0.95, 1)]
        return (
            f"{self.name:<33} {self.count:>5} "
            + " ".join(f"{each:>7}" for each in self._counts)
            + " "
            + " ".join(f"{each:>6.1f}" for each in times)
        )


HEADER: Final = (
    f"{'failure':<33} {'count':>5} {'lost':>7} {'twice':>7} {'hung':>7} {'2-owner':>7} "
    f"{'stale':>7} {'written':>7} {'p50':>6} {'p95':>6} {'max':>6}"
)


class World(NamedTuple):
    """A cluster, a gateway in front of it, and clients of the gateway."""

    cluster: Upstream
    gateway: GatewayNodes
    commits: CommitLoad
    transactions: TransactionLoad
    members: MemberLoad
    random: Random
    say: Callable[[str], None]
    directory: Path
    """For logs of clients."""

    async def finish(self, findings: Findings) -> Findings:
        """Add what the clients have seen since the last call."""
        await self.commits.check_all(WAIT_S)
        await self.transactions.wait_for_commits(WAIT_S)
        await self.members.wait_until_assigned(WAIT_S)
        lost = [*self.commits.lost, *self.transactions.lost]
        findings.lost += len(lost)
        findings.overlaps += self.members.take_overlaps()
        findings.failures += [*lost, *self.members.failures]
        self.commits.lost.clear()
        self.transactions.lost.clear()
        self.members.failures.clear()
        return findings

    async def recover(
        self, findings: Findings, groups: Sequence[GroupId], moment_s: float
    ) -> None:
        """Wait until groups have new commits, and note how long it took."""
        histories = [self.commits.histories[group] for group in groups]
        await until(
            lambda: all(each.recovery_s(moment_s) is not None for each in histories),
            WAIT_S,
        )
        for each in histories:
            found = each.recovery_s(moment_s)
            assert found is not None
            findings.recoveries_s.append(found)

    async def ready(self) -> None:
        """Wait until every node is ready and every group has had a commit."""
        await asyncio.to_thread(self.gateway.wait_until_ready)
        await self.commits.wait_for_commits(WAIT_S)


# Nodes.


async def kill_nodes(world: World, times: int) -> Findings:
    """Kill a node with SIGKILL, and start it again once its groups work."""
    return await _end_nodes(world, times, Findings("node killed"), GatewayProcess.kill)


async def stop_nodes(world: World, times: int) -> Findings:
    """Stop a node with SIGTERM, which drains it, and start it again."""
    findings = Findings("node stopped (SIGTERM)")
    return await _end_nodes(world, times, findings, GatewayProcess.stop)


async def _end_nodes(
    world: World,
    times: int,
    findings: Findings,
    end: Callable[[GatewayProcess], object],
) -> Findings:
    for _ in range(times):
        index, node, groups = await _some_node(world)
        moment_s = time.monotonic()
        await asyncio.to_thread(end, node)
        await world.recover(findings, groups, moment_s)
        await asyncio.to_thread(world.gateway.restart, index)
        await world.ready()
        findings.count += 1
        world.say(f"{findings.name}: node {index}, {findings.recoveries_s[-1]:.1f} s")
    return await world.finish(findings)


async def pause_nodes(world: World, times: int) -> Findings:
    """Pause a node until others have its groups; let it continue with requests that
    were sent meanwhile, and compare its answers."""
    findings = Findings("node paused (SIGSTOP)")
    for turn in range(times):
        index, node, groups = await _some_node(world)
        host, port = node.addresses[0]
        with WireClient(host, port, wait_s=WAIT_S) as zombie:
            moment_s = time.monotonic()
            node.pause()
            try:
                await world.recover(findings, groups, moment_s)
                known = {each: world.commits.histories[each] for each in groups}
                acknowledged = {g: each.acknowledged for g, each in known.items()}
                for group in groups:
                    zombie.send(fetch_request([group], [0]), _NAMED_FETCH)
                    commit = commit_request(group, {_ZOMBIE_PARTITION: turn + 1})
                    zombie.send(commit, _NAMED_COMMIT)
            finally:
                node.resume()
            accepted = await asyncio.to_thread(
                _read_answers, zombie, groups, acknowledged, findings
            )
        await world.ready()
        findings.accepted_writes += await _lost_writes(world, accepted, turn + 1)
        findings.count += 1
        world.say(f"paused node {index}: {findings.recoveries_s[-1]:.1f} s")
    return await world.finish(findings)


def _read_answers(
    zombie: WireClient,
    groups: Sequence[GroupId],
    acknowledged: dict[GroupId, int],
    findings: Findings,
) -> list[GroupId]:
    """Read what the node answers after its pause; return the groups with a commit that
    it acknowledged."""
    accepted = []
    try:
        for group in groups:
            fetched: m.OffsetFetchResponse = zombie.receive()
            [each] = fetched.groups
            if each.error_code:
                findings.refused_by_zombie += 1
            elif each.topics[0].partitions[0].committed_offset < acknowledged[group]:
                findings.stale_answers += 1
            committed: m.OffsetCommitResponse = zombie.receive()
            code = committed.topics[0].partitions[0].error_code
            if code == ErrorCode.NONE:
                accepted.append(group)
            else:
                findings.refused_by_zombie += 1
    except (EOFError, OSError):
        findings.refused_by_zombie += 1
    return accepted


async def _lost_writes(world: World, groups: Sequence[GroupId], offset: int) -> int:
    """Return how many acknowledged commits are not what the coordinator returns."""
    lost = 0
    for group in groups:
        lost += await world.commits.fetch(group, _ZOMBIE_PARTITION, WAIT_S) != offset
    return lost


async def _some_node(world: World) -> tuple[int, GatewayProcess, list[GroupId]]:
    """Return a node at random, and the groups whose coordinator it is."""
    while True:
        index = world.random.randrange(len(world.gateway.nodes))
        node = world.gateway.nodes[index]
        groups = world.commits.groups_at(node.addresses[0][1])
        if groups:
            return index, node, groups
        await world.commits.wait_for_commits(WAIT_S)


# Brokers of the upstream cluster.


async def kill_brokers(world: World, times: int) -> Findings:
    """Kill a broker of the upstream cluster, and start it again once all groups
    work."""
    findings = Findings("upstream broker killed")
    for turn in range(times):
        broker = world.cluster.brokers[turn % len(world.cluster.brokers) + 1]
        moment_s = time.monotonic()
        await asyncio.to_thread(broker.kill)
        await world.recover(findings, list(world.commits.histories), moment_s)
        await asyncio.to_thread(_restart, broker)
        await _replicated(world)
        await world.ready()
        findings.count += 1
        slowest = max(findings.recoveries_s[-len(world.commits.histories) :])
        world.say(f"killed broker {broker.node_id}: {slowest:.1f} s")
    return await world.finish(findings)


def _restart(broker: ClusterBroker) -> None:
    broker.start()


async def _replicated(world: World) -> None:
    """Wait until every replica of the gateway's topic is in sync, so that the next
    failure is one of one broker."""
    topic = f"__coterie_{world.gateway.name}"
    async with AdminClient(world.cluster.bootstrap) as admin, asyncio.timeout(WAIT_S):
        while True:
            described = (await admin.describe_topics([topic])).values.get(topic)
            if described is not None and all(
                len(each.in_sync) == _REPLICAS for each in described.partitions
            ):
                return
            await asyncio.sleep(0.2)
