"""DeleteGroups: groups with all their offsets, each with an outcome of its own
(KIP-229).

A broker before 1.1 has no such API; then that is the error of each of its groups.
Nothing stands in for it: resetting offsets with a retention of zero was rejected, for
it would leave what it could not see (D-47).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from coterie.client.admin.driver import GroupDriver, Outcomes
from coterie.client.admin.group_values import Node
from coterie.client.admin.refusals import refusal
from coterie.client.admin.results import Progress, Results
from coterie.client.cluster import Cluster
from coterie.errors import ApiError
from coterie.types import GroupId
from coterie.wire.messages.delete_groups import (
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)


async def delete_groups(
    cluster: Cluster,
    group_ids: Iterable[GroupId],
    *,
    progress: Progress | None = None,
) -> Results[GroupId, None]:
    """Delete groups that have no members; the failure of one stops no other."""

    async def ask(node: Node, group_ids: Sequence[GroupId]) -> Outcomes[None]:
        request = DeleteGroupsRequest(groups_names=list(group_ids))
        answer = await cluster.call(request, DeleteGroupsResponse, node_id=node.node_id)
        return {
            each.group_id: _error(each.group_id, each.error_code, each.error_message)
            for each in answer.results
        }

    return await GroupDriver(cluster, ask, progress=progress).run(group_ids)


def _error(group_id: GroupId, number: int, message: str | None) -> ApiError | None:
    if not number:
        return None
    return refusal(number, f"group {group_id}", message)
