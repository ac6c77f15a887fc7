"""Encode and decode the records of `__consumer_offsets` in Kafka's format.

A key is an int16 record type and the key's struct; a value is an int16 version and the
value's struct; a tombstone has no value. `Record.version` is the
version its value is encoded in. Type 0 is decoded like type 1, and never written.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from coterie.broker.coordinator.records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
    ShareGroupCurrentMemberAssignmentKey,
    ShareGroupCurrentMemberAssignmentValue,
    ShareGroupMemberMetadataKey,
    ShareGroupMemberMetadataValue,
    ShareGroupMetadataKey,
    ShareGroupMetadataValue,
    ShareGroupStatePartitionMetadataKey,
    ShareGroupStatePartitionMetadataValue,
    ShareGroupTargetAssignmentMemberKey,
    ShareGroupTargetAssignmentMemberValue,
    ShareGroupTargetAssignmentMetadataKey,
    ShareGroupTargetAssignmentMetadataValue,
)
from coterie.broker.coordinator.result import Record
from coterie.errors import LogCorrupt, MalformedFrame
from coterie.types import GroupId, TopicName
from coterie.wire.codec import decode, encode
from coterie.wire.schema import Message

TYPES: Final[Mapping[int, tuple[type[Message], type[Message]]]] = {
    0: (OffsetCommitKey, OffsetCommitValue),
    1: (OffsetCommitKey, OffsetCommitValue),
    2: (GroupMetadataKey, GroupMetadataValue),
    3: (ConsumerGroupMetadataKey, ConsumerGroupMetadataValue),
    4: (ConsumerGroupPartitionMetadataKey, ConsumerGroupPartitionMetadataValue),
    5: (ConsumerGroupMemberMetadataKey, ConsumerGroupMemberMetadataValue),
    6: (
        ConsumerGroupTargetAssignmentMetadataKey,
        ConsumerGroupTargetAssignmentMetadataValue,
    ),
    7: (
        ConsumerGroupTargetAssignmentMemberKey,
        ConsumerGroupTargetAssignmentMemberValue,
    ),
    8: (
        ConsumerGroupCurrentMemberAssignmentKey,
        ConsumerGroupCurrentMemberAssignmentValue,
    ),
    10: (ShareGroupMemberMetadataKey, ShareGroupMemberMetadataValue),
    11: (ShareGroupMetadataKey, ShareGroupMetadataValue),
    12: (
        ShareGroupTargetAssignmentMetadataKey,
        ShareGroupTargetAssignmentMetadataValue,
    ),
    13: (ShareGroupTargetAssignmentMemberKey, ShareGroupTargetAssignmentMemberValue),
    14: (ShareGroupCurrentMemberAssignmentKey, ShareGroupCurrentMemberAssignmentValue),
    15: (ShareGroupStatePartitionMetadataKey, ShareGroupStatePartitionMetadataValue),
    16: (ConsumerGroupRegularExpressionKey, ConsumerGroupRegularExpressionValue),
}
"""The classes of key and value by record type."""

BARRIER_TYPE: Final = 0x7C01
"""The type of records that mark a new writer of the partition and contain no state of
groups; `decode_record` does not know it."""

_INT16: Final = struct.Struct(">h")
_INT64: Final = struct.Struct(">q")
_BARRIER_KEY: Final = _INT16.pack(BARRIER_TYPE)
_COMMON_VERSION: Final = 3
"""The version of offset values without a topic id and without an expiry time."""
_COMMON_HEAD: Final = struct.Struct(">hqih")
_PREFIXES: Final[Mapping[type[Message], bytes]] = {
    key: _INT16.pack(number) for number, (key, _) in TYPES.items()
}
_VERSION_PREFIXES: Final = tuple(_INT16.pack(version) for version in range(8))


def encode_record(record: Record) -> tuple[bytes, bytes | None]:
    """Return the bytes of key and value; the value is None for a tombstone."""
    key, value, version = record
    if type(key) is OffsetCommitKey:
        key_bytes = _offset_key(key.group, key.topic, key.partition)
        if version == _COMMON_VERSION and type(value) is OffsetCommitValue:
            return key_bytes, _common_offset_value(value)
    else:
        key_bytes = _PREFIXES[type(key)] + encode(key, 0)
    if value is None:
        return key_bytes, None
    return key_bytes, _VERSION_PREFIXES[version] + encode(value, version)


@lru_cache(maxsize=16_384)
def _offset_key(group: GroupId, topic: TopicName, partition: int) -> bytes:
    # Cached, because a group commits the same partitions repeatedly.
    key = OffsetCommitKey(group=group, topic=topic, partition=partition)
    return _PREFIXES[OffsetCommitKey] + encode(key, 0)


def _common_offset_value(value: OffsetCommitValue) -> bytes:
    # The same bytes as `encode(value, 3)`, in a third of the time.
    text = value.metadata.encode()
    head = _COMMON_HEAD.pack(
        _COMMON_VERSION, value.offset, value.leader_epoch, len(text)
    )
    return head + text + _INT64.pack(value.commit_timestamp)


def is_barrier(key: bytes | None) -> bool:
    """Return whether a record is a barrier."""
    return key is not None and key.startswith(_BARRIER_KEY)


def decode_record(key: bytes | None, value: bytes | None) -> Record | None:
    """Return the record, or None when its type is unknown.

    Raises:
        LogCorrupt: The record is of a known type and cannot be decoded.
    """
    if key is None or len(key) < _INT16.size:
        raise LogCorrupt("record without a key")
    (record_type,) = _INT16.unpack_from(key)
    types = TYPES.get(record_type)
    if types is None:
        return None
    try:
        return _decode(types, key, value)
    except MalformedFrame as error:
        raise LogCorrupt(f"record of type {record_type}: {error}") from None


def _decode(
    types: tuple[type[Message], type[Message]], key: bytes, value: bytes | None
) -> Record:
    key_class, value_class = types
    typed_key, _ = decode(key_class, 0, key, _INT16.size)
    if value is None:
        return Record(typed_key, None)
    if len(value) < _INT16.size:
        raise MalformedFrame("value without a version")
    (version,) = _INT16.unpack_from(value)
    if version not in value_class.VERSIONS:
        raise MalformedFrame(f"{value_class.__name__} has no version {version}")
    typed_value, _ = decode(value_class, version, value, _INT16.size)
    return Record(typed_key, typed_value, version)
