"""The APIs of committed offsets.

============  ===  ==================================================
API           key  versions
============  ===  ==================================================
OffsetCommit  8    2-10 (KIP-211, KIP-345, KIP-848; 10: topic ids)
OffsetFetch   9    1-10 (KIP-88, KIP-447; 8: KIP-709; 10: topic ids)
OffsetDelete  47   0 (KIP-496)
============  ===  ==================================================

Topics that the principal may not access get an error here. The others are submitted to
the group's shard.

Shards respond to OffsetFetch in the shape of v8 and later. For older versions an error
of the group is at the top level from v2 on (A-30), and in v1 in each partition (A-31).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import compress
from typing import Any, Final

from coterie.auth.acl import Operation, ResourceType
from coterie.broker.coordinator.offsets.commit import COMMIT_TYPES
from coterie.broker.coordinator.offsets.deletion import DELETE_TYPES
from coterie.broker.coordinator.offsets.division import Division
from coterie.broker.coordinator.offsets.fetch import (
    RESPONSE_BYTES_MAX,
    FetchOffsets,
)
from coterie.broker.server.apis.routing import (
    ResponseCollector,
    respond_with_error,
    submit_to_coordinator,
)
from coterie.broker.server.call import Call
from coterie.broker.server.offset_fetch_path import WaitingFetch
from coterie.wire import messages as m
from coterie.wire.api import ApiKey, api_of
from coterie.wire.error_codes import ErrorCode
from coterie.wire.plain_commit import PlainCommit
from coterie.wire.primitives import EncodedArray

# Access to an enum's member by name takes 0.1 us in Python 3.11.
_READ: Final = Operation.READ
_GROUP: Final = ResourceType.GROUP
_TOPIC: Final = ResourceType.TOPIC
_COMMIT_TOPIC_IDS_SINCE: Final = 10
_GROUPS_SINCE: Final = 8
_TOP_LEVEL_ERROR_SINCE: Final = 2


# OffsetCommit and OffsetDelete.


def offset_commit(call: Call) -> None:
    """Commit offsets. Requires READ on the group and on each topic (E27)."""
    request = call.request
    if isinstance(request, PlainCommit):
        if (
            not call.node.broker.catalog.client_quotas.has_client_quotas
            and call.authorize(_READ, _GROUP, request.group_id)
            and all(_authorize(call, each, _READ) for each in request.topics)
        ):
            submit_to_coordinator(call, request.group_id, request, call.respond)
            return
        call.request = request.general()  # a part is refused, or has a throttle time
    by_id = call.api_version >= _COMMIT_TOPIC_IDS_SINCE
    division = Division(call.node.broker.catalog, COMMIT_TYPES, by_id=by_id)
    _forward_topics(call, Operation.READ, division)


def offset_delete(call: Call) -> None:
    """Delete committed offsets. Requires DELETE on the group and READ on each topic
    (E27)."""
    division = Division(call.node.broker.catalog, DELETE_TYPES)
    _forward_topics(call, Operation.DELETE, division)


def _forward_topics(call: Call, group_operation: Operation, division: Division) -> None:
    """Submit the topics that the principal may read; the response for the others is
    added to that of the shard."""
    request = call.request
    topics: Sequence[Any] = request.topics
    response_type = api_of(ApiKey(request.API_KEY)).response
    if not call.authorize_group(group_operation, request.group_id):
        code = ErrorCode.GROUP_AUTHORIZATION_FAILED
        if "error_code" in response_type.FIELDS:
            respond_with_error(call, code)
            return
        for topic in topics:
            division.refuse(topic, code)
        call.respond(response_type(topics=division.merge(())))
        return
    allowed = [_authorize(call, topic, Operation.READ) for topic in topics]
    if all(allowed):
        submit_to_coordinator(call, request.group_id, request, call.respond)
        return

    for topic, is_allowed in zip(topics, allowed, strict=True):
        if not is_allowed:
            division.refuse(topic, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    if not any(allowed) and "error_code" not in response_type.FIELDS:
        # No topic is left for the shard, and the response has no error of the group.
        call.respond(response_type(topics=division.merge(())))
        return

    def merge(response: Any) -> None:
        if not getattr(response, "error_code", ErrorCode.NONE):
            response.topics = division.merge(response.topics)
        call.respond(response)

    request.topics = list(compress(topics, allowed))
    submit_to_coordinator(call, request.group_id, request, merge)


def _authorize(call: Call, topic: Any, operation: Operation) -> bool:
    """Return whether an operation is authorized on a topic given by name or by id."""
    name = topic.name
    if not name and getattr(topic, "topic_id", None) is not None:
        name = call.node.broker.catalog.topic_name(topic.topic_id)
        if name is None:
            return True  # the id is unknown: no name to hide
    return call.authorize(operation, _TOPIC, name)


# OffsetFetch.


def offset_fetch(call: Call) -> None:
    """Respond for every group of the request in order, repeated groups included
    (A-51)."""
    if isinstance(call.request, WaitingFetch):
        waiting = call.request
        if waiting.respond(call):
            return
        call.request = waiting.general()
    request: m.OffsetFetchRequest = call.request
    if call.api_version >= _GROUPS_SINCE:
        collector = ResponseCollector[m.OffsetFetchResponseGroup](
            len(request.groups),
            lambda groups: call.respond(m.OffsetFetchResponse(groups=list(groups))),
        )
        _fetch_groups(call, request.groups, collector)
        return
    topics = request.topics
    group = m.OffsetFetchRequestGroup(
        group_id=request.group_id,
        topics=None
        if topics is None
        else [
            m.OffsetFetchRequestTopics(
                name=topic.name, partition_indexes=topic.partition_indexes
            )
            for topic in topics
        ],
    )
    _fetch_group(
        call, group, lambda response: call.respond(_old_response(call, group, response))
    )


def _fetch_groups(
    call: Call,
    groups: Sequence[m.OffsetFetchRequestGroup],
    collector: ResponseCollector[m.OffsetFetchResponseGroup],
) -> None:
    """Fetch the offsets of each group, until the response is too large: a group may be
    repeated."""
    if len(groups) == 1:
        _fetch_group(call, groups[0], collector.part(0))
        return
    bytes_left = RESPONSE_BYTES_MAX

    def take(
        respond: Callable[[m.OffsetFetchResponseGroup], None],
        response: m.OffsetFetchResponseGroup,
    ) -> None:
        nonlocal bytes_left
        for topic in response.topics:
            if isinstance(topic.partitions, EncodedArray):
                bytes_left -= len(topic.partitions.body)
        respond(response)

    for at, group in enumerate(groups):
        respond = collector.part(at)
        if bytes_left > 0:
            _fetch_group(call, group, partial(take, respond))
            continue
        code = ErrorCode.INVALID_REQUEST
        respond(m.OffsetFetchResponseGroup(group_id=group.group_id, error_code=code))


def _fetch_group(
    call: Call,
    group: m.OffsetFetchRequestGroup,
    respond: Callable[[m.OffsetFetchResponseGroup], None],
) -> None:
    """Fetch the offsets of one group. Requires DESCRIBE on it and on each topic
    (E27)."""
    if not call.authorize_group(Operation.DESCRIBE, group.group_id):
        code = ErrorCode.GROUP_AUTHORIZATION_FAILED
        respond(m.OffsetFetchResponseGroup(group_id=group.group_id, error_code=code))
        return
    topics = group.topics
    allowed = [_authorize(call, topic, Operation.DESCRIBE) for topic in topics or ()]
    requested = group
    if topics is not None and not all(allowed):
        requested = m.OffsetFetchRequestGroup(
            group_id=group.group_id,
            member_id=group.member_id,
            member_epoch=group.member_epoch,
            topics=list(compress(topics, allowed)),
        )

    def add_denied(response: m.OffsetFetchResponseGroup) -> None:
        fetched = response.topics
        if not response.error_code and topics is None:
            response.topics = [
                topic
                for topic in fetched
                if _authorize(call, topic, Operation.DESCRIBE)
            ]
        elif not response.error_code and not all(allowed):
            rest = iter(fetched)
            response.topics = [
                next(rest) if is_allowed else _fetch_error(topic)
                for topic, is_allowed in zip(topics or (), allowed, strict=True)
            ]
        respond(response)

    require_stable: bool = call.request.require_stable
    submit_to_coordinator(
        call, group.group_id, FetchOffsets(requested, require_stable), add_denied
    )


def _fetch_error(topic: m.OffsetFetchRequestTopics) -> m.OffsetFetchResponseTopics:
    return m.OffsetFetchResponseTopics(
        name=topic.name,
        topic_id=topic.topic_id,
        partitions=[
            m.OffsetFetchResponsePartitions(
                partition_index=index,
                committed_offset=-1,
                metadata="",
                error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
            )
            for index in topic.partition_indexes
        ],
    )


def _old_response(
    call: Call, requested: m.OffsetFetchRequestGroup, group: m.OffsetFetchResponseGroup
) -> m.OffsetFetchResponse:
    """Convert the response for one group to v1 to v7."""
    code = group.error_code
    if code and call.api_version < _TOP_LEVEL_ERROR_SINCE:
        return m.OffsetFetchResponse(
            topics=[
                m.OffsetFetchResponseTopic(
                    name=topic.name,
                    partitions=[
                        m.OffsetFetchResponsePartition(
                            partition_index=index,
                            committed_offset=-1,
                            metadata="",
                            error_code=code,
                        )
                        for index in topic.partition_indexes
                    ],
                )
                for topic in requested.topics or ()
            ]
        )
    topics = [
        m.OffsetFetchResponseTopic(
            name=topic.name, partitions=_old_partitions(topic.partitions)
        )
        for topic in group.topics
    ]
    return m.OffsetFetchResponse(topics=topics, error_code=code)


def _old_partitions(partitions: Any) -> Any:
    if isinstance(partitions, EncodedArray):
        return partitions
    return [
        m.OffsetFetchResponsePartition(
            partition_index=partition.partition_index,
            committed_offset=partition.committed_offset,
            committed_leader_epoch=partition.committed_leader_epoch,
            metadata=partition.metadata,
            error_code=partition.error_code,
        )
        for partition in partitions
    ]
