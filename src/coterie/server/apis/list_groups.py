"""ListGroups, key 16: versions 0-5 (4: state filter, KIP-518; 5: type filter, KIP-848).

A node lists the groups that it coordinates. A shard that it does not coordinate any
more is left out; any other error is that of the whole answer (H-117, E28-06).
"""

from __future__ import annotations

from collections.abc import Sequence

from coterie.auth.authorizer import Operation
from coterie.server.apis.groups import Gathering, may_group
from coterie.server.apis.support import may_cluster
from coterie.server.call import Call
from coterie.wire.error_codes import ErrorCode
from coterie.wire.messages.list_groups import ListGroupsResponse


def handle(call: Call) -> None:
    """List what may be described; what may not is left out without an error (E27)."""
    node = call.node
    runtime = node.broker.runtime
    if not runtime.shards:
        code = ErrorCode.COORDINATOR_NOT_AVAILABLE
        call.answer(runtime.refusal(call.request, call, code))
        return
    sees_all = may_cluster(call, Operation.DESCRIBE)

    def done(answers: Sequence[ListGroupsResponse]) -> None:
        call.answer(_merge(call, answers, sees_all=sees_all))

    own = [
        driven.index
        for driven in runtime.shards
        if node.broker.shard_node(driven.index) is node
    ]
    gathering = Gathering[ListGroupsResponse](len(own), done)
    for at, shard in enumerate(own):
        runtime.submit(shard, call.request, call, gathering.part(at))


def _merge(
    call: Call, answers: Sequence[ListGroupsResponse], *, sees_all: bool
) -> ListGroupsResponse:
    merged = ListGroupsResponse()
    for answer in answers:
        if answer.error_code == ErrorCode.NOT_COORDINATOR:
            continue
        if answer.error_code:
            return ListGroupsResponse(error_code=answer.error_code)
        merged.groups += answer.groups
    if not sees_all:
        merged.groups = [
            group
            for group in merged.groups
            if may_group(call, Operation.DESCRIBE, group.group_id)
        ]
    return merged
