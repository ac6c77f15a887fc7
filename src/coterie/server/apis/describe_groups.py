"""DescribeGroups, key 15: versions 0-6 (3: authorised operations, KIP-430)."""

from __future__ import annotations

from collections.abc import Sequence

from coterie.auth.authorizer import Operation
from coterie.coordinator.describe.describe_groups import DescribeGroup
from coterie.server.apis.groups import Gathering, ask, may_group, tell_operations
from coterie.server.call import Call
from coterie.wire.error_codes import ErrorCode
from coterie.wire.messages.describe_groups import (
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)


def handle(call: Call) -> None:
    """Describe each group on its own; one that fails harms no other (C-25, H-113)."""
    request: DescribeGroupsRequest = call.request

    def done(groups: Sequence[DescribedGroup]) -> None:
        tell_operations(call, groups)
        call.answer(DescribeGroupsResponse(groups=list(groups)))

    gathering = Gathering[DescribedGroup](len(request.groups), done)
    for at, group_id in enumerate(request.groups):
        answer = gathering.part(at)
        if may_group(call, Operation.DESCRIBE, group_id):
            ask(call, group_id, DescribeGroup(group_id), answer)
        else:
            code = ErrorCode.GROUP_AUTHORIZATION_FAILED
            answer(DescribedGroup(group_id=group_id, error_code=code))
