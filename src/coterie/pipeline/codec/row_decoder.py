"""Decode rows of the table `records` to silver rows one by one, with `coterie.records`.
The vectorized decoder of `decode` is tested against this one.

A record that cannot be decoded becomes a row of `quarantine`, never an error (K-01b,
E22-04). Bytes after the end of a key or a value are ignored, as in Apache Kafka's
reader.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from coterie.broker.coordinator.records import (
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataValue,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataValue,
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
)
from coterie.pipeline.tables.ingested import (
    CLASSIC_GROUP_RECORDS,
    CONSUMER_GROUP_RECORDS,
    OFFSET_COMMITS,
    QUARANTINE,
    RECORD_COLUMNS,
    TOMBSTONES,
)
from coterie.pipeline.tables.table import TIME_MS_MAX, Table
from coterie.records import (
    CONSUMER,
    SHARE_GROUP_TYPES,
    UNKNOWN_TYPE,
    Unreadable,
    decode,
    decode_embedded,
)
from coterie.wire import messages as m
from coterie.wire.schema import ZERO_UUID, Message

SILVER_TABLES: Final = (
    OFFSET_COMMITS,
    CLASSIC_GROUP_RECORDS,
    CONSUMER_GROUP_RECORDS,
    TOMBSTONES,
    QUARANTINE,
)
"""The tables that records are decoded to."""
_EMPTY: Final = {
    table.name: pa.RecordBatch.from_pylist([], table.schema) for table in SILVER_TABLES
}
ABORTED: Final = "aborted"
_NONE: Final = -1
"""Kafka's value for an absent number."""

Row = dict[str, Any]


def visible_rows(records: Any) -> Any:
    """Return the indexes of records that a read_committed consumer would return."""
    is_control = np.asarray(records["is_control"].to_numpy(zero_copy_only=False))
    outcome = records["outcome"]
    if outcome.null_count == len(outcome):
        return np.flatnonzero(~is_control)
    aborted = pc.fill_null(pc.equal(outcome, ABORTED), fill_value=False)
    return np.flatnonzero(~(is_control | aborted.to_numpy(zero_copy_only=False)))


def decode_rows(records: Any, which: Any) -> dict[str, tuple[Any, Any]]:
    """Decode the rows at some indexes; return, for each silver table, its rows and the
    index of the record of each row.
    """
    found: dict[str, tuple[list[int], list[Row]]] = {
        table.name: ([], []) for table in SILVER_TABLES
    }
    columns = ("key", "value", "is_transactional", "producer_id")
    some = (records[name].take(pa.array(which)).to_pylist() for name in columns)
    for index, *record in zip(which.tolist(), *some, strict=True):
        key, value, is_transactional, producer_id = record
        result = _of_share_group(key) or decode(key, value)
        if isinstance(result, Unreadable):
            table = QUARANTINE
            row = {**result._asdict(), "key": key, "value": value}
        else:
            table, row = silver_row(result[0], *result[1])
        if table is OFFSET_COMMITS:
            row["is_transactional"] = is_transactional
            row["producer_id"] = producer_id if is_transactional else None
        indexes, rows = found[table.name]
        indexes.append(index)
        rows.append(row)
    return {
        table.name: (
            np.array(found[table.name][0], np.int64),
            _batch(table, records, *found[table.name]),
        )
        for table in SILVER_TABLES
    }


def _of_share_group(key: bytes | None) -> Unreadable | None:
    """Return a record of a share group as unreadable: there is no table for them."""
    record_type = int.from_bytes((key or b"")[:2], "big")
    if record_type not in SHARE_GROUP_TYPES:
        return None
    return Unreadable(
        UNKNOWN_TYPE, f"type {record_type} is of share groups", record_type
    )


def _batch(
    table: Table,
    records: Any,
    indexes: Sequence[int],
    rows: Sequence[Mapping[str, Any]],
) -> Any:
    """Return rows with the columns of their records added."""
    if not rows:
        return _EMPTY[table.name]
    shared = {column.name for column in RECORD_COLUMNS} & set(records.schema.names)
    places = pa.array(indexes, pa.int64())
    own = [field for field in table.schema if field.name not in shared]
    fields = [pa.field(each.name, each.type) for each in own]
    columns = dict(
        zip(
            (each.name for each in own),
            pa.array(rows, pa.struct(fields)).flatten(),
            strict=True,
        )
    )
    arrays = [
        columns[name] if name in columns else records[name].take(places)
        for name in table.schema.names
    ]
    return pa.record_batch(arrays, schema=table.schema)


def silver_row(
    record_type: int, key: Any, value: Message | None, version: int
) -> tuple[Table, Row]:
    """Return the table of a record and its columns besides RECORD_COLUMNS."""
    match key:
        case OffsetCommitKey():
            row: Row = {
                "group_id": key.group,
                "topic": key.topic,
                "partition": key.partition,
            }
        case GroupMetadataKey():
            row = {"group_id": key.group}
        case ConsumerGroupRegularExpressionKey():
            row = {"group_id": key.group_id, "regex": key.regular_expression}
        case _:
            row = {"group_id": key.group_id}
            if hasattr(key, "member_id"):
                row["member_id"] = key.member_id
    if value is None:
        return TOMBSTONES, row | {"record_type": record_type}
    if isinstance(value, OffsetCommitValue):
        return OFFSET_COMMITS, row | {
            "committed_offset": value.offset,
            "leader_epoch": _optional(value.leader_epoch),
            "metadata": value.metadata,
            "commit_ts": time_us(value.commit_timestamp),
            "expire_ts": _expiry_us(value.expire_timestamp),
            "topic_id": _topic_id(value.topic_id),
            "value_version": version,
        }
    if isinstance(value, GroupMetadataValue):
        decodes = value.protocol_type == CONSUMER
        return CLASSIC_GROUP_RECORDS, row | {
            "protocol_type": value.protocol_type,
            "generation": value.generation,
            "protocol": value.protocol,
            "leader_id": value.leader,
            "state_ts": time_us(value.current_state_timestamp),
            "members": [_member(each, decodes=decodes) for each in value.members],
            "value_version": version,
        }
    columns = {"record_type": record_type, **_consumer_group_columns(value)}
    return CONSUMER_GROUP_RECORDS, row | columns


def _member(member: MemberMetadata, *, decodes: bool) -> Row:
    assigned = assigned_partitions(member.assignment) if decodes else None
    return {
        "member_id": member.member_id,
        "instance_id": member.group_instance_id,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "rebalance_timeout_ms": _optional(member.rebalance_timeout),
        "session_timeout_ms": member.session_timeout,
        "subscription": member.subscription,
        "subscribed_topics": (
            subscribed_topics(member.subscription) if decodes else None
        ),
        "assignment": member.assignment,
        "assigned": assigned,
    }


def _consumer_group_columns(value: Message) -> Row:
    match value:
        case ConsumerGroupMetadataValue():
            return {
                "group_epoch": value.epoch,
                "metadata_hash": value.metadata_hash,
                "created_ts": time_us(value.creation_time_ms),
            }
        case ConsumerGroupPartitionMetadataValue():
            topics = [
                {
                    "topic_id": _topic_id(each.topic_id),
                    "topic": each.topic_name,
                    "partitions": each.num_partitions,
                }
                for each in value.topics
            ]
            return {"topics_metadata": topics}
        case ConsumerGroupMemberMetadataValue():
            classic = value.classic_member_metadata
            return {
                "instance_id": value.instance_id,
                "rack_id": value.rack_id,
                "client_id": value.client_id,
                "client_host": value.client_host,
                "subscribed_topics": value.subscribed_topic_names,
                "subscribed_regex": value.subscribed_topic_regex,
                "rebalance_timeout_ms": _optional(value.rebalance_timeout_ms),
                "server_assignor": value.server_assignor,
                "session_timeout_ms": classic and classic.session_timeout_ms,
                "classic_protocols": classic
                and [
                    {"name": each.name, "metadata": each.metadata}
                    for each in classic.supported_protocols
                ],
            }
        case ConsumerGroupTargetAssignmentMetadataValue():
            computed_ms = value.assignment_timestamp or _NONE
            return {
                "assignment_epoch": value.assignment_epoch,
                "assignment_ts": time_us(computed_ms),
            }
        case ConsumerGroupTargetAssignmentMemberValue():
            return {"assigned": _partitions(value.topic_partitions)}
        case ConsumerGroupCurrentMemberAssignmentValue():
            return {
                "assigned": _partitions(value.assigned_partitions),
                "pending_revocation": _partitions(value.partitions_pending_revocation),
                "member_epoch": value.member_epoch,
                "previous_member_epoch": value.previous_member_epoch,
                "member_state": value.state,
            }
        case ConsumerGroupRegularExpressionValue():
            return {
                "regex_topics": value.topics,
                "regex_version": value.version,
                "regex_ts": time_us(value.timestamp),
            }
    raise AssertionError(f"{type(value).__name__} is no value of a consumer group")


def _optional(number: int) -> int | None:
    return None if number == _NONE else number


def _topic_id(topic_id: bytes) -> str | None:
    return None if topic_id == ZERO_UUID else topic_id.hex()


def _partitions(topics: Iterable[Any]) -> list[Row]:
    return [
        {"topic_id": _topic_id(each.topic_id), "topic": None, "partition": partition}
        for each in topics
        for partition in each.partitions
    ]


def time_us(time_ms: int) -> int | None:
    """Return microseconds; None for -1 (absent) and for values out of range: clients
    may write any number.
    """
    return time_ms * 1000 if 0 <= time_ms <= TIME_MS_MAX else None


def _expiry_us(time_ms: int) -> int | None:
    """Return the explicit expiration time in microseconds; None for -1 (absent). A time
    out of range becomes the nearest one in it, since null would be another rule."""
    return None if time_ms == _NONE else min(max(0, time_ms), TIME_MS_MAX) * 1000


# Consumers of classic groups encode these messages in the metadata and assignment
# fields. The coordinator does not validate them, so they may be any bytes.


def subscribed_topics(data: bytes) -> list[str] | None:
    """Return the topics of an embedded subscription; None when it cannot be decoded."""
    decoded = decode_embedded(m.ConsumerProtocolSubscription, data)
    return None if decoded is None else list(decoded[0].topics)


def assigned_partitions(data: bytes) -> list[Row] | None:
    """Return the partitions of an embedded assignment; None when it cannot be decoded.

    Empty bytes are an empty assignment, as in Kafka's tools.
    """
    if not data:
        return []
    decoded = decode_embedded(m.ConsumerProtocolAssignment, data)
    if decoded is None:
        return None
    return [
        {"topic_id": None, "topic": each.topic, "partition": partition}
        for each in decoded[0].assigned_partitions
        for partition in each.partitions
    ]
