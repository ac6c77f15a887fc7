"""OffsetFetch, key 9, for one group: return the group's committed offsets.

The response has the form of v8 and later, one group of many (KIP-709). Its topics are
encoded in one pass: committed offsets are stored as the bytes of their partitions
(committed.py), which are the same from v6 on. The server's API module converts the
response for versions before v8.

Null topics mean all partitions with an offset, an empty list means none (A-20, A-21).
v7 may require stable offsets (KIP-447). v9 has the member that fetches, which a
consumer group checks and a classic one ignores (A-45, A-46). v10 identifies topics by
id.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

from coterie.broker.coordinator.offsets.committed import (
    Packed,
    join_partitions,
    response_without_offset,
    topic_id_of,
)
from coterie.broker.coordinator.offsets.member_check import check_fetch
from coterie.broker.coordinator.result import Context, Result
from coterie.broker.coordinator.state import State
from coterie.errors import ApiError
from coterie.types import TopicId, TopicName, TopicPartition
from coterie.wire import messages as m
from coterie.wire.error_codes import ErrorCode
from coterie.wire.primitives import EncodedArray, write_length
from coterie.wire.schema import ZERO_UUID

TOPIC_IDS_SINCE: Final = 10
RESPONSE_BYTES_MAX: Final = 104_857_600
"""The size from which on no further topics and groups of a request are served. The
response to a request without repeated partitions is smaller, unless the groups have
committed that much metadata."""
REPEATABLE_MAX: Final = 10_000
"""A topic of a request with more partitions must not repeat them."""
_NO_TAGS: Final = b"\0"
_Offsets: TypeAlias = Mapping[TopicName, Mapping[int, Packed]]
_NO_TOPICS: Final[_Offsets] = {}
_NO_OFFSETS: Final[Mapping[int, Packed]] = {}


class FetchOffsets(NamedTuple):
    """One group of an OffsetFetch request."""

    group: m.OffsetFetchRequestGroup
    require_stable: bool = False


def fetch_offsets(state: State, request: FetchOffsets, context: Context) -> Result:
    """Return the offsets of a group, of the topics that the client may describe.

    An unknown group has no offsets, which is not an error (A-40, A-41).

    Raises:
        ApiError: UNKNOWN_MEMBER_ID, STALE_MEMBER_EPOCH, ILLEGAL_GENERATION (A-45);
            INVALID_REQUEST when the response is too large.
    """
    group, offsets = request.group, state.offsets
    stored: _Offsets = _NO_TOPICS
    unstable: Collection[TopicPartition] = ()
    if _group_exists(state, group):
        stored = offsets.stored.group(group.group_id)
        if request.require_stable:
            unstable = offsets.pending.partitions(group.group_id)
    topics = (
        _all_topics(stored, unstable, context)
        if group.topics is None
        else _requested_topics(group.topics, stored, unstable, context)
    )
    by_id = context.api_version >= TOPIC_IDS_SINCE
    count, parts = 0, []
    for name, topic_id, partition_count, partitions in topics:
        count += 1
        if by_id:
            parts.append(topic_id)
        else:
            text = name.encode()
            parts += (write_length(len(text)), text)
        parts += (write_length(partition_count), partitions, _NO_TAGS)
    encoded: Any = EncodedArray(count, b"".join(parts))
    return Result(m.OffsetFetchResponseGroup(group_id=group.group_id, topics=encoded))


def refuse_fetch(
    request: FetchOffsets, context: Context, code: ErrorCode, message: str | None = None
) -> m.OffsetFetchResponseGroup:
    """Return the response that carries an error for the group."""
    return m.OffsetFetchResponseGroup(group_id=request.group.group_id, error_code=code)


_Topic: TypeAlias = tuple[TopicName, TopicId, int, bytes]
"""A topic of the response: name, id, number of partitions, encoded partitions."""


def _all_topics(
    stored: _Offsets, unstable: Collection[TopicPartition], context: Context
) -> Iterator[_Topic]:
    """Yield all stored offsets, except those of topics that are not authorized.

    From v10 on a deleted topic is left out, as it has no id.
    """
    by_id = context.api_version >= TOPIC_IDS_SINCE
    for name, of_topic in stored.items():
        topics = context.environment.topics
        topic_id = topics.topic_id(name) if by_id else ZERO_UUID
        if topic_id is not None and context.may_describe(name):
            partitions = _partitions(name, of_topic, of_topic, unstable)
            yield name, topic_id, len(of_topic), partitions


def _requested_topics(
    requested: Iterable[m.OffsetFetchRequestTopics],
    stored: _Offsets,
    unstable: Collection[TopicPartition],
    context: Context,
) -> Iterator[_Topic]:
    """Yield the requested partitions, whether they exist or not (A-40)."""
    by_id = context.api_version >= TOPIC_IDS_SINCE
    bytes_left = RESPONSE_BYTES_MAX
    for topic in requested:
        indexes, topic_id = topic.partition_indexes, topic.topic_id
        is_repeated = len(indexes) > REPEATABLE_MAX and len({*indexes}) < len(indexes)
        if is_repeated or bytes_left < 0:
            raise ApiError(ErrorCode.INVALID_REQUEST)
        name: TopicName | None = topic.name
        if by_id:
            name = context.environment.topics.topic_name(topic_id)
        if name is None:
            partitions = _errors(indexes, ErrorCode.UNKNOWN_TOPIC_ID)
        elif not context.may_describe(name):
            partitions = _errors(indexes, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        else:
            of_topic = stored.get(name, _NO_OFFSETS)
            if by_id and of_topic:
                of_topic = _of_topic_id(of_topic, topic)
            partitions = _partitions(name, of_topic, indexes, unstable)
        bytes_left -= len(partitions)
        yield name or "", topic_id, len(indexes), partitions


def _partitions(
    topic: TopicName,
    of_topic: Mapping[int, Packed],
    indexes: Iterable[int],
    unstable: Collection[TopicPartition],
) -> bytes:
    """Return partitions of a topic, with an error for those that are unstable."""
    if not unstable:
        return join_partitions(of_topic, indexes)
    code = ErrorCode.UNSTABLE_OFFSET_COMMIT
    return b"".join(
        [
            response_without_offset(index, code)
            if TopicPartition(topic, index) in unstable
            else join_partitions(of_topic, (index,))
            for index in indexes
        ]
    )


def _errors(indexes: Iterable[int], code: ErrorCode) -> bytes:
    return b"".join([response_without_offset(index, code) for index in indexes])


def _group_exists(state: State, requested: m.OffsetFetchRequestGroup) -> bool:
    """Return whether the group exists; raise ApiError if the member may not fetch."""
    group_id = requested.group_id
    if group_id in state.classic_groups:
        return True
    consumer_group = state.consumer_groups.get(group_id)
    if consumer_group is None:
        return False
    check_fetch(consumer_group, requested.member_id, requested.member_epoch)
    return True


def _of_topic_id(
    of_topic: Mapping[int, Packed], requested: m.OffsetFetchRequestTopics
) -> Mapping[int, Packed]:
    """Return the requested offsets, except those of an older topic of the same name."""
    matching = (ZERO_UUID, requested.topic_id)
    return {
        index: of_topic[index]
        for index in requested.partition_indexes
        if index in of_topic and topic_id_of(of_topic[index]) in matching
    }
