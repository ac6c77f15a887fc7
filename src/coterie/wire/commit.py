"""Requests that commit offsets, OffsetCommit and TxnOffsetCommit, decoded to rows.

A row has a partition's index, and the bytes that the record of its offset and the
response to OffsetFetch contain too, so a commit needs no object for each partition. The
rows of a topic whose metadata have one length, as those of nearly every consumer, are
decoded at once. The property tests in tests/wire/test_commit.py
compare this decoder with the general one, and the encoder of responses too.
"""

from __future__ import annotations

import struct
from collections.abc import Generator, Sequence
from functools import cache, lru_cache
from itertools import compress
from typing import Any, Final, NamedTuple, TypeAlias

from coterie.errors import MalformedFrame
from coterie.types import GroupId, MemberId, ProducerId, TopicId, TopicName
from coterie.wire import messages as m
from coterie.wire.codec import NO_LIMIT, decode, encode
from coterie.wire.primitives import (
    STRING_BYTES_MAX,
    read_tags,
    read_uvarint,
    refuse_null,
    refuse_string,
    refuse_total,
    write_uvarint,
)
from coterie.wire.schema import ZERO_UUID, Struct

CommitMessage: TypeAlias = m.OffsetCommitRequest | m.TxnOffsetCommitRequest

COMMIT_MESSAGES: Final = frozenset({m.OffsetCommitRequest, m.TxnOffsetCommitRequest})
NULL_METADATA: Final = b"\0"
EMPTY_METADATA: Final = b"\1"
NO_LEADER_EPOCH: Final = b"\xff\xff\xff\xff"
OFFSET_BYTES: Final = 8
_POSITION_BYTES: Final = 16
"""The size of the index, the offset and the leader epoch."""
_SHORT: Final = 128
"""Lengths below this have one byte."""
_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_INT64: Final = struct.Struct(">q")
_PRODUCER: Final = struct.Struct(">qh")
_SLICE_ROWS: Final = 128
"""The number of rows and topics in a slice of decoding."""
_AT_ONCE: Final = 64
"""The number of partitions that are decoded or encoded by one `struct.Struct`."""
_NO_TAGS: Final = b"\0"
_ROW_BYTES: Final = _POSITION_BYTES + 1
"""The size of a row without its metadata."""
_LENGTHS: Final = tuple(
    bytes((0, 1)) if length <= 1 else bytes((length,)) for length in range(_SHORT)
)
"""The lengths that metadata of the same size have, by one of them: null has the size of
the empty string."""


class CommitLayout(NamedTuple):
    """The fields that a version of OffsetCommit or TxnOffsetCommit has."""

    message: type[CommitMessage]
    version: int
    is_transactional: bool
    is_flexible: bool
    by_id: bool
    """Whether topics have ids instead of names."""
    has_member: bool
    has_instance: bool
    has_retention: bool
    has_epochs: bool
    response: type[m.OffsetCommitResponse | m.TxnOffsetCommitResponse]
    has_throttle_time: bool


@cache
def commit_layout(message: type[CommitMessage], version: int) -> CommitLayout:
    """Return the fields of a version of OffsetCommit or TxnOffsetCommit."""
    fields = message.FIELDS
    topic: Any = fields["topics"].element
    row: Any = topic.FIELDS["partitions"].element
    retention = fields.get("retention_time_ms")
    is_transactional = message is m.TxnOffsetCommitRequest
    response = m.TxnOffsetCommitResponse if is_transactional else m.OffsetCommitResponse
    return CommitLayout(
        message,
        version,
        is_transactional,
        version in message.FLEXIBLE,
        version in topic.FIELDS["topic_id"].versions,
        version in fields["member_id"].versions,
        version in fields["group_instance_id"].versions,
        retention is not None and version in retention.versions,
        version in row.FIELDS["committed_leader_epoch"].versions,
        response,
        version in response.FIELDS["throttle_time_ms"].versions,
    )


class Rows(NamedTuple):
    """The partitions of a topic in a commit, in columns of the same length.

    `positions` have offset and leader epoch in 12 bytes, and `metadata` compact
    strings, which begin with their length plus 1, or are 0 for null. `is_uniform` says
    that all metadata have one size.
    """

    partitions: Sequence[int]
    positions: Sequence[bytes]
    metadata: Sequence[bytes]
    is_uniform: bool

    def only(self, selected: Sequence[bool]) -> Rows:
        """Return the selected rows."""
        return Rows(
            [*compress(self.partitions, selected)],
            [*compress(self.positions, selected)],
            [*compress(self.metadata, selected)],
            self.is_uniform,
        )


class CommitTopic:
    """A topic of a commit: its name or its id, and its rows.

    `error_code` is the result of all partitions if something refuses the topic before
    the group's shard decides.
    """

    __slots__ = ("error_code", "name", "rows", "topic_id")

    def __init__(self, name: TopicName, topic_id: TopicId, rows: Rows) -> None:
        self.name = name
        self.topic_id = topic_id
        self.rows = rows
        self.error_code = 0


class Commit:
    """A request that commits offsets, with the fields of its message; those that its
    version does not have are at their defaults."""

    __slots__ = (
        "_at",
        "_frame",
        "generation_id_or_member_epoch",
        "group_id",
        "group_instance_id",
        "layout",
        "member_id",
        "producer_epoch",
        "producer_id",
        "retention_time_ms",
        "topics",
        "transactional_id",
    )

    def __init__(self, layout: CommitLayout, frame: bytes, at: int) -> None:
        self.layout = layout
        self._frame = frame
        self._at = at
        self.group_id: GroupId = ""
        self.member_id: MemberId = ""
        self.group_instance_id: str | None = None
        self.generation_id_or_member_epoch = -1
        self.retention_time_ms = -1
        if layout.is_transactional:
            self.transactional_id = ""
            self.producer_id: ProducerId = -1
            self.producer_epoch = -1
        self.topics: list[CommitTopic] = []

    @property
    def API_KEY(self) -> int:  # noqa: N802 - as in messages
        """The key of the request's API."""
        return self.layout.message.API_KEY

    def __repr__(self) -> str:
        return f"Commit({self.message()!r})"

    def message(self) -> CommitMessage:
        """Return the request as it was received, as a message."""
        layout = self.layout
        message, _ = decode(layout.message, layout.version, self._frame, self._at)
        return message

    def refuse(self, code: int) -> None:
        """Set the result of all partitions."""
        for topic in self.topics:
            topic.error_code = code


def as_received(request: Any, version: int) -> Any:
    """Return a request as a connection decodes it: rows for a commit."""
    if type(request) not in COMMIT_MESSAGES:
        return request
    message: Any = type(request)
    layout = commit_layout(message, version)
    return read_commit(layout, encode(request, version), 0)


def read_commit(
    layout: CommitLayout, frame: bytes, at: int, elements_max: int = NO_LIMIT
) -> Commit:
    """Decode the request whose body begins at `at`. `elements_max` limits topics,
    partitions and unknown tagged fields, as in `decode`.

    Raises MalformedFrame when the bytes are not a valid request.
    """
    request = Commit(layout, frame, at)
    try:
        end = _read_topics(
            request, frame, _read_fields(request, frame, at), elements_max
        )
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise _malformed(layout, error) from None
    _check_end(layout, end, frame)
    return request


def read_commit_in_slices(
    layout: CommitLayout, frame: bytes, at: int, elements_max: int
) -> Generator[None, None, Commit]:
    """Do as `read_commit`, and yield between slices of the work."""
    request = Commit(layout, frame, at)
    try:
        at = _read_fields(request, frame, at)
        end = yield from _read_topics_in_slices(request, frame, at, elements_max)
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise _malformed(layout, error) from None
    _check_end(layout, end, frame)
    return request


def _malformed(layout: CommitLayout, error: Exception) -> MalformedFrame:
    return MalformedFrame(f"{_name(layout)}: {error}")


def _check_end(layout: CommitLayout, end: int, frame: bytes) -> None:
    if end > len(frame):
        raise MalformedFrame(f"{_name(layout)}: ends at byte {end} of {len(frame)}")


def _name(layout: CommitLayout) -> str:
    return f"{layout.message.__name__} v{layout.version}"


def _read_fields(request: Commit, data: bytes, at: int) -> int:
    """Decode the fields before the topics; return the position after them."""
    layout = request.layout
    flexible = layout.is_flexible
    if layout.is_transactional:
        request.transactional_id, at = _string(data, at, flexible)
    request.group_id, at = _string(data, at, flexible)
    if layout.is_transactional:
        request.producer_id, request.producer_epoch = _PRODUCER.unpack_from(data, at)
        at += _PRODUCER.size
    if layout.has_member:
        (request.generation_id_or_member_epoch,) = _INT32.unpack_from(data, at)
        request.member_id, at = _string(data, at + 4, flexible)
    if layout.has_instance:
        size, start = _length(data, at, flexible)
        at = start
        if size >= 0:
            at = start + size
            request.group_instance_id = data[start:at].decode()
    if layout.has_retention:
        (request.retention_time_ms,) = _INT64.unpack_from(data, at)
        at += _INT64.size
    return at


def _read_topics(request: Commit, data: bytes, at: int, left: int) -> int:
    """Decode the topics; return the position after the request."""
    layout, topics = request.layout, request.topics
    flexible, by_id = layout.is_flexible, layout.by_id
    count, at, left = _elements(data, at, left, flexible)
    name, topic_id = "", ZERO_UUID
    for _ in range(count):
        if by_id:
            topic_id = data[at : at + 16]
            at += 16
        else:
            name, at = _string(data, at, flexible)
        rows = _uniform_rows(data, at, left) if flexible else None
        if rows is None:
            row_count, at, left = _elements(data, at, left, flexible)
            rows, at, left = _any_rows(layout, data, at, row_count, left)
            if flexible:
                at, left = _skip_tags(data, at, left)
        else:
            row_count = len(rows.partitions)
            at += 2 + row_count * (_ROW_BYTES + len(rows.metadata[0]))
            left -= row_count
        topics.append(CommitTopic(name, topic_id, rows))
    return _skip_tags(data, at, left)[0] if flexible else at


def _read_topics_in_slices(
    request: Commit, data: bytes, at: int, left: int
) -> Generator[None, None, int]:
    """Do as `_read_topics`, and yield after `_SLICE_ROWS` rows and topics."""
    layout = request.layout
    flexible = layout.is_flexible
    count, at, left = _elements(data, at, left, flexible)
    work = 0
    for _ in range(count):
        name, topic_id, at = _topic(layout, data, at)
        row_count, at, left = _elements(data, at, left, flexible)
        partitions: list[int] = []
        positions: list[bytes] = []
        metadata: list[bytes] = []
        while row_count > 0:
            part = min(row_count, _SLICE_ROWS)
            rows, at, left = _any_rows(layout, data, at, part, left)
            partitions += rows.partitions
            positions += rows.positions
            metadata += rows.metadata
            row_count -= part
            work += part
            if work >= _SLICE_ROWS:
                work = 0
                yield
        is_uniform = len({len(each) for each in metadata}) == 1
        if flexible:
            at, left = _skip_tags(data, at, left)
        rows = Rows(partitions, positions, metadata, is_uniform)
        request.topics.append(CommitTopic(name, topic_id, rows))
        work += 1
        if work >= _SLICE_ROWS:
            work = 0
            yield
    return _skip_tags(data, at, left)[0] if flexible else at


def _topic(layout: CommitLayout, data: bytes, at: int) -> tuple[str, bytes, int]:
    """Decode a topic's name or id; return both and the next position."""
    if layout.by_id:
        return "", data[at : at + 16], at + 16
    name, at = _string(data, at, layout.is_flexible)
    return name, ZERO_UUID, at


def _elements(data: bytes, at: int, left: int, flexible: bool) -> tuple[int, int, int]:
    """Decode the number of elements of an array; return it, the next position and the
    number of elements that the message may still have."""
    count, at = _count(data, at, flexible)
    left -= count
    if left < 0:
        refuse_total(count, left)
    return count, at, left


def _length(data: bytes, at: int, flexible: bool) -> tuple[int, int]:
    """Decode the length of a string, -1 for null; return it and the next position."""
    if not flexible:
        size: int = _INT16.unpack_from(data, at)[0]
        if size < -1:
            refuse_null(at)
        return size, at + _INT16.size
    size = data[at]
    if size < _SHORT:
        return size - 1, at + 1
    size, at = read_uvarint(data, at)
    if size - 1 > STRING_BYTES_MAX:
        refuse_string(size - 1, at)
    return size - 1, at


def _string(data: bytes, at: int, flexible: bool) -> tuple[str, int]:
    """Decode a string that may not be null; return it and the next position."""
    size = data[at]
    if flexible and 0 < size < _SHORT:
        return data[at + 1 : at + size].decode(), at + size
    size, at = _length(data, at, flexible)
    if size < 0:
        refuse_null(at)
    return data[at : at + size].decode(), at + size


def _count(data: bytes, at: int, flexible: bool) -> tuple[int, int]:
    """Decode the number of elements of an array that may not be null; return it and
    the next position."""
    if flexible:
        count = data[at]
        at += 1
        if count >= _SHORT:
            count, at = read_uvarint(data, at - 1)
        count -= 1
    else:
        (count,) = _INT32.unpack_from(data, at)
        at += _INT32.size
    if count < 0:
        refuse_null(at)
    return count, at


def _skip_tags(data: bytes, at: int, left: int) -> tuple[int, int]:
    """Return the position after a section of tagged fields, and the number of elements
    that the message may still have."""
    if data[at] == 0:
        return at + 1, left
    found, at = read_tags(data, at, left)
    return at, left - len(found)


@lru_cache(maxsize=1_024)
def _uniform_rows_layout(metadata_bytes: int, count: int) -> struct.Struct:
    return struct.Struct(">" + f"i12s{metadata_bytes}sx" * count)


def _uniform_rows(data: bytes, at: int, left: int) -> Rows | None:
    """Decode the rows of a topic if there are 1 to 126, all metadata have one size, and
    neither a row nor the topic has tagged fields; otherwise return None."""
    count = data[at] - 1
    if not 0 < count < _SHORT - 1 or count > left:
        return None
    start = at + 1
    length = data[start + _POSITION_BYTES]
    if length >= _SHORT:
        return None
    metadata_bytes = length or 1
    size = _ROW_BYTES + metadata_bytes
    end = start + count * size
    content = data[start:end]
    if (
        data[end : end + 1] != _NO_TAGS
        or content[_POSITION_BYTES::size].strip(_LENGTHS[length])
        or content[size - 1 :: size].strip(_NO_TAGS)
    ):
        return None
    fields = _uniform_rows_layout(metadata_bytes, count).unpack(content)
    rows = Rows(fields[::3], fields[1::3], fields[2::3], True)
    if length > 1:
        for metadata in set(rows.metadata):
            metadata.decode()
    return rows


def _any_rows(
    layout: CommitLayout, data: bytes, at: int, count: int, left: int
) -> tuple[Rows, int, int]:
    """Decode the rows of a topic; return them, the next position and the number of
    elements that the message may still have."""
    flexible = layout.is_flexible
    partitions: list[int] = []
    positions: list[bytes] = []
    metadata: list[bytes] = []
    for _ in range(count):
        partitions += _INT32.unpack_from(data, at)
        at += 4
        end = at + OFFSET_BYTES
        if layout.has_epochs:
            end += len(NO_LEADER_EPOCH)
            positions.append(data[at:end])
        else:
            positions.append(data[at:end] + NO_LEADER_EPOCH)
        size, at = _length(data, end, flexible)
        if size >= 0:
            content = data[at : at + size]
            content.decode()
            metadata.append(write_uvarint(size + 1) + content)
            at += size
        else:
            metadata.append(NULL_METADATA)
        if flexible:
            at, left = _skip_tags(data, at, left)
        if at > len(data):
            raise IndexError("the rows exceed the data")
    is_uniform = len({len(each) for each in metadata}) == 1
    return Rows(partitions, positions, metadata, is_uniform), at, left


def read_metadata(metadata: bytes) -> str | None:
    """Return the metadata of a row."""
    size, at = read_uvarint(metadata, 0)
    return metadata[at:].decode() if size else None


ResponseTopic: TypeAlias = tuple[TopicName, TopicId, Sequence[int], Sequence[int]]
"""A topic of a response: name, id, partitions, and the error code of each, or no codes
if there is no error."""


class CommitResponse:
    """The response to a commit."""

    __slots__ = ("layout", "throttle_time_ms", "topics")

    def __init__(self, layout: CommitLayout, topics: Sequence[ResponseTopic]) -> None:
        self.layout = layout
        self.topics = topics
        self.throttle_time_ms = 0

    def message(self) -> m.OffsetCommitResponse | m.TxnOffsetCommitResponse:
        """Return the response as a client receives it."""
        layout = self.layout
        message, _ = decode(layout.response, layout.version, self.encode())
        return message

    def encode(self) -> bytes:
        """Encode the response in the version of the request."""
        layout, topics = self.layout, self.topics
        flexible, count = layout.is_flexible, len(topics)
        parts: list[bytes] = []
        if layout.has_throttle_time:
            parts.append(_INT32.pack(self.throttle_time_ms))
        parts.append(write_uvarint(count + 1) if flexible else _INT32.pack(count))
        for name, topic_id, partitions, codes in topics:
            if not codes and type(partitions) is tuple:
                # As of nearly every commit: decoded at once, without an error.
                text = topic_id if layout.by_id else name
                parts.append(_encode_committed(text, partitions, flexible))
                continue
            count = len(partitions)
            text = topic_id if layout.by_id else _encode_name(name, flexible)
            parts += (
                text,
                write_uvarint(count + 1) if flexible else _INT32.pack(count),
            )
            if count <= _AT_ONCE:
                parts.append(_encode_codes(partitions, codes, flexible))
            else:
                parts += [
                    _encode_codes(
                        partitions[at : at + _AT_ONCE],
                        codes[at : at + _AT_ONCE],
                        flexible,
                    )
                    for at in range(0, count, _AT_ONCE)
                ]
            if flexible:
                parts.append(_NO_TAGS)
        if flexible:
            parts.append(_NO_TAGS)
        return b"".join(parts)


Response: TypeAlias = Struct | CommitResponse


def decoded(response: Any, version: int) -> Any:
    """Return a response as a client receives it: as a message, with objects in its
    arrays, which may be encoded already."""
    if isinstance(response, CommitResponse):
        return response.message()
    return decode(type(response), version, encode(response, version))[0]


@lru_cache(maxsize=1_024)
def _encode_committed(
    topic: TopicName | TopicId, partitions: tuple[int, ...], flexible: bool
) -> bytes:
    """Encode a topic, by name or id, without an error; there are at most 126
    partitions."""
    count = len(partitions)
    text = topic if isinstance(topic, bytes) else _encode_name(topic, flexible)
    if not flexible:
        return text + _INT32.pack(count) + _encode_codes(partitions, (), False)
    codes = _encode_codes(partitions, (), True)
    return b"".join((text, write_uvarint(count + 1), codes, _NO_TAGS))


@lru_cache(maxsize=1_024)
def _encode_name(name: TopicName, flexible: bool) -> bytes:
    text = name.encode()
    size = len(text)
    return (write_uvarint(size + 1) if flexible else _INT16.pack(size)) + text


def _encode_codes(
    partitions: Sequence[int], codes: Sequence[int], flexible: bool
) -> bytes:
    count = len(partitions)
    if not any(codes):
        return _codes_layout("i3x" if flexible else "i2x", count).pack(*partitions)
    values = [0] * (2 * count)
    values[::2], values[1::2] = partitions, codes
    return _codes_layout("ihx" if flexible else "ih", count).pack(*values)


@lru_cache(maxsize=4 * _AT_ONCE)
def _codes_layout(one: str, count: int) -> struct.Struct:
    return struct.Struct(">" + one * count)
