"""Plain OffsetCommit requests: v8 to v10, without metadata, decoded without an object
for each partition.

Nearly every commit of a consumer is plain. Its partitions have one size in bytes, so
they are kept as they were received, and read by one `struct.iter_unpack` for each
topic. `read_plain_commit` returns None for any other request, malformed ones included;
the general decoder then decodes it or says what is wrong with it. The property test in
tests/wire/test_plain_commit.py holds both to the same requests and responses.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from coterie.errors import MalformedFrame
from coterie.types import GroupId, MemberId, TopicId, TopicName
from coterie.wire import messages as m
from coterie.wire.codec import decode
from coterie.wire.primitives import read_uvarint, write_uvarint
from coterie.wire.schema import ZERO_UUID

PLAIN_SINCE: Final = 8
TOPIC_IDS_SINCE: Final = 10
ROW: Final = struct.Struct(">i12s2x")
"""A partition: index, and the bytes of offset and leader epoch. The length of the
metadata plus 1 (0 for null) and the number of tagged fields, 0, follow."""
_INT32: Final = struct.Struct(">i")
_METADATA_AT: Final = 16
_TAGS_AT: Final = 17
_SHORT: Final = 128
"""Lengths below this have one byte. Longer names are left to the general decoder."""
_RESPONSE_ROW_BYTES: Final = 7
_NO_THROTTLE: Final = bytes(4)


class PlainTopic(NamedTuple):
    """A topic of a plain commit: its name or, from v10 on, its id, and its rows."""

    name: TopicName
    name_bytes: bytes
    topic_id: TopicId
    rows: bytes


class PlainCommit:
    """A plain OffsetCommit request, with the fields of `OffsetCommitRequest` that it
    can have."""

    __slots__ = (
        "_at",
        "_frame",
        "api_version",
        "generation_id_or_member_epoch",
        "group_id",
        "group_instance_id",
        "member_id",
        "topics",
    )

    API_KEY: Final = m.OffsetCommitRequest.API_KEY

    def __init__(self, frame: bytes, at: int, api_version: int) -> None:
        self._frame = frame
        self._at = at
        self.api_version = api_version
        self.group_id: GroupId = ""
        self.generation_id_or_member_epoch = -1
        self.member_id: MemberId = ""
        self.group_instance_id: str | None = None
        self.topics: list[PlainTopic] = []

    def __repr__(self) -> str:
        return f"PlainCommit({self.general()!r})"

    def general(self) -> m.OffsetCommitRequest:
        """Return the request as the general decoder decodes it."""
        request, _ = decode(
            m.OffsetCommitRequest, self.api_version, self._frame, self._at
        )
        return request


def read_plain_commit(
    frame: bytes, at: int, version: int, elements_max: int
) -> PlainCommit | None:
    """Decode a request whose body begins at `at`; None when it is not plain.

    `elements_max` limits the topics and partitions, as in `decode`.
    """
    if version < PLAIN_SINCE:
        return None
    request = PlainCommit(frame, at, version)
    try:
        end = _read(request, frame, at, elements_max)
    except (IndexError, struct.error, UnicodeDecodeError, MalformedFrame):
        return None
    return request if end == len(frame) else None


def _read(request: PlainCommit, frame: bytes, at: int, elements_max: int) -> int:
    """Decode the fields; return the position after them, or -1."""
    size = frame[at]
    if not 0 < size < _SHORT:
        return -1
    request.group_id = frame[at + 1 : at + size].decode()
    at += size
    (request.generation_id_or_member_epoch,) = _INT32.unpack_from(frame, at)
    at += 4
    size = frame[at]
    if not 0 < size < _SHORT:
        return -1
    request.member_id = frame[at + 1 : at + size].decode()
    at += size
    size = frame[at]
    if size >= _SHORT:
        return -1
    if size:
        request.group_instance_id = frame[at + 1 : at + size].decode()
        at += size
    else:
        at += 1
    return _read_topics(request, frame, at, elements_max)


def _read_topics(request: PlainCommit, frame: bytes, at: int, elements_max: int) -> int:
    count = frame[at]
    at += 1
    if count >= _SHORT:
        count, at = read_uvarint(frame, at - 1)
    elements = count - 1
    by_id = request.api_version >= TOPIC_IDS_SINCE
    name, name_bytes, topic_id = "", b"", ZERO_UUID
    for _ in range(count - 1):
        if by_id:
            topic_id = frame[at : at + 16]
            at += 16
        else:
            size = frame[at]
            if not 0 < size < _SHORT:
                return -1
            name_bytes = frame[at + 1 : at + size]
            name = name_bytes.decode()
            at += size
        rows = frame[at]
        at += 1
        if rows >= _SHORT:
            rows, at = read_uvarint(frame, at - 1)
        if rows <= 1:
            return -1  # null, or a topic that has no part in the response
        elements += rows - 1
        end = at + (rows - 1) * ROW.size
        content = frame[at:end]
        # Metadata and tagged fields are not plain.
        if (
            elements > elements_max
            or content[_METADATA_AT :: ROW.size].strip(b"\0\1")
            or content[_TAGS_AT :: ROW.size].strip(b"\0")
            or frame[end]
        ):
            return -1
        request.topics.append(PlainTopic(name, name_bytes, topic_id, content))
        at = end + 1
    is_plain = count > 0 and elements <= elements_max and frame[at] == 0
    return at + 1 if is_plain else -1


def write_plain_response(request: PlainCommit) -> bytes:
    """Encode the response without any error, and without a throttle time."""
    by_id = request.api_version >= TOPIC_IDS_SINCE
    parts = [_NO_THROTTLE, write_uvarint(len(request.topics) + 1)]
    for _, name, topic_id, rows in request.topics:
        count = len(rows) // ROW.size
        # index (4 bytes), error code (2), number of tagged fields (1)
        content = bytearray(count * _RESPONSE_ROW_BYTES)
        for byte in range(4):
            content[byte::_RESPONSE_ROW_BYTES] = rows[byte :: ROW.size]
        parts += (
            topic_id if by_id else write_uvarint(len(name) + 1) + name,
            write_uvarint(count + 1),
            bytes(content),
            b"\0",
        )
    parts.append(b"\0")
    return b"".join(parts)
