"""OffsetFetch, key 9, for one group: how far it has read.

The answer has the shape of v8 and later, one group of many (KIP-709); the server's API
module puts older versions around it. Topics that are null mean all partitions with an
offset, an empty list means none (A-20, A-21). v7 may require stable offsets (KIP-447),
v9 says who asks, which a consumer group checks and a classic one ignores (A-45, A-46),
v10 names topics by id.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from coterie.coordinator.classic.group import GroupState
from coterie.coordinator.offsets.member_check import check_fetch
from coterie.coordinator.offsets.packed import (
    Answer,
    Packed,
    answer,
    as_struct,
    no_answer,
    topic_id_of,
)
from coterie.coordinator.result import Context, Result
from coterie.coordinator.state import State
from coterie.types import GroupId, TopicId, TopicName
from coterie.wire.error_codes import ErrorCode
from coterie.wire.messages.offset_fetch import (
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponseGroup,
    OffsetFetchResponseTopics,
)
from coterie.wire.primitives import Prepared
from coterie.wire.schema import ZERO_UUID

PREPARED_SINCE: Final = 8
"""From here on a partition's answer has the same bytes in each version."""
TOPIC_IDS_SINCE: Final = 10


class FetchOffsets(NamedTuple):
    """One group of an OffsetFetch request.

    Topics are named, or below v10 always; from v10 a name that is empty is looked up.
    """

    group: OffsetFetchRequestGroup
    require_stable: bool = False


def handle(state: State, request: FetchOffsets, context: Context) -> Result:
    """Answer with the offsets; an unknown group has none, which is no error (A-40,
    A-41), and so has a dead one (A-42).

    Raises:
        ApiError: UNKNOWN_MEMBER_ID, STALE_MEMBER_EPOCH, ILLEGAL_GENERATION (A-45).
    """
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

    __slots__ = ("_group_id", "_pending", "_stored", "_topics", "_version")

    def __init__(self, state: State, request: FetchOffsets, context: Context) -> None:
        self._group_id: GroupId = request.group.group_id
        is_known = _is_known(state, request.group)
        self._stored = state.offsets.stored.group(self._group_id) if is_known else {}
        pending = state.offsets.pending
        unstable = request.require_stable and pending.has_group(self._group_id)
        self._pending = pending if unstable and is_known else None
        self._topics = context.topics
        self._version = context.api_version

    def every_topic(self) -> list[OffsetFetchResponseTopics]:
        """All stored offsets. By id, a topic that is gone has no name to go by."""
        answers = []
        by_id = self._version >= TOPIC_IDS_SINCE
        for topic, of_topic in self._stored.items():
            topic_id = self._topics.topic_id(topic) if by_id else ZERO_UUID
            if topic_id is not None:
                partitions = self._partitions(topic, of_topic, of_topic)
                answers.append(self._topic(topic, topic_id, partitions))
        return answers

    def one_topic(self, asked: OffsetFetchRequestTopics) -> OffsetFetchResponseTopics:
        """The partitions asked for, whether they exist or not (A-40)."""
        name: TopicName | None = asked.name
        if self._version >= TOPIC_IDS_SINCE and not name:
            name = self._topics.topic_name(asked.topic_id)
        if name is None:
            unknown = ErrorCode.UNKNOWN_TOPIC_ID
            answers = [no_answer(index, unknown) for index in asked.partition_indexes]
            return self._topic("", asked.topic_id, answers)
        of_topic = self._stored.get(name, {})
        if of_topic and asked.topic_id != ZERO_UUID:
            of_topic = _of_topic_id(of_topic, asked)
        answers = self._partitions(name, of_topic, asked.partition_indexes)
        return self._topic(name, asked.topic_id, answers)

    def _partitions(
        self,
        topic: TopicName,
        of_topic: Mapping[int, Packed],
        wanted: Iterable[int],
    ) -> list[Answer]:
        if self._pending is not None:
            return [self._stable(topic, of_topic, index) for index in wanted]
        return [
            answer(of_topic[index]) if index in of_topic else no_answer(index)
            for index in wanted
        ]

    def _stable(
        self, topic: TopicName, of_topic: Mapping[int, Packed], partition: int
    ) -> Answer:
        assert self._pending is not None
        if self._pending.contains(self._group_id, topic, partition):
            return no_answer(partition, ErrorCode.UNSTABLE_OFFSET_COMMIT)
        if partition in of_topic:
            return answer(of_topic[partition])
        return no_answer(partition)

    def _topic(
        self, name: TopicName, topic_id: TopicId, answers: list[Answer]
    ) -> OffsetFetchResponseTopics:
        response = OffsetFetchResponseTopics(name=name, topic_id=topic_id)
        if self._version >= PREPARED_SINCE:
            prepared: Any = Prepared(len(answers), b"".join(answers))
            response.partitions = prepared
        else:
            response.partitions = [as_struct(each) for each in answers]
        return response


def _is_known(state: State, asked: OffsetFetchRequestGroup) -> bool:
    """Whether there may be offsets. Raises ApiError if this member may not see them."""
    group = state.classic_groups.get(asked.group_id)
    if group is not None:
        return group.state is not GroupState.DEAD
    consumer_group = state.consumer_groups.get(asked.group_id)
    if consumer_group is None:
        return False
    check_fetch(consumer_group, asked)
    return True


def _of_topic_id(
    of_topic: Mapping[int, Packed], asked: OffsetFetchRequestTopics
) -> Mapping[int, Packed]:
    """What is asked for, without the offsets of an older topic of the same name."""
    right = (ZERO_UUID, asked.topic_id)
    return {
        index: of_topic[index]
        for index in asked.partition_indexes
        if index in of_topic and topic_id_of(of_topic[index]) in right
    }
