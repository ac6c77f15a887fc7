"""A committed offset, and the record it is in the log."""

from __future__ import annotations

from typing import Final, NamedTuple

from coterie.coordinator.records.offset_commit import (
    OffsetCommitKey,
    OffsetCommitValue,
)
from coterie.coordinator.result import Origin, Record
from coterie.types import LogOffset, TopicId
from coterie.wire.schema import ZERO_UUID

_EXPIRING_VERSION: Final = 1
_NAMED_VERSION: Final = 3
_IDENTIFIED_VERSION: Final = 4


class CommittedOffset(NamedTuple):
    """What a group committed for one partition.

    `record_offset` is where the commit stands in the log. `expire_timestamp_ms` is -1
    but for commits of versions 2 to 4 that asked for a retention of their own.
    `topic_id` is zero when the commit named the topic (below v10).
    """

    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp_ms: int
    expire_timestamp_ms: int = -1
    record_offset: LogOffset = -1
    topic_id: TopicId = ZERO_UUID


def to_record(key: OffsetCommitKey, committed: CommittedOffset) -> Record:
    """The record of a commit."""
    value = OffsetCommitValue(
        offset=committed.offset,
        leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
        commit_timestamp=committed.commit_timestamp_ms,
        expire_timestamp=committed.expire_timestamp_ms,
        topic_id=committed.topic_id,
    )
    version = value_version(committed.expire_timestamp_ms, committed.topic_id)
    return Record(key, value, version)


def from_record(value: OffsetCommitValue, origin: Origin) -> CommittedOffset:
    """The commit of a record that stands at `origin`."""
    return CommittedOffset(
        value.offset,
        value.leader_epoch,
        value.metadata,
        value.commit_timestamp,
        value.expire_timestamp,
        origin.log_offset,
        value.topic_id,
    )


def value_version(expire_timestamp_ms: int, topic_id: TopicId) -> int:
    """The oldest version of a value that can say it, as Kafka chooses (E22.2).

    Version 1 alone has an expire timestamp, and no leader epoch; version 4 alone has a
    topic id.
    """
    if expire_timestamp_ms != -1:
        return _EXPIRING_VERSION
    return _NAMED_VERSION if topic_id == ZERO_UUID else _IDENTIFIED_VERSION
