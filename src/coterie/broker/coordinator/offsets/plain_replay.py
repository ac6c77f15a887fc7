"""Replay the records of commits in one pass, from the bytes of a batch to the packed
offsets.

A shard replays up to 100,000 records before its first response after a restart, nearly
all of them commits. The records of one commit are equal but for partition, offset and
leader epoch, so the rest is decoded once. `read_commits` returns None for a batch with
any other record, and for a malformed one: record_serde.py and replay.py handle these,
and are the reference for the others; a property test compares the state.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import Final, NamedTuple, TypeAlias

from coterie.broker.coordinator.offsets.committed import (
    COMMON,
    PACKED_END,
    CommittedOffset,
    Packed,
    pack,
    packed_layout,
)
from coterie.errors import MalformedFrame
from coterie.types import GroupId, TopicId, TopicName
from coterie.wire.commit import EMPTY_METADATA
from coterie.wire.primitives import read_uvarint
from coterie.wire.record_batch import (
    HEADER_BYTES,
    BatchHeader,
    read_varint,
)
from coterie.wire.schema import ZERO_UUID

Commits: TypeAlias = list[tuple[GroupId, TopicName, dict[int, Packed]]]

DELTAS_MAX: Final = 8_192
"""Offset deltas from here on have three bytes."""
_ONE_BYTE_DELTAS: Final = 64
_KEY_TYPE: Final = b"\0\1"
_VERSION_WITHOUT_TAGS: Final = b"\0\3"
_VERSION: Final = b"\0\4"
_INT16: Final = struct.Struct(">h")
_INT64: Final = struct.Struct(">q")
_POSITION: Final = struct.Struct(">qi")
_TOPIC_ID_TAG: Final = b"\1\0\x10"
"""One tagged field: number 0, 16 bytes."""
_TAGS_BYTES: Final = len(_TOPIC_ID_TAG) + 16
_NO_TAGS: Final = b"\0"
_PACKED_END: Final = EMPTY_METADATA + PACKED_END
_INDEX_BYTES: Final = 4
_METADATA_AT: Final = 14
"""The position in a value after version, offset and leader epoch."""


class _Common(NamedTuple):
    """What the records of one commit have in common."""

    group: GroupId
    topic: TopicName
    metadata: str
    commit_timestamp_ms: int
    topic_id: TopicId
    fields: struct.Struct
    lead: bytes
    key: bytes
    value: bytes
    end: bytes


def read_commits(batch: bytes, header: BatchHeader) -> Commits | None:
    """Return the offsets of a batch by group and topic, in the order of the records;
    None unless all records are commits."""
    if header.attributes or header.record_count > DELTAS_MAX:
        return None  # compressed, transactional, a marker, or uncommonly many
    try:
        return _read(batch, header)
    except (MalformedFrame, IndexError, UnicodeDecodeError, struct.error):
        return None


def _read(batch: bytes, header: BatchHeader) -> Commits | None:
    commits: Commits = []
    at, delta, count = HEADER_BYTES, 0, header.record_count
    while delta < count:
        common = _common(batch, at, delta)
        if common is None:
            return None
        limit = min(count, _ONE_BYTE_DELTAS) if delta < _ONE_BYTE_DELTAS else count
        offsets = _run(batch[at : header.size_bytes], header, (delta, limit), common)
        if not offsets:
            return None
        commits.append((common.group, common.topic, offsets))
        delta += len(offsets)
        at += len(offsets) * common.fields.size
    return commits if at == header.size_bytes else None


def _run(
    data: bytes, header: BatchHeader, deltas: tuple[int, int], common: _Common
) -> dict[int, Packed]:
    """Return the offsets of the records at the start of `data` that have everything in
    common, up to a repeated partition."""
    metadata, time_ms, topic_id, fields, lead, key, value, end = common[2:]
    delta, limit = deltas
    pack_plain = packed_layout(len(_PACKED_END))
    shared = COMMON.pack(time_ms, -1, topic_id)
    is_short = delta < _ONE_BYTE_DELTAS
    record_offset = header.base_offset + delta
    size = fields.size
    whole = min(limit - delta, len(data) // size) * size
    offsets: dict[int, Packed] = {}
    for row in fields.iter_unpack(memoryview(data)[:whole]):
        its_lead, its_delta, its_key, index, its_value, position, its_end = row
        zigzag = 2 * delta
        if not is_short:
            zigzag = (zigzag & 0x7F | 0x80) << 8 | zigzag >> 7
        if (
            its_delta != zigzag
            or its_lead != lead
            or its_key != key
            or its_value != value
            or its_end != end
            or index in offsets
        ):
            break
        if metadata:
            offset, epoch = _POSITION.unpack(position)
            offsets[index] = pack(
                index,
                CommittedOffset(
                    offset, epoch, metadata, time_ms, -1, record_offset, topic_id
                ),
            )
        else:
            offsets[index] = pack_plain(
                record_offset, shared, index, position, _PACKED_END
            )
        delta += 1
        record_offset += 1
    return offsets


def _common(batch: bytes, at: int, delta: int) -> _Common | None:
    """Decode the record at `at`; None if it is no commit, or has another delta."""
    start = at
    size, at = read_varint(batch, at)
    end = at + size
    its_delta, key_at = read_varint(batch, at + 2)
    if batch[at + 1] or its_delta != delta:
        return None  # it has a timestamp of its own
    lead = batch[start : at + 2]
    key_size, at = read_varint(batch, key_at)
    key_end = at + key_size
    value_size, value_at = read_varint(batch, key_end)
    value_end = value_at + value_size
    if min(key_size - _INDEX_BYTES, value_size) < 0:
        return None  # no value, or the short key of another record
    if value_end + 1 != end or batch[value_end]:
        return None  # record headers
    name = _name(batch[at : key_end - _INDEX_BYTES])
    content = _content(batch[value_at:value_end])
    if name is None or content is None:
        return None
    front = batch[key_at : key_end - _INDEX_BYTES]
    value_front = batch[key_end : value_at + _INT16.size]
    tail = batch[value_at + _METADATA_AT : end]
    fields = _fields(
        len(lead), len(front), len(value_front), len(tail), delta < _ONE_BYTE_DELTAS
    )
    group, topic = name
    metadata, time_ms, topic_id = content
    return _Common(
        group,
        topic,
        metadata,
        time_ms,
        topic_id,
        fields,
        lead,
        front,
        value_front,
        tail,
    )


@lru_cache(maxsize=4_096)
def _name(key: bytes) -> tuple[GroupId, TopicName] | None:
    """Return group and topic of the key of a commit, given without its partition."""
    if not key.startswith(_KEY_TYPE):
        return None
    at = len(_KEY_TYPE)
    names = []
    for _ in range(2):
        (size,) = _INT16.unpack_from(key, at)
        at += _INT16.size
        if size < 0:
            return None
        names.append(key[at : at + size].decode())
        at += size
    return (names[0], names[1]) if at == len(key) else None


def _content(value: bytes) -> tuple[str, int, TopicId] | None:
    """Return metadata, timestamp and topic id of the value of a commit."""
    at, topic_id = _METADATA_AT, ZERO_UUID
    no_tags = _NO_TAGS
    if value.startswith(_VERSION):
        size, at = read_uvarint(value, at)
        size -= 1
    elif value.startswith(_VERSION_WITHOUT_TAGS):
        (size,) = _INT16.unpack_from(value, at)
        at += _INT16.size
        no_tags = b""
    else:
        return None
    if size < 0:
        return None
    end = at + size
    (commit_timestamp_ms,) = _INT64.unpack_from(value, end)
    tags = value[end + _INT64.size :]
    if len(tags) == _TAGS_BYTES and no_tags and tags.startswith(_TOPIC_ID_TAG):
        topic_id = tags[len(_TOPIC_ID_TAG) :]
    elif tags != no_tags:
        return None
    return value[at:end].decode(), commit_timestamp_ms, topic_id


@lru_cache(maxsize=1_024)
def _fields(
    lead: int, key: int, value: int, end: int, has_short_delta: bool
) -> struct.Struct:
    """Return the fields of a record, by the sizes of the common parts."""
    delta = "B" if has_short_delta else "H"
    return struct.Struct(f">{lead}s{delta}{key}si{value}s12s{end}s")
