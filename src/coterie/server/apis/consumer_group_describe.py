"""ConsumerGroupDescribe, key 69: versions 0-1 (KIP-848; 1: member types, KIP-1099)."""

from __future__ import annotations

from collections.abc import Sequence

from coterie.auth.authorizer import Operation
from coterie.coordinator.describe.describe_consumer_groups import DescribeConsumerGroup
from coterie.server.apis.consumer_group_heartbeat import PROTOCOL
from coterie.server.apis.groups import Gathering, ask, may_group, tell_operations
from coterie.server.call import Call
from coterie.types import GroupId
from coterie.wire.error_codes import ErrorCode
from coterie.wire.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)


def handle(call: Call) -> None:
    """Describe each group on its own, and ask only the shard that has it (F6-11)."""
    request: ConsumerGroupDescribeRequest = call.request

    def done(groups: Sequence[DescribedGroup]) -> None:
        tell_operations(call, groups)
        call.answer(ConsumerGroupDescribeResponse(groups=list(groups)))

    gathering = Gathering[DescribedGroup](len(request.group_ids), done)
    for at, group_id in enumerate(request.group_ids):
        answer = gathering.part(at)
        if code := _refusal(call, group_id):
            answer(DescribedGroup(group_id=group_id, error_code=code))
        else:
            ask(call, group_id, DescribeConsumerGroup(group_id), answer)


def _refusal(call: Call, group_id: GroupId) -> ErrorCode:
    """Why a group is not even looked for, if it is not; in Kafka's order."""
    if PROTOCOL not in call.node.broker.settings.group_coordinator_rebalance_protocols:
        return ErrorCode.UNSUPPORTED_VERSION
    if not may_group(call, Operation.DESCRIBE, group_id):
        return ErrorCode.GROUP_AUTHORIZATION_FAILED
    return ErrorCode.NONE if group_id else ErrorCode.INVALID_GROUP_ID
