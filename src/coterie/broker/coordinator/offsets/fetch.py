"""OffsetFetch, key 9, for one group: return the group's committed offsets.

The response has the form of v8 and later, one group of many (KIP-709); the server's API
module converts it for older versions. Null topics mean all partitions with an offset,
an empty list means none (A-20, A-21). v7 may require stable offsets (KIP-447). v9 has
the member that fetches, which a consumer group checks and a classic one ignores (A-45,
A-46). v10 identifies topics by id.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from coterie.broker.coordinator.classic.group import GroupState
from coterie.broker.coordinator.offsets.committed import (
    Packed,
    ResponsePartition,
    as_struct,
    response_partition,
    response_without_offset,
    topic_id_of,
)
from coterie.broker.coordinator.offsets.member_check import check_fetch
from coterie.broker.coordinator.result import Context, Result
from coterie.broker.coordinator.state import State
from coterie.errors import ApiError
from coterie.types import GroupId, TopicId, TopicName
from coterie.wire.error_codes import ErrorCode
from coterie.wire.messages.offset_fetch import (
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponseGroup,
    OffsetFetchResponseTopics,
)
from coterie.wire.primitives import EncodedArray
from coterie.wire.schema import ZERO_UUID

PREPARED_SINCE: Final = 8
"""The version from which a partition of the response has the same encoding in every
version."""
TOPIC_IDS_SINCE: Final = 10
RESPONSE_BYTES_MAX: Final = 104_857_600
"""The size from which on no further topics and groups of a request are served. The
response to a request without repeated partitions is smaller, unless the groups have
committed that much metadata."""
REPEATABLE_MAX: Final = 10_000
"""A topic of a request with more partitions must not repeat them."""


class FetchOffsets(NamedTuple):
    """One group of an OffsetFetch request.

    From v10 on a topic without a name is resolved by its id.
    """

    group: OffsetFetchRequestGroup
    require_stable: bool = False


def fetch_offsets(state: State, request: FetchOffsets, context: Context) -> Result:
    """Return the offsets of a group.

    An unknown group (A-40, A-41) and a dead one (A-42) have no offsets, which is not an
    error.

    Raises:
        ApiError: UNKNOWN_MEMBER_ID, STALE_MEMBER_EPOCH, ILLEGAL_GENERATION (A-45);
            INVALID_REQUEST when the response is too large.
    """
    requested = request.group
    reader = _Reader(state, request, context)
    topics = (
        reader.all_topics()
        if requested.topics is None
        else [reader.one_topic(topic) for topic in requested.topics]
    )
    return Result(OffsetFetchResponseGroup(group_id=requested.group_id, topics=topics))


def refuse_fetch(
    request: FetchOffsets, context: Context, code: ErrorCode, message: str | None = None
) -> OffsetFetchResponseGroup:
    """Return the response that carries an error for the group."""
    return OffsetFetchResponseGroup(group_id=request.group.group_id, error_code=code)


class _Reader:
    """The offsets of one group that are visible to one request."""

    __slots__ = (
        "_bytes_left",
        "_group_id",
        "_pending",
        "_stored",
        "_topics",
        "_version",
    )

    def __init__(self, state: State, request: FetchOffsets, context: Context) -> None:
        self._group_id: GroupId = request.group.group_id
        exists = _group_exists(state, request.group)
        self._stored = state.offsets.stored.group(self._group_id) if exists else {}
        pending = state.offsets.pending
        unstable = request.require_stable and pending.has_group(self._group_id)
        self._pending = pending if unstable and exists else None
        self._topics = context.environment.topics
        self._version = context.api_version
        self._bytes_left = RESPONSE_BYTES_MAX

    def all_topics(self) -> list[OffsetFetchResponseTopics]:
        """Return all stored offsets.

        From v10 on a deleted topic is left out, as it has no id.
        """
        responses = []
        by_id = self._version >= TOPIC_IDS_SINCE
        for topic, of_topic in self._stored.items():
            topic_id = self._topics.topic_id(topic) if by_id else ZERO_UUID
            if topic_id is not None:
                partitions = self._partitions(topic, of_topic, of_topic)
                responses.append(self._topic(topic, topic_id, partitions))
        return responses

    def one_topic(
        self, requested: OffsetFetchRequestTopics
    ) -> OffsetFetchResponseTopics:
        """Return the requested partitions, whether they exist or not (A-40)."""
        indexes = requested.partition_indexes
        is_repeated = len(indexes) > REPEATABLE_MAX and len({*indexes}) < len(indexes)
        if is_repeated or self._bytes_left < 0:
            raise ApiError(ErrorCode.INVALID_REQUEST)
        name: TopicName | None = requested.name
        if self._version >= TOPIC_IDS_SINCE and not name:
            name = self._topics.topic_name(requested.topic_id)
        if name is None:
            unknown = [
                response_without_offset(index, ErrorCode.UNKNOWN_TOPIC_ID)
                for index in requested.partition_indexes
            ]
            return self._topic("", requested.topic_id, unknown)
        of_topic = self._stored.get(name, {})
        if of_topic and requested.topic_id != ZERO_UUID:
            of_topic = _of_topic_id(of_topic, requested)
        partitions = self._partitions(name, of_topic, requested.partition_indexes)
        return self._topic(name, requested.topic_id, partitions)

    def _partitions(
        self,
        topic: TopicName,
        of_topic: Mapping[int, Packed],
        wanted: Iterable[int],
    ) -> list[ResponsePartition]:
        if self._pending is not None:
            return [self._stable(topic, of_topic, index) for index in wanted]
        return [
            response_partition(of_topic[index])
            if index in of_topic
            else response_without_offset(index)
            for index in wanted
        ]

    def _stable(
        self, topic: TopicName, of_topic: Mapping[int, Packed], partition: int
    ) -> ResponsePartition:
        assert self._pending is not None
        if self._pending.contains(self._group_id, topic, partition):
            return response_without_offset(partition, ErrorCode.UNSTABLE_OFFSET_COMMIT)
        if partition in of_topic:
            return response_partition(of_topic[partition])
        return response_without_offset(partition)

    def _topic(
        self, name: TopicName, topic_id: TopicId, partitions: list[ResponsePartition]
    ) -> OffsetFetchResponseTopics:
        response = OffsetFetchResponseTopics(name=name, topic_id=topic_id)
        self._bytes_left -= sum(map(len, partitions))
        if self._version >= PREPARED_SINCE:
            prepared: Any = EncodedArray(len(partitions), b"".join(partitions))
            response.partitions = prepared
        else:
            response.partitions = [as_struct(each) for each in partitions]
        return response


def _group_exists(state: State, requested: OffsetFetchRequestGroup) -> bool:
    """Return whether the group exists; raise ApiError if the member may not fetch."""
    group = state.classic_groups.get(requested.group_id)
    if group is not None:
        return group.state is not GroupState.DEAD
    consumer_group = state.consumer_groups.get(requested.group_id)
    if consumer_group is None:
        return False
    check_fetch(consumer_group, requested)
    return True


def _of_topic_id(
    of_topic: Mapping[int, Packed], requested: OffsetFetchRequestTopics
) -> Mapping[int, Packed]:
    """Return the requested offsets, except those of an older topic of the same name."""
    matching = (ZERO_UUID, requested.topic_id)
    return {
        index: of_topic[index]
        for index in requested.partition_indexes
        if index in of_topic and topic_id_of(of_topic[index]) in matching
    }
