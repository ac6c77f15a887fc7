"""The APIs of share groups and their members (KIP-932).

====================  ===  ========
API                   key  versions
====================  ===  ========
ShareGroupHeartbeat   76   1
ShareGroupDescribe    77   1
====================  ===  ========

The group's shard makes the response; these handlers authorize. The order of a
heartbeat's errors is that of Kafka's `KafkaApis.handleShareGroupHeartbeat`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from coterie.auth.acl import Operation
from coterie.broker.coordinator.share.admin import DescribeShareGroup
from coterie.broker.server.apis.groups import respond_with_operations
from coterie.broker.server.apis.routing import (
    ResponseCollector,
    respond_with_error,
    submit_to_coordinator,
)
from coterie.broker.server.call import Call, in_slices
from coterie.types import GroupId
from coterie.wire import messages as m
from coterie.wire.error_codes import ErrorCode

MEMBER_ID_MAX: Final = 36
"""The largest length of a member id: that of a UUID in hex."""


def share_group_heartbeat(call: Call) -> None:
    """Serve ShareGroupHeartbeat. Requires READ on the group, and DESCRIBE on the
    topics."""
    request: m.ShareGroupHeartbeatRequest = call.request
    if not call.authorize_group(Operation.READ, request.group_id):
        respond_with_error(call, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    elif not is_member_id(request.member_id):
        respond_with_error(call, ErrorCode.INVALID_REQUEST)
    elif not all(map(call.may_describe, request.subscribed_topic_names or ())):
        respond_with_error(call, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    else:
        submit_to_coordinator(call, request.group_id, request, call.respond)


def is_member_id(member_id: str | None) -> bool:
    """Return whether a client may choose this id for a member of a share group."""
    return member_id is not None and 0 < len(member_id) <= MEMBER_ID_MAX


@in_slices
def describe_share_groups(call: Call) -> Iterator[None]:
    """Describe each group, repeated ids once, by a request to its shard.

    Groups that the principal may not describe come first, as in Kafka.
    """
    allowed: list[GroupId] = []
    refused: list[m.DescribedShareGroup] = []
    for group_id in dict.fromkeys(call.request.group_ids):
        yield
        if call.authorize_group(Operation.DESCRIBE, group_id):
            allowed.append(group_id)
        else:
            code = ErrorCode.GROUP_AUTHORIZATION_FAILED
            refused.append(m.DescribedShareGroup(group_id=group_id, error_code=code))

    def done(groups: Sequence[m.DescribedShareGroup]) -> None:
        response = m.ShareGroupDescribeResponse(groups=[*refused, *groups])
        call.run_in_slices(respond_with_operations(call, groups, response))

    collector = ResponseCollector[m.DescribedShareGroup](len(allowed), done)
    for at, group_id in enumerate(allowed):
        yield
        respond = collector.part(at)
        if group_id:
            request = DescribeShareGroup(group_id)
            submit_to_coordinator(call, group_id, request, respond)
        else:
            code = ErrorCode.INVALID_GROUP_ID
            respond(m.DescribedShareGroup(group_id=group_id, error_code=code))
