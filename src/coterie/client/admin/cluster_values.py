"""The cluster itself, as an operator sees it."""

from __future__ import annotations

from dataclasses import dataclass

from coterie.client.admin.group_values import Node


@dataclass(frozen=True, slots=True)
class ClusterDescription:
    """The brokers that are there, by their ids. `cluster_id` is None on brokers before
    0.10.1; `controller_id` is -1 when there is none, or none is told."""

    cluster_id: str | None
    controller_id: int
    nodes: tuple[Node, ...]
