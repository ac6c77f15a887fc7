"""The cluster as its brokers tell it (Metadata, which every version of Kafka has)."""

from __future__ import annotations

from coterie.client.admin.cluster_values import ClusterDescription
from coterie.client.admin.deadline import Deadline
from coterie.client.admin.group_values import Node
from coterie.client.cluster import Cluster


async def describe_cluster(
    cluster: Cluster, deadline: Deadline | None = None
) -> ClusterDescription:
    """Ask any broker for all of them."""
    deadline = deadline or Deadline(cluster)
    answer = await deadline.retrying(lambda: cluster.metadata([]))
    nodes = (
        Node(each.node_id, each.host, each.port, each.rack) for each in answer.brokers
    )
    return ClusterDescription(
        answer.cluster_id, answer.controller_id, tuple(sorted(nodes))
    )
