"""The APIs of committed offsets.

============  ===  ==================================================
API           key  versions
============  ===  ==================================================
OffsetCommit  8    2-10 (KIP-211, KIP-345, KIP-848; 10: topic ids)
OffsetFetch   9    1-10 (KIP-88, KIP-447; 8: KIP-709; 10: topic ids)
OffsetDelete  47   0 (KIP-496)
============  ===  ==================================================

Topics of a commit that the principal may not read get their error here, and the group's
shard decides about the others.

Shards respond to OffsetFetch in the shape of v8 and later. For older versions an error
of the group is at the top level from v2 on, and in v1 in each partition.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Final

from coterie.auth.acl import Operation, ResourceType
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
from coterie.broker.server.call import Call, in_slices
from coterie.wire import messages as m
from coterie.wire.codec import decode, encode
from coterie.wire.commit import Commit
from coterie.wire.error_codes import ErrorCode
from coterie.wire.primitives import EncodedArray

# Access to an enum's member by name takes 0.1 us in Python 3.11.
_DESCRIBE: Final = Operation.DESCRIBE
_READ: Final = Operation.READ
_GROUP: Final = ResourceType.GROUP
_TOPIC: Final = ResourceType.TOPIC
_GROUPS_SINCE: Final = 8
_TOP_LEVEL_ERROR_SINCE: Final = 2
_GROUPS_AT_ONCE: Final = 10
_TOPICS_AT_ONCE: Final = 100
"""The topics of a group whose offsets a shard fetches in one iteration of the loop."""
_ENCODED_SINCE: Final = 6
"""The version from which topics and their partitions are encoded alike, up to v9."""


# OffsetCommit and OffsetDelete.


def offset_commit(call: Call) -> None:
    """Commit offsets. Requires READ on the group and on each topic."""
    request: Commit = call.request
    if not call.authorize(_READ, _GROUP, request.group_id):
        request.refuse(ErrorCode.GROUP_AUTHORIZATION_FAILED)
        respond_with_error(call, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    elif authorize_topics(call, request) or not request.topics:
        submit_to_coordinator(call, request.group_id, request, call.respond)
    else:  # no topic is left for the shard, and the response has no error of the group
        respond_with_error(call, ErrorCode.TOPIC_AUTHORIZATION_FAILED)


def authorize_topics(call: Call, request: Commit) -> bool:
    """Refuse the topics that the principal may not read; return whether any is left."""
    is_any_left = False
    for topic in request.topics:
        name: str | None = topic.name
        if request.layout.by_id:
            name = call.node.broker.catalog.topic_name(topic.topic_id)
        # For an unknown id there is no name to hide: the shard responds with an error.
        if not topic.error_code and name and not call.authorize(_READ, _TOPIC, name):
            topic.error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        is_any_left = is_any_left or not topic.error_code
    return is_any_left


@in_slices
def offset_delete(call: Call) -> Iterator[None]:
    """Delete committed offsets. Requires DELETE on the group and READ on each topic:
    the topics that the principal may read are submitted, and the response for the
    others is added to that of the shard."""
    request: m.OffsetDeleteRequest = call.request
    if not call.authorize_group(Operation.DELETE, request.group_id):
        respond_with_error(call, ErrorCode.GROUP_AUTHORIZATION_FAILED)
        return
    division = Division(call.node.broker.catalog)
    allowed = []
    for topic in request.topics:
        yield
        if call.authorize(_READ, _TOPIC, topic.name):
            allowed.append(topic)
        else:
            division.refuse(topic, ErrorCode.TOPIC_AUTHORIZATION_FAILED)

    def merge(response: m.OffsetDeleteResponse) -> None:
        if not response.error_code:
            response.topics = division.merge(response.topics)
        call.respond(response)

    request.topics = allowed
    submit_to_coordinator(call, request.group_id, request, merge)


# OffsetFetch.


def offset_fetch(call: Call) -> None:
    """Respond for every group of the request in order, repeated groups included."""
    request: m.OffsetFetchRequest = call.request
    if call.api_version >= _GROUPS_SINCE:
        steps = _fetch_groups(call, request.groups)
        if len(request.groups) > _GROUPS_AT_ONCE:
            call.run_in_slices(steps)
        else:
            for _ in steps:
                pass
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
    call: Call, groups: Sequence[m.OffsetFetchRequestGroup]
) -> Iterator[None]:
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
        yield
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
    topics, is_stable = group.topics, call.request.require_stable
    if topics is None or len(topics) <= _TOPICS_AT_ONCE:
        request = FetchOffsets(group, is_stable)
        submit_to_coordinator(call, group.group_id, request, respond)
    else:
        call.run_in_slices(_fetch_topics(call, group, topics, respond))


def _fetch_topics(
    call: Call,
    group: m.OffsetFetchRequestGroup,
    topics: Sequence[m.OffsetFetchRequestTopics],
    respond: Callable[[m.OffsetFetchResponseGroup], None],
) -> Iterator[None]:
    """Fetch the offsets of many topics of a group, `_TOPICS_AT_ONCE` at a time."""
    starts = range(0, len(topics), _TOPICS_AT_ONCE)
    collector = ResponseCollector[m.OffsetFetchResponseGroup](
        len(starts), lambda parts: respond(_joined(group, parts))
    )
    bytes_left = RESPONSE_BYTES_MAX

    def take(at: int, response: m.OffsetFetchResponseGroup) -> None:
        nonlocal bytes_left
        encoded: Any = response.topics
        if encoded:
            bytes_left -= len(encoded.body)
        collector.part(at)(response)

    for at, start in enumerate(starts):
        if bytes_left <= 0:
            code = ErrorCode.INVALID_REQUEST
            take(
                at, m.OffsetFetchResponseGroup(group_id=group.group_id, error_code=code)
            )
            continue
        part = m.OffsetFetchRequestGroup(
            group_id=group.group_id,
            member_id=group.member_id,
            member_epoch=group.member_epoch,
            topics=[*topics[start : start + _TOPICS_AT_ONCE]],
        )
        request = FetchOffsets(part, call.request.require_stable)
        submit_to_coordinator(call, group.group_id, request, partial(take, at))
        yield


def _joined(
    group: m.OffsetFetchRequestGroup, parts: Sequence[m.OffsetFetchResponseGroup]
) -> m.OffsetFetchResponseGroup:
    """Join the responses for parts of a group's topics; an error is for all of them."""
    for part in parts:
        if part.error_code:
            return part
    encoded: list[Any] = [part.topics for part in parts]
    topics: Any = EncodedArray(
        sum(each.count for each in encoded), b"".join([each.body for each in encoded])
    )
    return m.OffsetFetchResponseGroup(group_id=group.group_id, topics=topics)


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
