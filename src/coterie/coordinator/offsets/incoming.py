"""What OffsetCommit and TxnOffsetCommit have in common: the checks and the records.

From a version on a request names topics by id (KIP-848); below it, by name. Whether a
topic and its partitions exist is asked of the `TopicView` (E17-08). Everything here
costs the same whatever the size of the group.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeAlias

from coterie.coordinator.classic.group import ClassicGroup, GroupState
from coterie.coordinator.offsets.values import value_version
from coterie.coordinator.records.offset_commit import (
    OffsetCommitKey,
    OffsetCommitValue,
)
from coterie.coordinator.result import Context, Record
from coterie.errors import ApiError
from coterie.types import GroupId, TopicId, TopicName
from coterie.wire.error_codes import ErrorCode
from coterie.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from coterie.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from coterie.wire.schema import ZERO_UUID

# Looking a member of an enum up by its name takes 0.1 us in Python 3.11.
_NONE: Final = ErrorCode.NONE
_DEAD: Final = GroupState.DEAD
_EMPTY: Final = GroupState.EMPTY
_COMPLETING_REBALANCE: Final = GroupState.COMPLETING_REBALANCE


CommitRequest: TypeAlias = OffsetCommitRequest | TxnOffsetCommitRequest
CommitTopic: TypeAlias = OffsetCommitRequestTopic | TxnOffsetCommitRequestTopic
"""A topic of either request. `name` is empty when only its id is known."""
CommitPartition: TypeAlias = (
    OffsetCommitRequestPartition | TxnOffsetCommitRequestPartition
)


def check_committer(
    group: ClassicGroup, committer: CommitRequest, *, transactional: bool
) -> None:
    """Whether this member, or nobody in particular, may commit now (E17-11, E17-12).

    Raises:
        ApiError: COORDINATOR_NOT_AVAILABLE, UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID,
            ILLEGAL_GENERATION, REBALANCE_IN_PROGRESS.
    """
    generation = committer.generation_id_or_member_epoch
    if group.state is _DEAD:
        raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    if generation < 0 and group.state is _EMPTY:
        return  # an admin, or a consumer that assigns partitions to itself
    instance_id = committer.group_instance_id
    if generation >= 0 or committer.member_id or instance_id is not None:
        group.checked_member(committer.member_id, instance_id)
        if generation != group.generation:
            raise ApiError(ErrorCode.ILLEGAL_GENERATION)
    elif not transactional:
        raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
    if group.state is _COMPLETING_REBALANCE and not transactional:
        raise ApiError(ErrorCode.REBALANCE_IN_PROGRESS)


class Topic:
    """A topic of a request as this server knows it: which partitions may be used."""

    __slots__ = ("_by_id", "count", "name", "topic_id")

    def __init__(self, asked: CommitTopic, context: Context, *, by_id: bool) -> None:
        topics = context.topics
        name: TopicName | None = asked.name
        if by_id and not name:
            name = topics.topic_name(asked.topic_id)
        self.name = name or ""
        self.topic_id: TopicId = asked.topic_id if by_id else ZERO_UUID
        self.count = None if name is None else topics.partition_count(name)
        self._by_id = by_id

    def error(self, partition: int) -> ErrorCode:
        """NONE, or why the partition cannot be committed to."""
        if self.count is None and self._by_id:
            return ErrorCode.UNKNOWN_TOPIC_ID
        if self.count is None or not 0 <= partition < self.count:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return _NONE


class Shape(NamedTuple):
    """What an API's answers are made of, and from which version topics go by id."""

    topic: type[Any]
    partition: type[Any]
    topic_ids_since: int


def answer_topics(
    request: CommitRequest,
    context: Context,
    shape: Shape,
    decide: Callable[[Topic, CommitPartition], ErrorCode],
) -> list[Any]:
    """The topics of the answer; `decide` says the code of each partition."""
    by_id = context.api_version >= shape.topic_ids_since
    topics = []
    for asked in request.topics:
        topic = Topic(asked, context, by_id=by_id)
        partitions = [
            shape.partition(
                partition_index=partition.partition_index,
                error_code=decide(topic, partition),
            )
            for partition in asked.partitions
        ]
        topics.append(
            shape.topic(name=topic.name, topic_id=asked.topic_id, partitions=partitions)
        )
    return topics


def refuse_topics(
    request: CommitRequest, context: Context, shape: Shape, code: ErrorCode
) -> list[Any]:
    """The topics of an answer that carries an error for every partition there is."""
    return answer_topics(
        request,
        context,
        shape,
        lambda topic, partition: topic.error(partition.partition_index) or code,
    )


class Incoming:
    """Collects the records of one request. `expire_timestamp_ms` is -1 for none."""

    __slots__ = (
        "_expire_timestamp_ms",
        "_group_id",
        "_metadata_max",
        "_now_ms",
        "records",
    )

    def __init__(
        self, group_id: GroupId, context: Context, expire_timestamp_ms: int = -1
    ) -> None:
        self._group_id = group_id
        self._now_ms = context.now_ms
        self._metadata_max = context.settings.offset_metadata_max_bytes
        self._expire_timestamp_ms = expire_timestamp_ms
        self.records: list[Record] = []

    def take(self, topic: Topic, asked: CommitPartition) -> ErrorCode:
        """Write the commit of one partition, or say why not."""
        index = asked.partition_index
        if topic.count is None or not 0 <= index < topic.count:
            return topic.error(index)
        metadata = asked.committed_metadata or ""
        if metadata and _is_too_long(metadata, self._metadata_max):
            return ErrorCode.OFFSET_METADATA_TOO_LARGE
        expires = self._expire_timestamp_ms != -1
        value = OffsetCommitValue(
            offset=asked.committed_offset,
            # Value version 1 has no epoch, so what expires is not given one either.
            leader_epoch=-1 if expires else asked.committed_leader_epoch,
            metadata=metadata,
            commit_timestamp=self._now_ms,
            expire_timestamp=self._expire_timestamp_ms,
            topic_id=topic.topic_id,
        )
        key = OffsetCommitKey(group=self._group_id, topic=topic.name, partition=index)
        version = value_version(self._expire_timestamp_ms, topic.topic_id)
        self.records.append(Record(key, value, version))
        return _NONE


def _is_too_long(metadata: str, limit: int) -> bool:
    """Kafka counts UTF-16 code units, whatever the setting's name says (H-88)."""
    if len(metadata) > limit:
        return True
    return (
        2 * len(metadata) > limit
        and not metadata.isascii()
        and len(metadata.encode("utf-16-le")) // 2 > limit
    )
