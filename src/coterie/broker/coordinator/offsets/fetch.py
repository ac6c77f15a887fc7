"""OffsetFetch, key 9, for one group: return the group's committed offsets.

The response has the form of v8 and later, one group of many (KIP-709); the server's API
module converts it for older versions. Null topics mean all partitions with an offset,
an empty list means none (A-20, A-21). v7 may require stable offsets (KIP-447). v9 has
the member that fetches, which a consumer group checks and a classic one ignores (A-45,
A-46). v10 identifies topics by id.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final, NamedTuple

from coterie.broker.coordinator.classic.group import GroupState
from coterie.broker.coordinator.offsets.committed import (
    Packed,
    ResponsePartition,
    as_struct,
    join_partitions,
    response_partition,
    response_without_offset,
    topic_id_of,
)
from coterie.broker.coordinator.offsets.member_check import check_fetch
from coterie.broker.coordinator.result import Context, Result
from coterie.broker.coordinator.state import State
from coterie.errors import ApiError
from coterie.types import GroupId, MemberId, TopicId, TopicName
from coterie.wire import messages as m
from coterie.wire.error_codes import ErrorCode
from coterie.wire.primitives import EncodedArray
from coterie.wire.schema import ZERO_UUID

PREPARED_SINCE: Final = 6
"""The version from which a partition of the response has the same encoding in every
version: the first flexible one."""
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

    group: m.OffsetFetchRequestGroup
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
    return Result(
        m.OffsetFetchResponseGroup(group_id=requested.group_id, topics=topics)
    )


def refuse_fetch(
    request: FetchOffsets, context: Context, code: ErrorCode, message: str | None = None
) -> m.OffsetFetchResponseGroup:
    """Return the response that carries an error for the group."""
    return m.OffsetFetchResponseGroup(group_id=request.group.group_id, error_code=code)


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
        group = request.group
        exists = group_exists(
            state, self._group_id, group.member_id, group.member_epoch
        )
        self._stored = state.offsets.stored.group(self._group_id) if exists else {}
        pending = state.offsets.pending
        unstable = request.require_stable and pending.has_group(self._group_id)
        self._pending = pending if unstable and exists else None
        self._topics = context.environment.topics
        self._version = context.api_version
        self._bytes_left = RESPONSE_BYTES_MAX

    def all_topics(self) -> list[m.OffsetFetchResponseTopics]:
        """Return all stored offsets.

        From v10 on a deleted topic is left out, as it has no id.
        """
        responses = []
        by_id = self._version >= TOPIC_IDS_SINCE
        for topic, of_topic in self._stored.items():
            topic_id = self._topics.topic_id(topic) if by_id else ZERO_UUID
            if topic_id is not None:
                responses.append(self._topic(topic, topic_id, of_topic, of_topic))
        return responses

    def one_topic(
        self, requested: m.OffsetFetchRequestTopics
    ) -> m.OffsetFetchResponseTopics:
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
                for index in indexes
            ]
            body = b"".join(unknown)
            return self._prepared("", requested.topic_id, len(unknown), body)
        of_topic = self._stored.get(name, {})
        if of_topic and requested.topic_id != ZERO_UUID:
            of_topic = _of_topic_id(of_topic, requested)
        return self._topic(name, requested.topic_id, of_topic, indexes)

    def _topic(
        self,
        topic: TopicName,
        topic_id: TopicId,
        of_topic: Mapping[int, Packed],
        wanted: Collection[int],
    ) -> m.OffsetFetchResponseTopics:
        """Return the response for the wanted partitions."""
        if self._version < PREPARED_SINCE:
            partitions = [self._partition(topic, of_topic, each) for each in wanted]
            self._bytes_left -= sum(map(len, partitions))
            return m.OffsetFetchResponseTopics(
                name=topic, partitions=[as_struct(each) for each in partitions]
            )
        if self._pending is None:
            body = join_partitions(of_topic, wanted)
        else:
            body = b"".join([self._partition(topic, of_topic, each) for each in wanted])
        return self._prepared(topic, topic_id, len(wanted), body)

    def _prepared(
        self, topic: TopicName, topic_id: TopicId, count: int, body: bytes
    ) -> m.OffsetFetchResponseTopics:
        self._bytes_left -= len(body)
        prepared: Any = EncodedArray(count, body)
        return m.OffsetFetchResponseTopics(
            name=topic, topic_id=topic_id, partitions=prepared
        )

    def _partition(
        self, topic: TopicName, of_topic: Mapping[int, Packed], partition: int
    ) -> ResponsePartition:
        pending = self._pending
        if pending is not None and pending.contains(self._group_id, topic, partition):
            return response_without_offset(partition, ErrorCode.UNSTABLE_OFFSET_COMMIT)
        if partition in of_topic:
            return response_partition(of_topic[partition])
        return response_without_offset(partition)


def group_exists(
    state: State, group_id: GroupId, member_id: MemberId | None, member_epoch: int
) -> bool:
    """Return whether the group exists; raise ApiError if the member may not fetch."""
    group = state.classic_groups.get(group_id)
    if group is not None:
        return group.state is not GroupState.DEAD
    consumer_group = state.consumer_groups.get(group_id)
    if consumer_group is None:
        return False
    check_fetch(consumer_group, member_id, member_epoch)
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
