"""The faults of nodes and of upstream. Each kind of fault is a function with the world
as argument; the plan selects the kinds of a world.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from coterie.gateway.log.barrier import Barrier, encode_barrier
from coterie.wire.record_batch import stamped
from sim.gateway.node import Node
from sim.gateway.upstream import EPOCH_MAX
from sim.gateway.world import GatewayWorld


def _some_node(world: GatewayWorld) -> Node:
    return world.rng.choice(world.nodes)


# Nodes.


def _kill(world: GatewayWorld) -> None:
    node = _some_node(world)
    longest_ms = world.rng.choice((500, 3 * world.gateway.session_timeout_ms))
    world.kill_node(node, world.rng.randint(0, longest_ms))


def _stop(world: GatewayWorld) -> None:
    """Stop a node's process, as by SIGSTOP, often for longer than its lease."""
    node = _some_node(world)
    longest_ms = world.rng.choice((500, 3 * world.gateway.session_timeout_ms))
    _stop_for(world, node, world.rng.randint(50, longest_ms))


def _stop_for(world: GatewayWorld, node: Node, duration_ms: int) -> None:
    process = node.process
    if process is None or process.loop.is_stopped:
        return
    node.note("stops for", duration_ms, "ms")
    process.loop.stop()
    world.clock.after(duration_ms, process.resume)


def _stutter(world: GatewayWorld) -> None:
    """Make a node's event loop slow for a time."""
    node = _some_node(world)
    for _ in range(world.rng.randint(3, 15)):
        world.clock.after(
            world.rng.randint(0, 4_000),
            lambda: _stop_for(world, node, world.rng.randint(10, 400)),
        )


def _drain(world: GatewayWorld) -> None:
    """Let a node leave its group and end, as at SIGTERM."""
    _drain_node(world, _some_node(world))


def _drain_node(world: GatewayWorld, node: Node) -> None:
    process = node.process
    if process is None or process.loop.is_stopped:
        return
    node.note("leaves")
    process.leave()
    delay_ms = world.rng.randint(0, 3_000)
    down_ms = world.rng.randint(0, 8_000)
    world.clock.after(delay_ms, lambda: world.kill_node(node, down_ms))


# The network between nodes and upstream.


def _cut_off(world: GatewayWorld) -> None:
    """Cut a node off from upstream: from its logs, from its group, or from both."""
    node = _some_node(world)
    links = world.rng.choice(("log", "group", "log group"))
    node.note("has no network to upstream's", links)
    if "log" in links:
        node.cut_off_log()
    if "group" in links:
        world.group.cut_off.add(node.name)
    longest_ms = world.rng.choice((1_000, 3 * world.gateway.session_timeout_ms))
    world.clock.after(world.rng.randint(100, longest_ms), lambda: heal(world, node))


def heal(world: GatewayWorld, node: Node) -> None:
    """Restore a node's network to upstream."""
    node.restore_log()
    world.group.cut_off.discard(node.name)
    world.group.loses_join.discard(node.name)
    world.group.repeats_join.pop(node.name, None)
    world.group.late_answers.pop(node.name, None)


def _lose_join(world: GatewayWorld) -> None:
    """Lose the next JoinGroup of a node, whose heartbeats go on during the rebalance.
    At its end the node is removed, unless it is a static member. Often a node that
    leaves begins the rebalance.
    """
    node = _some_node(world)
    if node.process is None or not node.process.member.is_settled:
        return
    node.note("will lose a JoinGroup")
    world.group.loses_join.add(node.name)
    others = [each for each in world.nodes if each is not node]
    if others and world.rng.random() < 0.5:
        _drain_node(world, world.rng.choice(others))


def _repeat_join(world: GatewayWorld) -> None:
    """Let the next JoinGroup of a node arrive again, when the node may have another
    assignment; a node that leaves or returns begins the rebalances."""
    node = _some_node(world)
    session_ms = world.gateway.session_timeout_ms
    delay_ms = world.rng.randint(200, 2 * session_ms)
    node.note("will repeat a JoinGroup after", delay_ms, "ms")
    world.group.repeats_join[node.name] = delay_ms
    others = [each for each in world.nodes if each is not node]
    if others:
        _drain_node(world, world.rng.choice(others))


def _answer_late(world: GatewayWorld) -> None:
    """Delay the responses of the group's coordinator to a node, and often cut the node
    off from it afterwards, so that the last ones arrive while its session runs out."""
    node = _some_node(world)
    session_ms = world.gateway.session_timeout_ms
    delay_ms = world.rng.randint(session_ms // 20, session_ms // 3)
    node.note("receives responses", delay_ms, "ms later")
    world.group.late_answers[node.name] = delay_ms

    def end() -> None:
        world.group.late_answers.pop(node.name, None)
        if not world.is_calm and world.rng.random() < 0.7:
            node.note("has no network to upstream's group")
            world.group.cut_off.add(node.name)
            world.clock.after(2 * session_ms, lambda: heal(world, node))

    world.clock.after(world.rng.randint(session_ms, 2 * session_ms), end)


def _lose_connections(world: GatewayWorld) -> None:
    process = _some_node(world).process
    if process is not None:
        process.note("loses its connections to upstream")
        for partition in range(world.gateway.shard_count):
            process.upstream.lose_connection(partition)


# Upstream.


def _fail_over(world: GatewayWorld) -> None:
    partition = world.rng.randrange(world.gateway.shard_count)
    down_ms = world.rng.choice((0, 100, 2_000))
    world.note("upstream's partition", partition, "has no leader for", down_ms, "ms")
    world.cluster.fail_over(partition, down_ms)


def _fail_over_group(world: GatewayWorld) -> None:
    world.note("upstream's coordinator of the nodes fails over")
    world.group.fail_over(world.rng.randint(0, 2_000))


def _usurp(world: GatewayWorld) -> None:
    """Take a shard from its owner, as by a gateway with the same name that ends."""
    index = world.rng.randrange(world.gateway.shard_count)
    if world.gateway.last_epoch < EPOCH_MAX or world.cluster.newest_durable(index) < 0:
        return  # upstream fences nothing, or there is no owner yet
    world.note("has another owner of shard", index)
    producer = world.cluster.usurp(f"coterie-sim-{index}")
    now_ms = world.clock.now_ms
    cluster_id = world.cluster.cluster_id
    barrier = Barrier(
        cluster_id=cluster_id,
        node="other",
        partition_count=world.gateway.shard_count,
        time_ms=now_ms,
    )
    first = producer._replace(base_sequence=0)
    batch = stamped(encode_barrier(barrier, now_ms), first)
    world.cluster.append(index, batch, lambda _: None)


def _fence_application(world: GatewayWorld) -> None:
    world.applications.fence()


def _compact(world: GatewayWorld) -> None:
    partition = world.rng.randrange(world.gateway.shard_count)
    world.note("upstream compacts partition", partition)
    world.cluster.compact(partition)


def _upstream_storm(world: GatewayWorld) -> None:
    """Make upstream slow and unreliable for a time."""
    rng = world.rng
    world.note("upstream is unreliable")
    world.cluster.faults = replace(
        world.cluster.faults,
        usual_ms=rng.choice((20, 500)),
        replication_ms=rng.choice((20, 800)),
        refusals=rng.choice((0.0, 0.5)),
        breaks=rng.choice((0.0, 0.3)),
    )

    def end() -> None:
        if not world.is_calm:
            world.cluster.faults = world.gateway.upstream

    world.clock.after(rng.randint(500, 6_000), end)


NODE_KINDS: Final[Sequence[Callable[[GatewayWorld], None]]] = (
    _kill,
    _kill,
    _stop,
    _stop,
    _stutter,
    _drain,
    _cut_off,
    _cut_off,
    _lose_join,
    _repeat_join,
    _answer_late,
    _answer_late,
    _lose_connections,
    _lose_connections,
    _fail_over,
    _fail_over,
    _fail_over_group,
    _usurp,
    _fence_application,
    _fence_application,
    _compact,
    _upstream_storm,
)
