"""Records of `__consumer_offsets` <-> the bytes Kafka's own tools read.

A key is an int16 record type and the key's struct; a value is an int16 version and the
value's struct; a tombstone has no value (E22-01, E22-02). Type 0 is type 1 as old
brokers wrote it; we write 1. Which version a value is written in, the record says.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from coterie.coordinator.records.consumer_types import CONSUMER_TYPES
from coterie.coordinator.records.group_metadata import (
    GroupMetadataKey,
    GroupMetadataValue,
)
from coterie.coordinator.records.offset_commit import (
    OffsetCommitKey,
    OffsetCommitValue,
)
from coterie.coordinator.result import Record
from coterie.errors import LogCorrupt, MalformedFrame
from coterie.types import GroupId, TopicName
from coterie.wire.codec import decode, encode
from coterie.wire.schema import Message

TYPES: Final[Mapping[int, tuple[type[Message], type[Message]]]] = {
    0: (OffsetCommitKey, OffsetCommitValue),
    1: (OffsetCommitKey, OffsetCommitValue),
    2: (GroupMetadataKey, GroupMetadataValue),
    **CONSUMER_TYPES,
}
"""The key and the value of each record type (E22.2)."""

_INT16: Final = struct.Struct(">h")
_INT64: Final = struct.Struct(">q")
_COMMON_VERSION: Final = 3
"""The version of nearly all offset values: committed by name, without an expiry."""
_COMMON_HEAD: Final = struct.Struct(">hqih")
_PREFIXES: Final[Mapping[type[Message], bytes]] = {
    key: _INT16.pack(number) for number, (key, _) in TYPES.items()
}
_VERSION_PREFIXES: Final = tuple(_INT16.pack(version) for version in range(8))


def encode_record(record: Record) -> tuple[bytes, bytes | None]:
    """The key's and the value's bytes; None is the value of a tombstone."""
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
    """A group commits the same partitions again and again."""
    key = OffsetCommitKey(group=group, topic=topic, partition=partition)
    return _PREFIXES[OffsetCommitKey] + encode(key, 0)


def _common_offset_value(value: OffsetCommitValue) -> bytes:
    """What the codec makes of a value of version 3, in a third of the time."""
    text = value.metadata.encode()
    head = _COMMON_HEAD.pack(
        _COMMON_VERSION, value.offset, value.leader_epoch, len(text)
    )
    return head + text + _INT64.pack(value.commit_timestamp)


def decode_record(key: bytes | None, value: bytes | None) -> Record | None:
    """The record; None when its type is unknown (E22-04).

    Raises:
        LogCorrupt: The record is of a known type and does not decode.
    """
    if key is None or len(key) < _INT16.size:
        raise LogCorrupt("a record without a key")
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
        raise MalformedFrame("no version")
    (version,) = _INT16.unpack_from(value)
    if version not in value_class.VERSIONS:
        raise MalformedFrame(f"{value_class.__name__} has no version {version}")
    typed_value, _ = decode(value_class, version, value, _INT16.size)
    return Record(typed_key, typed_value, version)
