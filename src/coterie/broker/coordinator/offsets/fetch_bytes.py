"""OffsetFetch v8 to v10 from the bytes of the request to those of the response.

One pass over the request joins the packed offsets, without an object for any group,
topic or partition. It takes a fifth of the time of fetch.py, and serves the common
cases only: `fetch_bytes` returns None for everything else (errors, open transactions,
names of over 126 bytes, ...), and for malformed requests, and fetch.py is used.
tests/broker/server/test_offset_fetch_path.py compares the two.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

from coterie.broker.coordinator.offsets.committed import (
    Packed,
    join_partitions,
    topic_id_of,
)
from coterie.broker.coordinator.offsets.fetch import TOPIC_IDS_SINCE, group_exists
from coterie.broker.coordinator.result import Context, TopicView
from coterie.broker.coordinator.state import State
from coterie.errors import ApiError, MalformedFrame
from coterie.types import GroupId, MemberId, TopicId, TopicName
from coterie.wire import messages as m
from coterie.wire.error_codes import ErrorCode
from coterie.wire.primitives import SMALL_UVARINTS, read_uvarint, write_uvarint
from coterie.wire.schema import ZERO_UUID

GROUPS_SINCE: Final = 8
MEMBERS_SINCE: Final = 9
FRAME_BYTES_MAX: Final = 16_384
"""The size of the largest request: one with 4,000 partitions."""

StateOf: TypeAlias = Callable[[GroupId], State | None]
"""A function that returns the state with a group; None unless the group can be read
now, and the client may describe it."""
MayDescribe: TypeAlias = Callable[[TopicName], bool]

_INT32: Final = struct.Struct(">i")
_SMALL: Final = 128
"""The smallest number whose varint has two bytes."""
_INT32_ARRAYS: Final = [
    struct.Struct(f">{max(size - 1, 0)}i").unpack_from for size in range(_SMALL)
]
"""Functions that decode the elements of a small array, by its encoded size."""
_UUID_BYTES: Final = 16
_RESPONSE_FRONT: Final = bytes(5)
"""No tags of the header, no throttle time."""
_NO_TAGS: Final = b"\0"
_NO_ERROR: Final = bytes(3)
"""No error, no tags of the group."""


class Fetched(NamedTuple):
    """The body of a response that waits for writes, and the groups in it."""

    body: bytes
    groups: Sequence[GroupId]


def refuse_fetched(
    request: Fetched, context: Context, code: ErrorCode, message: str | None = None
) -> m.OffsetFetchResponse:
    """Return the response that carries an error for each group."""
    return m.OffsetFetchResponse(
        groups=[
            m.OffsetFetchResponseGroup(group_id=group_id, error_code=code)
            for group_id in request.groups
        ]
    )


class _NotCommon(Exception):
    """The general path has to handle the request."""


class Source:
    """What a fetch reads, for one client: the groups and the topics that it may read.

    `may_describe` need not count refusals.
    """

    __slots__ = ("may_describe", "state_of", "topics")

    def __init__(
        self, state_of: StateOf, may_describe: MayDescribe, topics: TopicView
    ) -> None:
        self.state_of = state_of
        self.may_describe = may_describe
        self.topics = topics


def fetch_bytes(frame: bytes, at: int, version: int, source: Source) -> bytes | None:
    """Return the bytes of a response after its correlation id, and None if the general
    path has to handle the request. The body of the request begins at `at`."""
    assert version >= GROUPS_SINCE, version
    if len(frame) > FRAME_BYTES_MAX:
        return None
    try:
        return _Pass(frame, version, source).response(at)
    except (
        _NotCommon,
        ApiError,
        MalformedFrame,
        IndexError,
        UnicodeDecodeError,
        struct.error,
    ):
        return None


class _Pass:
    """The pass over one request. The methods take the position of what they read, and
    return the position after it."""

    __slots__ = ("_by_id", "_frame", "_has_members", "_out", "_source")

    def __init__(self, frame: bytes, version: int, source: Source) -> None:
        self._frame = frame
        self._source = source
        self._has_members = version >= MEMBERS_SINCE
        self._by_id = version >= TOPIC_IDS_SINCE
        self._out = [_RESPONSE_FRONT]

    def response(self, at: int) -> bytes:
        frame, out = self._frame, self._out
        count = frame[at]
        end = len(frame) - 2  # require_stable, and no tags
        if not 0 < count < _SMALL or frame[-1]:
            raise _NotCommon
        out.append(SMALL_UVARINTS[count])
        at += 1
        for _ in range(count - 1):
            at = self._group(at)
        if at != end:
            raise _NotCommon  # it is truncated, or longer than its fields
        out.append(_NO_TAGS)
        return b"".join(out)

    def _group(self, at: int) -> int:
        frame, out = self._frame, self._out
        raw = _string(frame, at)
        at += len(raw)
        group_id = raw[1:].decode()
        member_id, member_epoch = None, -1
        if self._has_members:
            member_id, member_epoch, at = _member(frame, at)
        state = self._source.state_of(group_id)
        if state is None:
            raise _NotCommon
        if frame[-2] and state.offsets.pending.has_group(group_id):
            raise _NotCommon  # some partitions may not be stable
        exists = group_exists(state, group_id, member_id, member_epoch)
        stored = state.offsets.stored.group(group_id) if exists else {}
        out.append(raw)
        count = frame[at]
        at += 1
        if count >= _SMALL:
            raise _NotCommon
        if count == 0:
            self._all_topics(stored)
        else:
            out.append(SMALL_UVARINTS[count])
            for _ in range(count - 1):
                at = self._topic(at, stored)
        if frame[at]:
            raise _NotCommon  # tags
        out.append(_NO_ERROR)
        return at + 1

    def _topic(self, at: int, stored: Mapping[TopicName, Mapping[int, Packed]]) -> int:
        frame = self._frame
        name: TopicName | None
        if self._by_id:
            raw = frame[at : at + _UUID_BYTES]
            name = self._source.topics.topic_name(raw)
        else:
            raw = _string(frame, at)
            name = raw[1:].decode()
        at += len(raw)
        size = frame[at]
        if size < _SMALL:
            encoded_size = SMALL_UVARINTS[size]
            indexes = _INT32_ARRAYS[size](frame, at + 1)
            at += 1 + 4 * (size - 1)
        else:
            size, at = read_uvarint(frame, at)
            encoded_size = write_uvarint(size)
            indexes = struct.unpack_from(f">{size - 1}i", frame, at)
            at += 4 * (size - 1)
        if not name or not size or not self._source.may_describe(name):
            raise _NotCommon
        of_topic = stored.get(name, {})
        if self._by_id:
            _check_topic_id(of_topic, indexes, raw)
        if frame[at]:
            raise _NotCommon  # tags
        joined = join_partitions(of_topic, indexes)
        self._out += (raw, encoded_size, joined, _NO_TAGS)
        return at + 1

    def _all_topics(self, stored: Mapping[TopicName, Mapping[int, Packed]]) -> None:
        """Append all stored offsets; from v10 on those of the topics with an id."""
        source = self._source
        parts: list[bytes] = []
        count = 0
        for name, of_topic in stored.items():
            raw: bytes | None
            if self._by_id:
                raw = source.topics.topic_id(name)
            else:
                text = name.encode()
                raw = write_uvarint(len(text) + 1) + text
            if raw is None:
                continue
            if not source.may_describe(name):
                raise _NotCommon
            count += 1
            joined = join_partitions(of_topic, of_topic)
            parts += (raw, _count(len(of_topic)), joined, _NO_TAGS)
        self._out.append(_count(count))
        self._out += parts


def _member(frame: bytes, at: int) -> tuple[MemberId | None, int, int]:
    """Return member id and epoch, and the position after them."""
    member_id = None
    if frame[at]:
        raw = _string(frame, at)
        member_id = raw[1:].decode()
        at += len(raw)
    else:
        at += 1
    (member_epoch,) = _INT32.unpack_from(frame, at)
    return member_id, member_epoch, at + _INT32.size


def _check_topic_id(
    of_topic: Mapping[int, Packed], indexes: Iterable[int], topic_id: TopicId
) -> None:
    """Refuse offsets of an older topic of the same name."""
    matching = (ZERO_UUID, topic_id)
    for index in indexes:
        packed = of_topic.get(index)
        if packed is not None and topic_id_of(packed) not in matching:
            raise _NotCommon


def _string(frame: bytes, at: int) -> bytes:
    """Return a string with its length, which has one byte."""
    size = frame[at]
    if not 0 < size < _SMALL:
        raise _NotCommon
    return frame[at : at + size]


def _count(count: int) -> bytes:
    count += 1
    return SMALL_UVARINTS[count] if count < _SMALL else write_uvarint(count)
