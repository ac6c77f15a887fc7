"""The APIs of committed offsets.

============  ===  ==================================================
API           key  versions
============  ===  ==================================================
OffsetCommit  8    2-10 (KIP-211, KIP-345, KIP-848; 10: topic ids)
OffsetFetch   9    1-10 (KIP-88, KIP-447; 8: KIP-709; 10: topic ids)
OffsetDelete  47   0 (KIP-496)
============  ===  ==================================================

In commits and deletions, topics that the principal may not read get an error here, and
the others are submitted to the group's shard. A fetch is submitted with all its topics.

Shards respond to OffsetFetch in the shape of v8 and later. For older versions an error
of the group is at the top level from v2 on, and in v1 in each partition.
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
    respond_with_error,
    submit_to_coordinator,
)
from coterie.broker.server.call import Call
from coterie.wire import messages as m
from coterie.wire.api import ApiKey, api_of
from coterie.wire.codec import decode, encode
from coterie.wire.error_codes import ErrorCode
from coterie.wire.plain_commit import PlainCommit

# Access to an enum's member by name takes 0.1 us in Python 3.11.
_DESCRIBE: Final = Operation.DESCRIBE
_READ: Final = Operation.READ
_GROUP: Final = ResourceType.GROUP
_TOPIC: Final = ResourceType.TOPIC
_COMMIT_TOPIC_IDS_SINCE: Final = 10
_GROUPS_SINCE: Final = 8
_TOP_LEVEL_ERROR_SINCE: Final = 2
_ENCODED_SINCE: Final = 6
"""The version from which topics and their partitions are encoded alike, up to v9."""


# OffsetCommit and OffsetDelete.


def offset_commit(call: Call) -> None:
    """Commit offsets. Requires READ on the group and on each topic."""
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
    """Delete committed offsets. Requires DELETE on the group and READ on each topic."""
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
    """Respond for every group of the request in order, repeated groups included."""
    request: m.OffsetFetchRequest = call.request
    if call.api_version >= _GROUPS_SINCE:
        _fetch_groups(call, request.groups)
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


def _fetch_groups(call: Call, groups: Sequence[m.OffsetFetchRequestGroup]) -> None:
    """Fetch the offsets of each group, until the response is too large: a group may be
    repeated."""
    responses: list[Any] = [None] * len(groups)
    missing, bytes_left = len(groups), RESPONSE_BYTES_MAX

    def take(at: int, response: m.OffsetFetchResponseGroup) -> None:
        nonlocal missing, bytes_left
        assert responses[at] is None, "a group has one response"
        responses[at] = response
        topics: Any = response.topics
        if topics:
            bytes_left -= len(topics.body)
        missing -= 1
        if not missing:
            call.respond(m.OffsetFetchResponse(groups=responses))

    for at, group in enumerate(groups):
        if bytes_left > 0:
            _fetch_group(call, group, partial(take, at))
            continue
        code = ErrorCode.INVALID_REQUEST
        take(at, m.OffsetFetchResponseGroup(group_id=group.group_id, error_code=code))
    if not groups:
        call.respond(m.OffsetFetchResponse())


def _fetch_group(
    call: Call,
    group: m.OffsetFetchRequestGroup,
    respond: Callable[[m.OffsetFetchResponseGroup], None],
) -> None:
    """Fetch the offsets of one group. Requires DESCRIBE on it and on each topic,
    which the shard checks."""
    if not call.authorize(_DESCRIBE, _GROUP, group.group_id):
        code = ErrorCode.GROUP_AUTHORIZATION_FAILED
        respond(m.OffsetFetchResponseGroup(group_id=group.group_id, error_code=code))
        return
    request = FetchOffsets(group, call.request.require_stable)
    submit_to_coordinator(call, group.group_id, request, respond)


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
    topics: Any = group.topics
    response = m.OffsetFetchResponse(topics=topics, error_code=code)
    if call.api_version < _ENCODED_SINCE:
        encoded = encode(response, _ENCODED_SINCE)
        response, _ = decode(m.OffsetFetchResponse, _ENCODED_SINCE, encoded)
    return response
