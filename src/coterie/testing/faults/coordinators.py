"""A coordinator that moves to another node, or back to the only one."""

from __future__ import annotations

from coterie.broker import TRANSACTION_PARTITIONS, Broker, Handler, Node, partition_for
from coterie.testing.faults.error_reply import reply_error
from coterie.testing.faults.fault import Fault, Rule, ServerFault
from coterie.testing.faults.recorded_call import RecordedCall
from coterie.testing.recorder import RecordedRequest
from coterie.wire.error_codes import ErrorCode


class CoordinatorMoves(ServerFault):
    """A coordinator that moved to another node. Its hits are the requests to which the
    old node responded NOT_COORDINATOR. It stays there when the fault is removed."""

    name = "coordinator_moves"

    def __init__(self, rule: Rule) -> None:
        super().__init__(rule, ErrorCode.NOT_COORDINATOR.name)


class CoordinatorReloads(Fault):
    """The same on a server of one node: requests get NOT_COORDINATOR until a client
    that was refused asks for the coordinator."""

    name = "coordinator_moves"

    def __init__(self, rule: Rule) -> None:
        super().__init__(rule)
        self._is_found = False

    def claim(self, recorded: RecordedRequest) -> bool:
        key = self.rule.filter.group or self.rule.filter.transactional_id
        if recorded.api == "FindCoordinator":
            keys = (*recorded.groups, *recorded.transactional_ids)
            self._is_found = self._is_found or (self.hit and key in keys)
        return not self._is_found and super().claim(recorded)

    def apply(self, call: RecordedCall, handler: Handler) -> None:
        reply_error(call, handler, ErrorCode.NOT_COORDINATOR, self.rule.filter)


def move_group(broker: Broker, group: str, node_id: int | None) -> Node:
    """Move the coordinator of a group, and of all groups in the same partition of
    `__consumer_offsets`; return the new node.

    The partition is loaded again from the log, so that joins in progress are lost.
    """
    shard = broker.shard_of(group)
    coordinator = broker.shard_node(shard)
    assert coordinator is not None, "the process has all shards"
    node = _target(broker, coordinator, node_id)
    broker.moved_shards[shard] = node
    broker.runtime.reload_shard(shard)
    return node


def move_transactions(
    broker: Broker, transactional_id: str, node_id: int | None
) -> Node:
    """Move the coordinator of a transactional id; return the new node."""
    partition = partition_for(transactional_id, TRANSACTION_PARTITIONS)
    node = _target(broker, broker.transaction_coordinator(transactional_id), node_id)
    broker.moved_transactions[partition] = node
    return node


def _target(broker: Broker, old: Node, node_id: int | None) -> Node:
    """Return the node with that id, or the one after the old node."""
    nodes = broker.nodes
    if node_id is None:
        return nodes[old.node_id % len(nodes)]
    for node in nodes:
        if node.node_id == node_id:
            return node
    ids = ", ".join(str(node.node_id) for node in nodes)
    raise ValueError(f"there is no node {node_id}; the nodes are {ids}")
