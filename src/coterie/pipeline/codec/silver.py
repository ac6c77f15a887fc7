"""One decoded record as a row of its silver table: the columns after those of AT."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from coterie.coordinator.records.consumer_group_current_member_assignment import (
    ConsumerGroupCurrentMemberAssignmentValue,
)
from coterie.coordinator.records.consumer_group_member_metadata import (
    ConsumerGroupMemberMetadataValue,
)
from coterie.coordinator.records.consumer_group_metadata import (
    ConsumerGroupMetadataValue,
)
from coterie.coordinator.records.consumer_group_partition_metadata import (
    ConsumerGroupPartitionMetadataValue,
)
from coterie.coordinator.records.consumer_group_regular_expression import (
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
)
from coterie.coordinator.records.consumer_group_target_assignment_member import (
    ConsumerGroupTargetAssignmentMemberValue,
)
from coterie.coordinator.records.consumer_group_target_assignment_metadata import (
    ConsumerGroupTargetAssignmentMetadataValue,
)
from coterie.coordinator.records.group_metadata import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
)
from coterie.coordinator.records.offset_commit import (
    OffsetCommitKey,
    OffsetCommitValue,
)
from coterie.pipeline.codec.embedded import (
    CONSUMER,
    assigned_partitions,
    subscribed_topics,
)
from coterie.pipeline.codec.times import time_us
from coterie.pipeline.tables.classic_group_records import CLASSIC_GROUP_RECORDS
from coterie.pipeline.tables.consumer_group_records import CONSUMER_GROUP_RECORDS
from coterie.pipeline.tables.offset_commits import OFFSET_COMMITS
from coterie.pipeline.tables.table import Table
from coterie.pipeline.tables.tombstones import TOMBSTONES
from coterie.wire.schema import ZERO_UUID, Message

Row = dict[str, Any]

_NOT_TOLD: Final = -1


def silver_row(
    record_type: int, key: Message, value: Message | None, version: int
) -> tuple[Table, Row]:
    """The table, and what it says of the record."""
    if value is None:
        return TOMBSTONES, {"record_type": record_type, **_key(key)}
    if isinstance(value, OffsetCommitValue):
        return OFFSET_COMMITS, _key(key) | _offset(value, version)
    if isinstance(value, GroupMetadataValue):
        return CLASSIC_GROUP_RECORDS, _key(key) | _classic(value, version)
    row = _CONSUMER_GROUP[type(value)](value)
    return CONSUMER_GROUP_RECORDS, {"record_type": record_type, **_key(key), **row}


def _key(key: Any) -> Row:
    match key:
        case OffsetCommitKey():
            return {
                "group_id": key.group,
                "topic": key.topic,
                "partition": key.partition,
            }
        case GroupMetadataKey():
            return {"group_id": key.group}
        case ConsumerGroupRegularExpressionKey():
            return {"group_id": key.group_id, "regex": key.regular_expression}
    member = {"member_id": key.member_id} if hasattr(key, "member_id") else {}
    return {"group_id": key.group_id} | member


def _offset(value: OffsetCommitValue, version: int) -> Row:
    return {
        "committed_offset": value.offset,
        "leader_epoch": _told(value.leader_epoch),
        "metadata": value.metadata,
        "commit_ts": time_us(value.commit_timestamp),
        "expire_ts": time_us(value.expire_timestamp),
        "topic_id": _topic_id(value.topic_id),
        "value_version": version,
    }


def _classic(value: GroupMetadataValue, version: int) -> Row:
    reads = value.protocol_type == CONSUMER
    return {
        "protocol_type": value.protocol_type,
        "generation": value.generation,
        "protocol": value.protocol,
        "leader_id": value.leader,
        "state_ts": time_us(value.current_state_timestamp),
        "members": [_member(each, reads=reads) for each in value.members],
        "value_version": version,
    }


def _member(member: MemberMetadata, *, reads: bool) -> Row:
    return {
        "member_id": member.member_id,
        "instance_id": member.group_instance_id,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "rebalance_timeout_ms": _told(member.rebalance_timeout),
        "session_timeout_ms": member.session_timeout,
        "subscription": member.subscription,
        "subscribed_topics": subscribed_topics(member.subscription) if reads else None,
        "assignment": member.assignment,
        "assigned": assigned_partitions(member.assignment) if reads else None,
    }


def _group_epoch(value: ConsumerGroupMetadataValue) -> Row:
    return {
        "group_epoch": value.epoch,
        "metadata_hash": value.metadata_hash,
        "created_ts": time_us(value.creation_time_ms),
    }


def _topics(value: ConsumerGroupPartitionMetadataValue) -> Row:
    topics = [
        {
            "topic_id": _topic_id(each.topic_id),
            "topic": each.topic_name,
            "partitions": each.num_partitions,
        }
        for each in value.topics
    ]
    return {"topics_metadata": topics}


def _member_metadata(value: ConsumerGroupMemberMetadataValue) -> Row:
    classic = value.classic_member_metadata
    return {
        "instance_id": value.instance_id,
        "rack_id": value.rack_id,
        "client_id": value.client_id,
        "client_host": value.client_host,
        "subscribed_topics": value.subscribed_topic_names,
        "subscribed_regex": value.subscribed_topic_regex,
        "rebalance_timeout_ms": _told(value.rebalance_timeout_ms),
        "server_assignor": value.server_assignor,
        "session_timeout_ms": classic and classic.session_timeout_ms,
        "classic_protocols": classic
        and [
            {"name": each.name, "metadata": each.metadata}
            for each in classic.supported_protocols
        ],
    }


def _target_epoch(value: ConsumerGroupTargetAssignmentMetadataValue) -> Row:
    computed_ms = value.assignment_timestamp or _NOT_TOLD
    return {
        "assignment_epoch": value.assignment_epoch,
        "assignment_ts": time_us(computed_ms),
    }


def _target(value: ConsumerGroupTargetAssignmentMemberValue) -> Row:
    return {"assigned": _partitions(value.topic_partitions)}


def _current(value: ConsumerGroupCurrentMemberAssignmentValue) -> Row:
    return {
        "assigned": _partitions(value.assigned_partitions),
        "pending_revocation": _partitions(value.partitions_pending_revocation),
        "member_epoch": value.member_epoch,
        "previous_member_epoch": value.previous_member_epoch,
        "member_state": value.state,
    }


def _regex(value: ConsumerGroupRegularExpressionValue) -> Row:
    return {
        "regex_topics": value.topics,
        "regex_version": value.version,
        "regex_ts": time_us(value.timestamp),
    }


_CONSUMER_GROUP: Final[Mapping[type[Message], Callable[[Any], Row]]] = {
    ConsumerGroupMetadataValue: _group_epoch,
    ConsumerGroupPartitionMetadataValue: _topics,
    ConsumerGroupMemberMetadataValue: _member_metadata,
    ConsumerGroupTargetAssignmentMetadataValue: _target_epoch,
    ConsumerGroupTargetAssignmentMemberValue: _target,
    ConsumerGroupCurrentMemberAssignmentValue: _current,
    ConsumerGroupRegularExpressionValue: _regex,
}


def _told(number: int) -> int | None:
    return None if number == _NOT_TOLD else number


def _topic_id(topic_id: bytes) -> str | None:
    return None if topic_id == ZERO_UUID else topic_id.hex()


def _partitions(topics: Iterable[Any]) -> list[Row]:
    return [
        {"topic_id": _topic_id(each.topic_id), "topic": None, "partition": partition}
        for each in topics
        for partition in each.partitions
    ]
