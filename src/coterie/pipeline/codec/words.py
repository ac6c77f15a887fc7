"""A record of the log in words: names and JSON values, for people and scripts.

Fields have the names they have in `coordinator.records`. Only those that the value's
version has are there; a tagged one where it says something. Bytes are hex digits.
"""

from __future__ import annotations

import re
from typing import Any, Final, NamedTuple

from coterie.coordinator.records.group_metadata import (
    GroupMetadataValue,
    MemberMetadata,
)
from coterie.coordinator.records.serde import TYPES
from coterie.errors import MalformedFrame
from coterie.pipeline.codec.embedded import CONSUMER
from coterie.pipeline.codec.embedded import read as read_embedded
from coterie.pipeline.codec.oracle import Unread, read
from coterie.wire.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)
from coterie.wire.record_batch import LogRecord, decode_marker
from coterie.wire.schema import Message, Struct

_HUMP: Final = re.compile(r"(?<!^)(?=[A-Z])")
MARKER: Final = "marker"


class Words(NamedTuple):
    """What a record says. `unread` is why it does not, and then key and value are not
    known; `kind` is the name of the type."""

    record_type: int | None
    kind: str | None
    key: dict[str, Any] | None
    value_version: int | None
    value: dict[str, Any] | None
    unread: Unread | None = None


def words_of(key: bytes | None, value: bytes | None) -> Words:
    """What a record says."""
    result = read(key, value)
    if isinstance(result, Unread):
        kind = kind_of(result.record_type)
        return Words(result.record_type, kind, None, None, None, result)
    record_type, record = result
    said = None
    if record.value is not None:
        said = as_words(record.value, record.value_version)
    if isinstance(record.value, GroupMetadataValue):
        _open_members(record.value, said)
    kind, named = kind_of(record_type), as_words(record.key, 0)
    return Words(record_type, kind, named, record.value_version if said else None, said)


def words_of_marker(record: LogRecord) -> Words:
    """What a control record says."""
    try:
        marker = decode_marker(record)
    except MalformedFrame as error:
        unread = Unread("bad_value", str(error), None)
        return Words(None, MARKER, None, None, None, unread)
    if marker is None:
        return Words(None, MARKER, None, None, None)
    return Words(None, MARKER, {}, None, marker._asdict())


def kind_of(record_type: int | None) -> str | None:
    """The name of a record type: "offset_commit"; None for those we do not read."""
    if record_type is None or record_type not in TYPES:
        return None
    return _snake(TYPES[record_type][0].__name__.removesuffix("Key"))


def as_words(value: Struct, version: int) -> dict[str, Any]:
    """A struct as JSON has it."""
    said = {}
    for name, declared in value.FIELDS.items():
        content = getattr(value, name)
        is_default = version in declared.tagged and content in (declared.default, [])
        if version in declared.versions and not is_default:
            said[name] = _plain(content, version)
    if value.unknown_tags:
        said["unknown_tags"] = {
            str(tag): data.hex() for tag, data in value.unknown_tags.items()
        }
    return said


def _plain(content: Any, version: int) -> Any:
    if isinstance(content, Struct):
        return as_words(content, version)
    if isinstance(content, list):
        return [_plain(each, version) for each in content]
    return content.hex() if isinstance(content, bytes) else content


def _open_members(value: GroupMetadataValue, said: Any) -> None:
    """What consumers wrote into subscription and assignment, where that reads."""
    if value.protocol_type != CONSUMER:
        return
    for member, words in zip(value.members, said["members"], strict=True):
        words.update(_opened(member))


def _opened(member: MemberMetadata) -> dict[str, Any]:
    parts: tuple[tuple[str, type[Message], bytes], ...] = (
        ("subscription", ConsumerProtocolSubscription, member.subscription),
        ("assignment", ConsumerProtocolAssignment, member.assignment),
    )
    opened = {name: read_embedded(kind, data) for name, kind, data in parts}
    return {
        name: as_words(*found) for name, found in opened.items() if found is not None
    }


def _snake(name: str) -> str:
    return _HUMP.sub("_", name).lower()
