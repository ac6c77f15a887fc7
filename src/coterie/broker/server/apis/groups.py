"""The APIs of groups and their members.

====================================  =====  =====================================
API                                   key    versions
====================================  =====  =====================================
JoinGroup                             11     0-9 (KIP-394, -345, -559, -800, -814)
Heartbeat                             12     0-4 (KIP-345)
LeaveGroup                            13     0-5 (KIP-345, KIP-800)
SyncGroup                             14     0-5 (KIP-345, KIP-559)
DescribeGroups                        15     0-6 (3: KIP-430)
ListGroups                            16     0-5 (4: KIP-518; 5: KIP-848)
DeleteGroups                          42     0-3 (KIP-229; 3: KIP-1331)
ConsumerGroupHeartbeat                68     0-1 (KIP-848)
ConsumerGroupDescribe                 69     0-1 (KIP-848; 1: KIP-1099)
ConsumerGroupPrepareAssignment        16384  0 (KIP-848; API key is not Kafka's)
ConsumerGroupInstallAssignment        16385  0 (KIP-848; API key is not Kafka's)
====================================  =====  =====================================

The group's shard makes the response; these handlers authorize, and combine the
responses of several shards.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, Protocol

from coterie.auth.acl import Operation, ResourceType
from coterie.broker.coordinator.admin import (
    DeleteGroup,
    DescribeConsumerGroup,
    DescribeGroup,
)
from coterie.broker.server.apis.routing import (
    ResponseCollector,
    respond_with_error,
    submit_to_coordinator,
)
from coterie.broker.server.call import Call, in_slices
from coterie.types import GroupId
from coterie.wire import messages as m
from coterie.wire.error_codes import ErrorCode
from coterie.wire.schema import Struct

CONSUMER_PROTOCOL: Final = "consumer"
_SYNC_NAMES_PROTOCOL_SINCE: Final = 5

# Members.


def serve_member_request(call: Call) -> None:
    """Serve JoinGroup, Heartbeat and LeaveGroup. Requires READ on the group."""
    request = call.request
    if call.authorize_group(Operation.READ, request.group_id):
        submit_to_coordinator(call, request.group_id, request, call.respond)
    else:
        respond_with_error(call, ErrorCode.GROUP_AUTHORIZATION_FAILED)


def sync_group(call: Call) -> None:
    """Serve SyncGroup, whose protocol type and name are mandatory from v5 on.

    As in Kafka's `handleSyncGroupRequest`, they are checked before the principal's
    rights.
    """
    request = call.request
    is_complete = (
        request.protocol_type is not None and request.protocol_name is not None
    )
    if call.api_version >= _SYNC_NAMES_PROTOCOL_SINCE and not is_complete:
        respond_with_error(call, ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    else:
        serve_member_request(call)


def consumer_group_heartbeat(call: Call) -> None:
    """Serve ConsumerGroupHeartbeat.

    It is advertised even when the protocol is disabled: the client then receives
    UNSUPPORTED_VERSION and falls back to the classic protocol.
    """
    request = call.request
    if not _is_consumer_protocol_enabled(call):
        respond_with_error(call, ErrorCode.UNSUPPORTED_VERSION)
    elif not call.authorize_group(Operation.READ, request.group_id):
        respond_with_error(call, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    elif not all(map(call.may_describe, request.subscribed_topic_names or ())):
        respond_with_error(call, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    else:
        submit_to_coordinator(call, request.group_id, request, call.respond)


def serve_client_assignment(call: Call) -> None:
    """Serve ConsumerGroupPrepareAssignment and ConsumerGroupInstallAssignment, which
    `group.consumer.client.assignors.enable` enables."""
    if call.node.broker.settings.group_consumer_client_assignors_enable:
        serve_member_request(call)
    else:
        respond_with_error(call, ErrorCode.UNSUPPORTED_VERSION)


def _is_consumer_protocol_enabled(call: Call) -> bool:
    enabled = call.node.broker.settings.group_coordinator_rebalance_protocols
    return CONSUMER_PROTOCOL in enabled


# List.


@in_slices
def list_groups(call: Call) -> Iterator[None]:
    """List the groups that this node coordinates.

    Groups without DESCRIBE are left out without an error.
    """
    node = call.node
    runtime = node.broker.runtime
    if not runtime.shards:
        respond_with_error(call, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return
    may_describe_all = call.authorize_cluster(Operation.DESCRIBE)

    def done(responses: Sequence[m.ListGroupsResponse]) -> None:
        call.run_in_slices(respond(_merge_lists(responses)))

    def respond(response: m.ListGroupsResponse) -> Iterator[None]:
        if not may_describe_all:
            allowed = []
            for group in response.groups:
                if call.authorize_group(Operation.DESCRIBE, group.group_id):
                    allowed.append(group)
                yield
            response.groups = allowed
        call.respond(response)

    own = [
        partition.index
        for partition in runtime.shards
        if node.broker.shard_node(partition.index) is node
    ]
    collector = ResponseCollector[m.ListGroupsResponse](len(own), done)
    for at, shard in enumerate(own):
        runtime.submit(shard, call.request, call, collector.part(at))
        yield


def _merge_lists(responses: Sequence[m.ListGroupsResponse]) -> m.ListGroupsResponse:
    merged = m.ListGroupsResponse()
    for response in responses:
        if response.error_code == ErrorCode.NOT_COORDINATOR:
            continue  # a stopped shard: its groups are left out, as in Kafka
        if response.error_code:
            return m.ListGroupsResponse(error_code=response.error_code)
        merged.groups += response.groups
    return merged


# Describe.


@in_slices
def describe_groups(call: Call) -> Iterator[None]:
    """Describe each group; an error affects only its own group.

    Kafka describes a repeated id each time, which lets a small request make a response
    of any size. Here it counts once.
    """
    group_ids = list(dict.fromkeys(call.request.groups))

    def done(groups: Sequence[m.DescribedGroup]) -> None:
        response = m.DescribeGroupsResponse(groups=list(groups))
        call.run_in_slices(respond_with_operations(call, groups, response))

    collector = ResponseCollector[m.DescribedGroup](len(group_ids), done)
    for at, group_id in enumerate(group_ids):
        yield
        respond = collector.part(at)
        if call.authorize_group(Operation.DESCRIBE, group_id):
            request = DescribeGroup(group_id, call.request.include_private_fields)
            submit_to_coordinator(call, group_id, request, respond)
        else:
            code = ErrorCode.GROUP_AUTHORIZATION_FAILED
            respond(m.DescribedGroup(group_id=group_id, error_code=code))


@in_slices
def describe_consumer_groups(call: Call) -> Iterator[None]:
    """Describe each group, repeated ids once, by a request to its shard."""
    group_ids = list(dict.fromkeys(call.request.group_ids))

    def done(groups: Sequence[m.DescribedConsumerGroup]) -> None:
        response = m.ConsumerGroupDescribeResponse(groups=list(groups))
        call.run_in_slices(respond_with_operations(call, groups, response))

    collector = ResponseCollector[m.DescribedConsumerGroup](len(group_ids), done)
    for at, group_id in enumerate(group_ids):
        yield
        respond = collector.part(at)
        if code := _describe_error(call, group_id):
            respond(m.DescribedConsumerGroup(group_id=group_id, error_code=code))
        else:
            request = DescribeConsumerGroup(group_id)
            submit_to_coordinator(call, group_id, request, respond)


def _describe_error(call: Call, group_id: GroupId) -> ErrorCode:
    """Return the error of the checks before the group is fetched, in Kafka's order."""
    if not _is_consumer_protocol_enabled(call):
        return ErrorCode.UNSUPPORTED_VERSION
    if not call.authorize_group(Operation.DESCRIBE, group_id):
        return ErrorCode.GROUP_AUTHORIZATION_FAILED
    return ErrorCode.NONE if group_id else ErrorCode.INVALID_GROUP_ID


class _Described(Protocol):
    """A group in a response to an API that describes groups."""

    group_id: GroupId
    error_code: int
    authorized_operations: int


def respond_with_operations(
    call: Call, groups: Iterable[_Described], response: Struct
) -> Iterator[None]:
    """Add the authorized operations when the request includes them (KIP-430), and
    respond."""
    if call.request.include_authorized_operations:
        for group in groups:
            if not group.error_code:
                group.authorized_operations = call.authorized_operations(
                    ResourceType.GROUP, group.group_id
                )
            yield
    call.respond(response)


# Delete.


@in_slices
def delete_groups(call: Call) -> Iterator[None]:
    """Delete each group, with its own result; a repeated id counts once."""
    request: m.DeleteGroupsRequest = call.request
    group_ids = list(dict.fromkeys(request.groups_names))
    collector = ResponseCollector[m.DeletableGroupResult](
        len(group_ids),
        lambda results: call.respond(m.DeleteGroupsResponse(results=list(results))),
    )
    for at, group_id in enumerate(group_ids):
        yield
        respond = collector.part(at)
        if call.authorize_group(Operation.DELETE, group_id):
            submit_to_coordinator(call, group_id, DeleteGroup(group_id), respond)
        else:
            code = ErrorCode.GROUP_AUTHORIZATION_FAILED
            respond(m.DeletableGroupResult(group_id=group_id, error_code=code))
