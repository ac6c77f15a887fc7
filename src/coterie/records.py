"""Decode the records of `__consumer_offsets`: every version that Apache Kafka writes.

    decoded = decode(record.key, record.value)      # a `Record`, or an `Unreadable`
    shown = to_json(record.key, record.value)       # names and JSON values

Fields have the names of Apache Kafka's schemas, in snake case. Records of streams
groups have an `Unreadable` with the reason "unknown_type".
"""

from __future__ import annotations

import re
import struct
from typing import Any, Final, NamedTuple, TypeVar

from coterie.broker.coordinator.record_serde import TYPES, decode_record
from coterie.broker.coordinator.records import GroupMetadataValue
from coterie.broker.coordinator.result import Record
from coterie.errors import LogCorrupt, MalformedFrame
from coterie.wire import messages as m
from coterie.wire.codec import decode as decode_message
from coterie.wire.record_batch import LogRecord, decode_marker
from coterie.wire.schema import Message, Struct

CONSUMER: Final = "consumer"
"""The protocol type whose subscriptions and assignments can be decoded."""
UNKNOWN_TYPE: Final = "unknown_type"
_MARKER: Final = "marker"
_CAPITAL: Final = re.compile(r"(?<!^)(?=[A-Z])")
_INT16: Final = struct.Struct(">h")
SHARE_GROUP_TYPES: Final = range(9, 16)
"""The types of records of share groups; Kafka has reserved 9, and does not write it."""
_STREAMS_GROUP_TYPES_FROM: Final = 17

_Embedded = TypeVar("_Embedded", bound=Message)


class Unreadable(NamedTuple):
    """A record that cannot be decoded: the reason, a message, and the record type from
    the first bytes of its key.
    """

    reason: str
    message: str
    record_type: int | None


def decode(key: bytes | None, value: bytes | None) -> tuple[int, Record] | Unreadable:
    """Decode one record; return its type and content."""
    if key is None:
        return Unreadable("no_key", "a record without a key", None)
    if len(key) < _INT16.size:
        return Unreadable("bad_key", f"a key of {len(key)} bytes has no type", None)
    (record_type,) = _INT16.unpack_from(key)
    if record_type not in TYPES:
        message = f"Kafka has no type {record_type}"
        if record_type in SHARE_GROUP_TYPES:
            message = f"type {record_type} is of share groups"
        elif record_type >= _STREAMS_GROUP_TYPES_FROM:
            message = f"type {record_type} is of streams groups, or of a newer Kafka"
        return Unreadable(UNKNOWN_TYPE, message, record_type)
    try:
        record = decode_record(key, value)
    except LogCorrupt as error:
        return Unreadable(_reason(record_type, key, value), str(error), record_type)
    assert record is not None
    return record_type, record


def _reason(record_type: int, key: bytes, value: bytes | None) -> str:
    """Return the reason why a record cannot be decoded."""
    try:
        decode_record(key, None)
    except LogCorrupt:
        return "bad_key"
    if value is None or len(value) < _INT16.size:
        return "bad_value"
    known = _INT16.unpack_from(value)[0] in TYPES[record_type][1].VERSIONS
    return "bad_value" if known else "unknown_version"


def decode_embedded(kind: type[_Embedded], data: bytes) -> tuple[_Embedded, int] | None:
    """Decode an embedded message; return it with its version, or None.

    Newer versions only append fields, so a version that is newer than ours is decoded
    as our newest (E20-21).
    """
    if len(data) < _INT16.size:
        return None
    (version,) = _INT16.unpack_from(data)
    if version < 0:
        return None
    try:
        version = min(version, kind.VERSIONS.high)
        return decode_message(kind, version, data, _INT16.size)[0], version
    except MalformedFrame:
        return None


class JsonRecord(NamedTuple):
    """A record as JSON values. `kind` is the name of the record type. If the record
    cannot be decoded, `unreadable` is set, and key and value are None.
    """

    record_type: int | None
    kind: str | None
    key: dict[str, Any] | None
    value_version: int | None
    value: dict[str, Any] | None
    unreadable: Unreadable | None = None


def to_json(key: bytes | None, value: bytes | None) -> JsonRecord:
    """Decode one record to JSON values. A field is present when the value's version has
    it; a tagged field when it is not the default. Bytes are hex digits.
    """
    result = decode(key, value)
    if isinstance(result, Unreadable):
        kind = _kind(result.record_type)
        return JsonRecord(result.record_type, kind, None, None, None, result)
    record_type, record = result
    version, content = None, None
    if record.value is not None:
        version = record.value_version
        content = _struct_to_json(record.value, version)
    if isinstance(record.value, GroupMetadataValue):
        _decode_members(record.value, content)
    key_json = _struct_to_json(record.key, 0)
    return JsonRecord(record_type, _kind(record_type), key_json, version, content)


def marker_to_json(record: LogRecord) -> JsonRecord:
    """Decode a transaction marker to JSON values."""
    try:
        marker = decode_marker(record)
    except MalformedFrame as error:
        unreadable = Unreadable("bad_value", str(error), None)
        return JsonRecord(None, _MARKER, None, None, None, unreadable)
    if marker is None:
        return JsonRecord(None, _MARKER, None, None, None)
    return JsonRecord(None, _MARKER, {}, None, marker._asdict())


def _kind(record_type: int | None) -> str | None:
    """Return the name of a record type, like "offset_commit"; None for other types."""
    if record_type is None or record_type not in TYPES:
        return None
    name = TYPES[record_type][0].__name__.removesuffix("Key")
    return _CAPITAL.sub("_", name).lower()


def _struct_to_json(value: Struct, version: int) -> dict[str, Any]:
    fields = {}
    for name, declared in value.FIELDS.items():
        content = getattr(value, name)
        is_default = version in declared.tagged and content in (declared.default, [])
        if version in declared.versions and not is_default:
            fields[name] = _value_to_json(content, version)
    if value.unknown_tags:
        fields["unknown_tags"] = {
            str(tag): data.hex() for tag, data in value.unknown_tags.items()
        }
    return fields


def _value_to_json(content: Any, version: int) -> Any:
    if isinstance(content, Struct):
        return _struct_to_json(content, version)
    if isinstance(content, list):
        return [_value_to_json(each, version) for each in content]
    return content.hex() if isinstance(content, bytes) else content


def _decode_members(value: GroupMetadataValue, content: Any) -> None:
    """Replace the members' subscription and assignment by their decoded content, if the
    group's protocol type is consumer and the bytes can be decoded.
    """
    if value.protocol_type != CONSUMER:
        return
    for member, fields in zip(value.members, content["members"], strict=True):
        embedded: tuple[tuple[str, type[Message], bytes], ...] = (
            ("subscription", m.ConsumerProtocolSubscription, member.subscription),
            ("assignment", m.ConsumerProtocolAssignment, member.assignment),
        )
        for name, kind, data in embedded:
            decoded = decode_embedded(kind, data)
            if decoded is not None:
                fields[name] = _struct_to_json(*decoded)
