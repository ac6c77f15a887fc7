"""DeleteGroups, key 42: versions 0-3 (KIP-229; 3: messages, KIP-1331)."""

from __future__ import annotations

from coterie.auth.authorizer import Operation
from coterie.coordinator.describe.delete_groups import DeleteGroup
from coterie.server.apis.groups import Gathering, ask, may_group
from coterie.server.call import Call
from coterie.wire.error_codes import ErrorCode
from coterie.wire.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)


def handle(call: Call) -> None:
    """Delete each group on its own; an id that is repeated counts once (D-13, D-16)."""
    request: DeleteGroupsRequest = call.request
    group_ids = list(dict.fromkeys(request.groups_names))
    gathering = Gathering[DeletableGroupResult](
        len(group_ids),
        lambda results: call.answer(DeleteGroupsResponse(results=list(results))),
    )
    for at, group_id in enumerate(group_ids):
        answer = gathering.part(at)
        if may_group(call, Operation.DELETE, group_id):
            ask(call, group_id, DeleteGroup(group_id), answer)
        else:
            code = ErrorCode.GROUP_AUTHORIZATION_FAILED
            answer(DeletableGroupResult(group_id=group_id, error_code=code))
