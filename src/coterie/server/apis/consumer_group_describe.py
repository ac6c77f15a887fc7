"""ConsumerGroupDescribe, key 69: versions 0-1 (KIP-848); the protocol is off."""

from __future__ import annotations

from coterie.server.call import Call
from coterie.wire.error_codes import ErrorCode
from coterie.wire.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)


def handle(call: Call) -> None:
    """Say of each group that the protocol is off."""
    request: ConsumerGroupDescribeRequest = call.request
    groups = [
        DescribedGroup(group_id=group_id, error_code=ErrorCode.UNSUPPORTED_VERSION)
        for group_id in request.group_ids
    ]
    call.answer(ConsumerGroupDescribeResponse(groups=groups))
