"""OffsetFetch, key 9, for one group: how far it has read.

The answer has the shape of v8 and later, one group of many (KIP-709); the server's API
module puts older versions around it. Topics that are null mean all partitions with an
offset, an empty list means none (A-20, A-21). v7 may require stable offsets (KIP-447),
v9 says who asks, which a classic group ignores (A-46), v10 names topics by id.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from coterie.coordinator.classic.group import GroupState
from coterie.coordinator.offsets.store import CommittedOffset
from coterie.coordinator.result import Context, Result
from coterie.coordinator.state import State
from coterie.types import GroupId, TopicId, TopicName
from coterie.wire.error_codes import ErrorCode
from coterie.wire.messages.offset_fetch import (
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from coterie.wire.schema import ZERO_UUID

TOPIC_IDS_SINCE: Final = 10
NO_OFFSET: Final = -1


class FetchOffsets(NamedTuple):
    """One group of an OffsetFetch request.

    Topics are named, or below v10 always; from v10 a name that is empty is looked up.
    """

    group: OffsetFetchRequestGroup
    require_stable: bool = False


def handle(state: State, request: FetchOffsets, context: Context) -> Result:
    """Answer with the offsets; an unknown group has none, which is no error (A-40,
    A-41), and so has a dead one (A-42)."""
    asked = request.group
    reader = _Reader(state, request, context)
    topics = (
        reader.every_topic()
        if asked.topics is None
        else [reader.one_topic(topic) for topic in asked.topics]
    )
    return Result(OffsetFetchResponseGroup(group_id=asked.group_id, topics=topics))


def refuse(request: FetchOffsets, code: ErrorCode) -> OffsetFetchResponseGroup:
    """The answer that carries an error for the group."""
    return OffsetFetchResponseGroup(group_id=request.group.group_id, error_code=code)


class _Reader:
    """Reads the offsets of one group as one request wants them."""

    __slots__ = ("_by_id", "_group_id", "_pending", "_stored", "_topics")

    def __init__(self, state: State, request: FetchOffsets, context: Context) -> None:
        self._group_id: GroupId = request.group.group_id
        group = state.groups.get(self._group_id)
        is_known = group is not None and group.state is not GroupState.DEAD
        self._stored = state.offsets.stored.group(self._group_id) if is_known else {}
        pending = state.offsets.pending
        unstable = request.require_stable and pending.has_group(self._group_id)
        self._pending = pending if unstable and is_known else None
        self._topics = context.topics
        self._by_id = context.api_version >= TOPIC_IDS_SINCE

    def every_topic(self) -> list[OffsetFetchResponseTopics]:
        """All stored offsets. By id, a topic that is gone has no name to go by."""
        answer = []
        for topic, of_topic in self._stored.items():
            topic_id = self._topics.topic_id(topic) if self._by_id else ZERO_UUID
            if topic_id is None:
                continue
            partitions = [
                self._partition(topic, partition, committed)
                for partition, committed in of_topic.items()
            ]
            answer.append(_topic(topic, topic_id, partitions))
        return answer

    def one_topic(self, asked: OffsetFetchRequestTopics) -> OffsetFetchResponseTopics:
        """The partitions asked for, whether they exist or not (A-40)."""
        name: TopicName | None = asked.name
        if self._by_id and not name:
            name = self._topics.topic_name(asked.topic_id)
        if name is None:
            partitions = [
                _nothing(partition, ErrorCode.UNKNOWN_TOPIC_ID)
                for partition in asked.partition_indexes
            ]
            return _topic("", asked.topic_id, partitions)
        of_topic = self._stored.get(name, {})
        partitions = [
            self._partition(
                name, partition, _of_topic_id(of_topic.get(partition), asked.topic_id)
            )
            for partition in asked.partition_indexes
        ]
        return _topic(name, asked.topic_id, partitions)

    def _partition(
        self, topic: TopicName, partition: int, committed: CommittedOffset | None
    ) -> OffsetFetchResponsePartitions:
        if self._pending is not None and self._pending.contains(
            self._group_id, topic, partition
        ):
            return _nothing(partition, ErrorCode.UNSTABLE_OFFSET_COMMIT)
        if committed is None:
            return _nothing(partition)
        return OffsetFetchResponsePartitions(
            partition_index=partition,
            committed_offset=committed.offset,
            committed_leader_epoch=committed.leader_epoch,
            metadata=committed.metadata,
        )


def _of_topic_id(
    committed: CommittedOffset | None, topic_id: TopicId
) -> CommittedOffset | None:
    """The offset, unless it is that of an older topic of the same name."""
    if committed is None or ZERO_UUID in (committed.topic_id, topic_id):
        return committed
    return committed if committed.topic_id == topic_id else None


def _nothing(
    partition: int, code: ErrorCode = ErrorCode.NONE
) -> OffsetFetchResponsePartitions:
    return OffsetFetchResponsePartitions(
        partition_index=partition,
        committed_offset=NO_OFFSET,
        metadata="",
        error_code=code,
    )


def _topic(
    name: TopicName, topic_id: TopicId, partitions: list[OffsetFetchResponsePartitions]
) -> OffsetFetchResponseTopics:
    return OffsetFetchResponseTopics(
        name=name, topic_id=topic_id, partitions=partitions
    )
