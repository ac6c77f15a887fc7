"""Run a world of several nodes in three phases: faults, calm, order.

When the faults stop, every shard must have an owner that serves it, and every group
must be usable, within a bound. At the end upstream's log is compared with the states.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Final

from coterie.broker.runtime.shards import Phase
from coterie.gateway.log.barrier import Barrier, encode_barrier
from coterie.wire.record_batch import Producer, stamped
from sim.broken import Broken
from sim.faults import MEMBER_KINDS, Faults
from sim.gateway.faults import NODE_KINDS, heal
from sim.gateway.upstream import UpstreamFaults
from sim.gateway.world import GatewayWorld
from sim.network import NetworkFaults
from sim.phases import (
    ARRIVE_WITHIN_MS,
    LATE_MS,
    commit_with_all,
    repair_members,
    wait_for_order,
)

_COMPARE_EVERY_MS: Final = 10_000
_CHECK_EVERY_MS: Final = 500
_START_WITHIN_MS: Final = 3_000


def run_gateway_world(world: GatewayWorld) -> None:
    """Run a world: faults for a time, then no faults until it has settled, within a
    bound.

    Raise Broken; the transcript then shows the events before it.
    """
    world.note("begins:", f"seed {world.seed}, {world.gateway}")
    world.group.start()
    _write_foreign_barrier(world)
    for node in world.nodes:
        delay_ms = world.rng.randint(0, _START_WITHIN_MS)
        world.clock.after(delay_ms, partial(world.start_node, node))
    for slot in world.slots:
        delay_ms = world.rng.randint(0, ARRIVE_WITHIN_MS)
        world.clock.after(delay_ms, partial(world.start_member, slot))
    _compare_later(world)
    Faults(world, NODE_KINDS).begin(world.gateway.fault_kinds)
    Faults(world, MEMBER_KINDS).begin(world.plan.fault_kinds)
    world.advance(world.plan.trouble_ms)
    _calm_down(world)
    _wait_for_owners(world)
    if world.gateway.foreign_shard is not None:
        return  # the groups of that shard are not served
    world.advance(LATE_MS)
    _check_transactions(world)
    repair_members(world)
    wait_for_order(world)
    commit_with_all(world)
    for process in world.processes():
        world.gateway_checker.compare(process, world.rng)


def _check_transactions(world: GatewayWorld) -> None:
    """Raise Broken unless all transactions have ended at every owner."""
    for each in world.cluster.transactions.transactions:
        if not each.is_over:
            raise Broken(
                f"a transaction of producer {each.producer_id} with epoch "
                f"{each.producer_epoch} is open in the shards {sorted(each.shards)}"
            )


def _write_foreign_barrier(world: GatewayWorld) -> None:
    """Write a barrier of another cluster, as into a copied topic."""
    index = world.gateway.foreign_shard
    if index is None:
        return
    now_ms = world.clock.now_ms
    barrier = Barrier(
        cluster_id="another cluster",
        node="n0",
        partition_count=world.gateway.shard_count,
        time_ms=now_ms,
    )
    batch = encode_barrier(barrier, now_ms)
    log = world.cluster.partitions[index]
    log.append(stamped(batch, Producer(1, 0, 0)), now_ms)
    log.replicate(log.end)


def _compare_later(world: GatewayWorld) -> None:
    delay_ms = world.rng.randint(1, _COMPARE_EVERY_MS)
    world.clock.after(delay_ms, partial(_compare, world))


def _compare(world: GatewayWorld) -> None:
    if world.is_calm:
        return
    for process in world.processes():
        world.gateway_checker.compare(process, world.rng)
    _compare_later(world)


def _calm_down(world: GatewayWorld) -> None:
    """Stop all faults."""
    world.is_calm = True
    world.transcript.add(world.clock.now_ms, "world", "is calm from now on")
    world.network.faults = NetworkFaults()
    world.group.network.faults = NetworkFaults()
    world.cluster.faults = replace(
        UpstreamFaults(), late_ms=world.gateway.upstream.late_ms
    )
    world.server_environment.assignors_fail = False
    world.applications.end_all()
    for node in world.nodes:
        heal(world, node)
        world.start_node(node)
        if node.process is not None:
            node.process.resume()
    for slot in world.slots:
        if slot.member is not None:
            slot.member.resume()
    world.settle()


def _wait_for_owners(world: GatewayWorld) -> None:
    """Wait until every shard is served. Raise Broken after the bound."""
    ends_ms = world.clock.now_ms + world.gateway.usable_within_ms
    while (unserved := _find_unserved(world)) is not None:
        if world.clock.now_ms >= ends_ms:
            raise Broken(
                f"{world.gateway.usable_within_ms} ms after the last fault: {unserved}"
            )
        world.advance(_CHECK_EVERY_MS)


def _find_unserved(world: GatewayWorld) -> str | None:
    for index in range(world.gateway.shard_count):
        if index == world.gateway.foreign_shard:
            continue
        newest = world.cluster.newest_durable(index)
        serving = [
            process.name
            for process in world.processes()
            if process.runtime.shards[index].phase is Phase.ACTIVE
            and process.has_lease
            and process.order(index) == newest
        ]
        if len(serving) != 1:
            return f"shard {index} is served by {serving or 'no node'}"
    return None
