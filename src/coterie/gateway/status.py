"""The status of one gateway node, and when it is ready.

`/status` serves `NodeStatus.document`; `coterie gateway status` joins those of all
nodes. `/ready` serves `readiness`.

Rules of this file: no I/O. The node passes functions that read its current state.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from coterie.gateway.counts import GatewayCounts
from coterie.gateway.view import View

SCHEMA: Final = "coterie.gateway.node"
ASSIGNED: Final = "assigned"
TAKING_OVER: Final = "taking-over"
LOADING: Final = "loading"
ACTIVE: Final = "active"
FAILED: Final = "failed"
PHASES: Final = (ASSIGNED, TAKING_OVER, LOADING, ACTIVE, FAILED)
"""The phases of a shard that is assigned to a node."""


class ShardStatus(NamedTuple):
    """One shard that is assigned to the node."""

    shard: int
    phase: str
    """One of `PHASES`."""
    epoch: int
    """The producer epoch that fences earlier owners; -1 before it is known."""
    offset: int
    """The offset up to which the shard's partition was replayed."""
    end_offset: int
    """The offset after the node's barrier, where replaying ends; -1 before it is
    written."""
    since_ms: int
    """Time in this phase."""


@dataclass(slots=True, kw_only=True)
class NodeStatus:
    """The functions that read a node's state, and what does not change."""

    gateway: str
    node: str
    version: str
    cluster_id: str
    """The id of the upstream cluster."""
    view: Callable[[], View]
    shards: Callable[[], Sequence[ShardStatus]]
    """The shards that are assigned to this node."""
    lease_ms: Callable[[], int]
    """Time until the node stops serving without another heartbeat; 0 without a
    lease."""
    counts: GatewayCounts
    is_stopping: bool = False
    """Whether the node is giving its shards to others."""

    def document(self) -> tuple[bool, Mapping[str, Any]]:
        """Return True and the status as JSON."""
        view, counts = self.view(), self.counts
        return True, {
            "schema": SCHEMA,
            "schema_version": 1,
            "gateway": self.gateway,
            "node": self.node,
            "version": self.version,
            "cluster_id": self.cluster_id,
            "generation": view.generation,
            "lease_ms": self.lease_ms(),
            "stopping": self.is_stopping,
            "nodes": [each.name for each in view.nodes],
            "shards": [each._asdict() for each in self.shards()],
            "takeovers": counts.takeovers,
            "failed_takeovers": counts.failed_takeovers,
            "fenced": counts.fenced,
            "lapsed_leases": counts.lapsed_leases,
        }

    def readiness(self) -> tuple[bool, Mapping[str, Any]]:
        """Return whether the node serves its even share of the shards, and what is
        missing.

        Other nodes stay ready while one joins or leaves: only nodes whose own shards
        change are not ready until the new ones are active.
        """
        view, shards = self.view(), self.shards()
        phases = Counter(each.phase for each in shards)
        missing = []
        if self.is_stopping:
            missing.append("the node is stopping")
        if not view.nodes:
            missing.append("the node has not joined the group of the nodes")
        lease_ms = self.lease_ms()
        if not lease_ms:
            missing.append("the lease has ended: upstream answers no heartbeats")
        if phases[ACTIVE] < len(shards):
            missing.append(f"{phases[ACTIVE]} of {len(shards)} shards are active")
        share = len(view.owners) // len(view.nodes) if view.nodes else 0
        if len(shards) < share:
            missing.append(f"{len(shards)} shards are assigned, of a share of {share}")
        return not missing, {
            "status": "not ready" if missing else "ready",
            "missing": missing,
            "shards": dict(phases),
            "generation": view.generation,
            "lease_ms": lease_ms,
        }
