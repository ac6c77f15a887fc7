"""The assignments that the leader of the nodes makes from the metadata of all members.

A shard moves between two live nodes in two rebalances, as partitions do in KIP-429. A
node that joins tells which shards it may serve. The leader gives none of these to
another node: such a shard has no owner in this generation, so the node that serves it
releases it and joins again, and the next generation has the new owner. Shards of a node
that is no member any more have no such claim, and move at once.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from coterie.client import JoinedMember
from coterie.errors import MalformedFrame
from coterie.gateway.node_protocol import NodeAssignment, NodeMetadata, read_metadata
from coterie.gateway.shard_assignment import (
    NO_CLAIM,
    Claim,
    assign_shards,
    owners_of,
)
from coterie.gateway.view import View
from coterie.types import MemberId

_LOGGER = logging.getLogger(__name__)


def assign_nodes(
    members: Sequence[JoinedMember], shard_count: int, previous: View
) -> dict[MemberId, NodeAssignment]:
    """Return the assignments that follow from the metadata of all members.

    A node that has just restarted claims what it owned in the `previous` view of the
    leader. A member whose metadata cannot be read gets no shard, and neither does one
    whose name a process has that was started later, or that is about to leave. A shard
    that another member still serves has no owner, until that one has released it.
    """
    metadata = _read_all(members)
    nodes: dict[str, MemberId] = {}
    for member_id, each in metadata.items():
        known = nodes.get(each.info.name)
        if known is None or each.started_ms > metadata[known].started_ms:
            nodes[each.info.name] = member_id
    before = _claims_of(previous)
    claims = {
        name: before.get(name, NO_CLAIM)
        if metadata[member_id].generation < 0
        else Claim(
            frozenset(metadata[member_id].shards), metadata[member_id].generation
        )
        for name, member_id in nodes.items()
        if not metadata[member_id].is_leaving
    }
    assigned = assign_shards(claims, shard_count)
    served = {
        member_id: _served(each, before.get(each.info.name, NO_CLAIM))
        for member_id, each in metadata.items()
    }
    blocked: dict[MemberId, frozenset[int]] = {}
    for member_id, each in metadata.items():
        is_node = nodes[each.info.name] == member_id
        own = assigned.get(each.info.name) if is_node else None
        blocked[member_id] = served[member_id] - (own or frozenset())
    every = frozenset().union(*blocked.values())
    free = {
        name: shards - (every - served[nodes[name]])
        for name, shards in assigned.items()
    }
    names = sorted(nodes)
    owners = owners_of(free, names, shard_count)
    view = View(tuple(metadata[nodes[name]].info for name in names), owners, -1)
    none = view._replace(owners=(-1,) * shard_count)
    is_interim = any(blocked.values())
    return {
        member_id: NodeAssignment(
            view if nodes[each.info.name] == member_id else none,
            is_interim,
            bool(blocked[member_id]),
        )
        for member_id, each in metadata.items()
    }


def _read_all(members: Sequence[JoinedMember]) -> dict[MemberId, NodeMetadata]:
    read: dict[MemberId, NodeMetadata] = {}
    for member in sorted(members, key=lambda each: each.member_id):
        try:
            read[member.member_id] = read_metadata(member.metadata)
        except MalformedFrame as error:
            _LOGGER.error("member %s is no node: %s", member.member_id, error)
    return read


def _served(metadata: NodeMetadata, before: Claim) -> frozenset[int]:
    """Return the shards that a member may serve now.

    Metadata that is older than the leader's view is that of a JoinGroup that arrived
    late, or of a member that has not received its last assignment: the member may serve
    by either.
    """
    served = frozenset(metadata.shards) if metadata.is_serving else frozenset()
    if 0 <= metadata.generation < before.generation:
        served |= frozenset(before.shards)
    return served


def _claims_of(view: View) -> dict[str, Claim]:
    return {
        node.name: Claim(view.shards_of(node.name), view.generation)
        for node in view.nodes
    }
