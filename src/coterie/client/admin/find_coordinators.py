"""Which broker coordinates which group (KIP-699)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from coterie.client.admin.driver import GroupDriver, Outcomes
from coterie.client.admin.group_values import Node
from coterie.client.admin.results import Results
from coterie.client.cluster import Cluster
from coterie.types import GroupId


async def find_coordinators(
    cluster: Cluster, group_ids: Iterable[GroupId]
) -> Results[GroupId, Node]:
    """Ask anew: what was known of these groups before is forgotten."""
    wanted = list(group_ids)
    for each in wanted:
        cluster.forget_coordinator(each)
    return await GroupDriver(cluster, _there).run(wanted)


async def _there(node: Node, group_ids: Sequence[GroupId]) -> Outcomes[Node]:
    return dict.fromkeys(group_ids, node)
