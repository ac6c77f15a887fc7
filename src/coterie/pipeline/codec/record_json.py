"""Convert records of `__consumer_offsets` to names and JSON values.

Fields have the names of `coordinator.records`. A field is present when the value's
version has it; a tagged field when it is not the default. Bytes are hex digits.
"""

from __future__ import annotations

import re
from typing import Any, Final, NamedTuple

from coterie.broker.coordinator.record_serde import TYPES
from coterie.broker.coordinator.records import GroupMetadataValue
from coterie.errors import MalformedFrame
from coterie.pipeline.codec.row_decoder import (
    CONSUMER,
    UnreadableRecord,
    decode_embedded,
    decode_key_value,
)
from coterie.wire import messages as m
from coterie.wire.record_batch import LogRecord, decode_marker
from coterie.wire.schema import Message, Struct

_CAPITAL: Final = re.compile(r"(?<!^)(?=[A-Z])")
MARKER: Final = "marker"


class JsonRecord(NamedTuple):
    """A record as JSON values. `kind` is the name of the record type. If the record
    cannot be decoded, `unreadable` is set, and key and value are None.
    """

    record_type: int | None
    kind: str | None
    key: dict[str, Any] | None
    value_version: int | None
    value: dict[str, Any] | None
    unreadable: UnreadableRecord | None = None


def record_to_json(key: bytes | None, value: bytes | None) -> JsonRecord:
    result = decode_key_value(key, value)
    if isinstance(result, UnreadableRecord):
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
    try:
        marker = decode_marker(record)
    except MalformedFrame as error:
        unreadable = UnreadableRecord("bad_value", str(error), None)
        return JsonRecord(None, MARKER, None, None, None, unreadable)
    if marker is None:
        return JsonRecord(None, MARKER, None, None, None)
    return JsonRecord(None, MARKER, {}, None, marker._asdict())


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
