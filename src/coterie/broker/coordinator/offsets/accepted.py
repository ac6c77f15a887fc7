"""The offsets that a commit writes: from its rows to the records, and to the packed
offsets that their replay stores.

The records of a topic are equal but for partition, offset delta, offset, leader epoch
and metadata, so all of them are packed by one `struct.Struct` while the lengths of
delta and metadata stay the same.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import accumulate, groupby, pairwise
from typing import Final, NamedTuple, TypeAlias

from coterie.broker.coordinator.offsets.committed import (
    COMMON,
    EXPIRING_VERSION,
    PACKED_END,
    VERSION,
    Packed,
    packed_layout,
)
from coterie.types import GroupId, LogOffset, TopicId, TopicName
from coterie.wire.commit import (
    EMPTY_METADATA,
    OFFSET_BYTES,
    Rows,
    read_metadata,
)
from coterie.wire.record_batch import NO_PRODUCER, Producer, varint
from coterie.wire.schema import ZERO_UUID

PackedOffsets: TypeAlias = Sequence[tuple[TopicName, dict[int, Packed]]]

_DELTAS: Final = tuple(varint(delta) for delta in range(8_192))
_INT16: Final = struct.Struct(">h")
_TIME: Final = struct.Struct(">q")
_KEY_TYPE: Final = b"\0\1"
_TOPIC_ID_TAG: Final = b"\1\0\x10"
"""One tagged field: number 0, 16 bytes."""
_NO_HEADERS: Final = b"\0"
_PACKED_END_BYTES: Final = len(PACKED_END)
_EMPTY_END: Final = EMPTY_METADATA + PACKED_END


class TopicRows(NamedTuple):
    """Rows of a topic that exists."""

    name: TopicName
    topic_id: TopicId
    rows: Rows


class AcceptedOffsets:
    """The offsets that a commit writes.

    `expire_timestamp_ms` is -1 unless the request has a retention time. The records are
    part of a transaction if there is a producer.
    """

    __slots__ = (
        "expire_timestamp_ms",
        "group_id",
        "producer",
        "record_count",
        "topics",
        "wall_ms",
    )

    def __init__(
        self,
        group_id: GroupId,
        topics: Sequence[TopicRows],
        wall_ms: int,
        expire_timestamp_ms: int = -1,
        producer: Producer = NO_PRODUCER,
    ) -> None:
        self.group_id = group_id
        self.topics = topics
        self.wall_ms = wall_ms
        self.expire_timestamp_ms = expire_timestamp_ms
        self.producer = producer
        self.record_count = 0
        for topic in topics:
            self.record_count += len(topic.rows.partitions)

    def encode_records(self, first_delta: int = 0) -> bytes:
        """Return the records, for a batch that has `first_delta` records already."""
        records: list[bytes] = []
        delta, expire_ms = first_delta, self.expire_timestamp_ms
        time = _TIME.pack(self.wall_ms)
        for name, topic_id, rows in self.topics:
            key = _key(self.group_id, name)
            if expire_ms == -1:
                end = time + _TOPIC_ID_TAG + topic_id + _NO_HEADERS
                version = VERSION
            else:
                # Only this version has an expire timestamp; it has no leader epoch, no
                # tagged fields and no compact strings.
                end = time + _TIME.pack(expire_ms) + _NO_HEADERS
                version = EXPIRING_VERSION
            for run in (rows,) if rows.is_uniform else _runs(rows):
                count = len(run.partitions)
                deltas = _DELTAS[delta : delta + count]
                if len(deltas) < count or len(deltas[0]) != len(deltas[-1]):
                    for part, of_part in _parts(run, delta):
                        _add_records(records, part, of_part, version, key, end)
                else:
                    _add_records(records, run, deltas, version, key, end)
                delta += count
        return b"".join(records)

    def pack(self, first_offset: LogOffset) -> PackedOffsets:
        """Return the packed offsets; `first_offset` is that of the first record."""
        packed: list[tuple[TopicName, dict[int, Packed]]] = []
        offset, expire_ms = first_offset, self.expire_timestamp_ms
        for name, topic_id, rows in self.topics:
            if expire_ms != -1:
                topic_id = ZERO_UUID  # noqa: PLW2901 - the records have none
            common = COMMON.pack(self.wall_ms, expire_ms, topic_id)
            offsets: dict[int, Packed] = {}
            if rows.is_uniform:
                _add_packed(offsets, rows, offset, common)
                offset += len(rows.partitions)
            else:
                for run in _runs(rows):
                    _add_packed(offsets, run, offset, common)
                    offset += len(run.partitions)
            packed.append((name, offsets))
        return packed


@lru_cache(maxsize=4_096)
def _key(group_id: GroupId, topic: TopicName) -> bytes:
    """Return the key of a commit's record without the partition."""
    group, name = group_id.encode(), topic.encode()
    sizes = _INT16.pack(len(group)), _INT16.pack(len(name))
    return b"".join((_KEY_TYPE, sizes[0], group, sizes[1], name))


def _runs(rows: Rows) -> Sequence[Rows]:
    """Split rows into those whose metadata have one size."""
    sizes = groupby(rows.metadata, len)
    ends = [0, *accumulate(len([*run]) for _, run in sizes)]
    return [_part(rows, start, end) for start, end in pairwise(ends)]


def _parts(rows: Rows, delta: int) -> list[tuple[Rows, Sequence[bytes]]]:
    """Split rows into those whose offset deltas have one size, with these."""
    count = len(rows.partitions)
    deltas = [varint(each) for each in range(delta, delta + count)]
    end = bisect_right(deltas, len(deltas[0]), key=len)
    first = (_part(rows, 0, end), deltas[:end])
    if end == count:
        return [first]
    return [first, *_parts(_part(rows, end, count), delta + end)]


def _part(rows: Rows, start: int, end: int) -> Rows:
    partitions, positions, metadata, _ = rows
    return Rows(partitions[start:end], positions[start:end], metadata[start:end], True)


def _add_packed(
    offsets: dict[int, Packed], rows: Rows, first: LogOffset, common: bytes
) -> None:
    """Add the packed offsets of rows with metadata of one size."""
    partitions, positions, metadata, _ = rows
    size, offset = len(metadata[0]), first
    pack = packed_layout(size + _PACKED_END_BYTES)
    if size == 1:
        for index, position in zip(partitions, positions, strict=True):
            offsets[index] = pack(offset, common, index, position, _EMPTY_END)
            offset += 1
        return
    for index, position, text in zip(partitions, positions, metadata, strict=True):
        offsets[index] = pack(offset, common, index, position, text + PACKED_END)
        offset += 1


def _add_records(
    records: list[bytes],
    rows: Rows,
    deltas: Sequence[bytes],
    version: int,
    key: bytes,
    end: bytes,
) -> None:
    """Add the records of rows with one layout."""
    partitions, positions, metadata, _ = rows
    empty = EMPTY_METADATA
    if version == EXPIRING_VERSION:
        positions = [position[:OFFSET_BYTES] for position in positions]
        metadata = [_int16_string(text) for text in metadata]
        empty = _INT16.pack(0)
    size = len(metadata[0])
    lead, front, middle, pack = _layout(
        version, len(key), len(positions[0]), size + len(end), len(deltas[0])
    )
    front += key
    if size == len(empty):
        end = empty + end
        records += [
            pack(lead, delta, front, index, middle, position, end)
            for delta, index, position in zip(
                deltas, partitions, positions, strict=True
            )
        ]
        return
    records += [
        pack(lead, delta, front, index, middle, position, text + end)
        for delta, index, position, text in zip(
            deltas, partitions, positions, metadata, strict=True
        )
    ]


def _int16_string(metadata: bytes) -> bytes:
    """Return metadata as records of version 1 have them."""
    text = (read_metadata(metadata) or "").encode()
    return _INT16.pack(len(text)) + text


class _Layout(NamedTuple):
    """The constant parts of a record, and the function that packs it: the lead (length,
    attributes, timestamp delta), the offset delta, the key with its length but for the
    partition, the partition, the length of the value with its version, offset and
    leader epoch, and the rest of the value with the number of headers."""

    lead: bytes
    key_length: bytes
    value_front: bytes
    pack: Callable[..., bytes]


@lru_cache(maxsize=1_024)
def _layout(
    version: int,
    key_size: int,
    position_size: int,
    end_size: int,
    delta_size: int,
) -> _Layout:
    """Return the layout of records by the sizes of the key without the partition, and
    of offset with leader epoch, the rest of the value, and the offset delta."""
    key_length = varint(key_size + 4)
    # The number of headers, one byte, is not a part of the value.
    value_size = _INT16.size + position_size + end_size - 1
    value_front = varint(value_size) + _INT16.pack(version)
    front_size, middle_size = len(key_length) + key_size, len(value_front)
    layout = struct.Struct(
        f">2s{delta_size}s{front_size}si{middle_size}s{position_size}s{end_size}s"
    )
    lead = varint(layout.size) + b"\0\0"
    layout = struct.Struct(f">{len(lead)}s{layout.format[3:]}")
    return _Layout(lead, key_length, value_front, layout.pack)
