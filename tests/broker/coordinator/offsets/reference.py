"""A commit decided with an object for each partition: the reference of the property
test in test_accepted.py.

It shares only the checks of the member with `commit_offsets` and
`commit_transactional_offsets`.
"""

from __future__ import annotations

from typing import Any

from coterie.broker.coordinator.offsets import commit as rows
from coterie.broker.coordinator.offsets.member_check import OlderEpoch
from coterie.broker.coordinator.records import OffsetCommitKey, OffsetCommitValue
from coterie.broker.coordinator.result import Context, Record
from coterie.broker.coordinator.state import State
from coterie.errors import ApiError
from coterie.wire import messages as m
from coterie.wire.commit import Commit, CommitMessage
from coterie.wire.error_codes import ErrorCode

LATEST_MS = 2**63 - 1


class Reference:
    """The records of a commit and its response."""

    def __init__(self, state: State, request: Commit, context: Context) -> None:
        self.state, self.context = state, context
        self.request = request
        self.message: CommitMessage = request.message()
        self.is_transactional = isinstance(self.message, m.TxnOffsetCommitRequest)
        self.by_id = context.api_version >= (6 if self.is_transactional else 10)
        self.errors: dict[Any, Any] = {}
        self.existing: list[tuple[str, bytes, list[Any]]] = []
        self.records: tuple[Record, ...] = ()
        for topic, refused in zip(self.message.topics, request.topics, strict=True):
            self.divide(topic, refused.error_code)

    def divide(self, topic: Any, refused: int) -> None:
        """Divide the partitions of a topic into those that exist and others."""
        view = self.context.environment.topics
        name: Any = view.topic_name(topic.topic_id) if self.by_id else topic.name
        count = None if name is None else view.partition_count(name)
        if refused or count is None:
            unknown = 100 if self.by_id else 3
            self.add_error(
                topic.name, topic.topic_id, topic.partitions, refused or unknown
            )
            return
        topic_id: Any = view.topic_id(name)
        exists = [
            each for each in topic.partitions if 0 <= each.partition_index < count
        ]
        others = [each for each in topic.partitions if each not in exists]
        if others:
            self.add_error(name, topic_id, others, 3)
        if exists:
            self.existing.append((name, topic_id, exists))

    def add_error(self, name: str, topic_id: Any, partitions: Any, code: int) -> None:
        self.add(self.topic(name, topic_id, [(each, code) for each in partitions]))

    def add(self, topic: Any) -> None:
        key = topic.topic_id if self.by_id else topic.name
        present = self.errors.setdefault(key, topic)
        if present is not topic:
            present.partitions += topic.partitions

    def topic(self, name: str, topic_id: bytes, codes: list[tuple[Any, int]]) -> Any:
        partitions = [
            m.OffsetCommitResponsePartition(
                partition_index=each.partition_index, error_code=code
            )
            for each, code in codes
        ]
        cls: Any = m.OffsetCommitResponseTopic
        if self.is_transactional:
            cls = m.TxnOffsetCommitResponseTopic
        return cls(name=name, topic_id=topic_id, partitions=partitions)

    def response(self, topics: list[Any]) -> Any:
        if self.errors:
            for topic in topics:
                self.add(topic)
            topics = [*self.errors.values()]
        if self.is_transactional:
            return m.TxnOffsetCommitResponse(topics=topics)
        return m.OffsetCommitResponse(topics=topics)

    def refused(self, code: int) -> Any:
        """Return the response with an error for all partitions that exist."""
        return self.response(
            [
                self.topic(name, topic_id, [(each, code) for each in partitions])
                for name, topic_id, partitions in self.existing
            ]
        )

    def decide(self) -> Any:
        """Return the response and set the records. Raises ApiError."""
        if not self.existing:
            return self.response([])
        older = self.check_member()
        records: list[Record] = []
        topics = []
        for name, topic_id, partitions in self.existing:
            codes = []
            for each in partitions:
                if self.is_too_long(each.committed_metadata):
                    codes.append((each, 12))
                    continue
                if older is not None and not older.covers(
                    topic_id, each.partition_index
                ):
                    raise ApiError(older.error)
                codes.append((each, 0))
                records.append(self.record(name, topic_id, each))
            topics.append(self.topic(name, topic_id, codes))
        self.records = tuple(records)
        return self.response(topics)

    def check_member(self) -> OlderEpoch | None:
        state, request, context = self.state, self.request, self.context
        if self.is_transactional:
            older = rows._check_transaction(state, request, context)
            if older is not None and context.api_version < 6:
                return older._replace(error=ErrorCode.ILLEGAL_GENERATION)
            return older
        group = state.classic_groups.get(request.group_id)
        if group is None:
            return rows._check_other_group(state, request, context)
        rows.check_classic_member(group, request)
        return None

    def is_too_long(self, metadata: str | None) -> bool:
        limit = self.context.environment.settings.offset_metadata_max_bytes
        if metadata is None:
            return False
        return len(metadata.encode("utf-16-le")) // 2 > limit

    def record(self, name: str, topic_id: bytes, each: Any) -> Record:
        wall_ms, expire_ms = self.context.wall_ms, -1
        message = self.message
        if (
            isinstance(message, m.OffsetCommitRequest)
            and message.retention_time_ms != -1
        ):
            expire_ms = min(wall_ms + message.retention_time_ms, LATEST_MS)
        expires = expire_ms != -1
        value = OffsetCommitValue(
            offset=each.committed_offset,
            leader_epoch=-1 if expires else each.committed_leader_epoch,
            metadata=each.committed_metadata or "",
            commit_timestamp=wall_ms,
            expire_timestamp=expire_ms,
            topic_id=bytes(16) if expires else topic_id,
        )
        key = OffsetCommitKey(
            group=message.group_id, topic=name, partition=each.partition_index
        )
        return Record(key, value, 1 if expires else 4)
