"""The addresses of leaders in Fetch responses from version 16 on (KIP-951).

They follow the records, in a response that may be larger than a node should collect. So
a response that is received at once is rewritten. One that is passed on in parts keeps
its size: its leaders get a tag that no client reads. Clients then have the leaders' ids
and look the addresses up by Metadata, as in version 15. Responses that name leaders are
in most cases errors without records, and small.

Only lengths are read, and records are skipped.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Final, NamedTuple

from coterie.errors import MalformedFrame
from coterie.wire import messages as m
from coterie.wire.framing import SIZE_BYTES, frame_of
from coterie.wire.primitives import read_tags, read_uvarint, write_tags
from coterie.wire.struct_array import StructArray

LEADERS_SINCE: Final = 16
_LEADERS_TAG: Final = 0
_UNREAD_TAG: Final = 127
"""A tag in one byte, far above those of Kafka."""
_CORRELATION_BYTES: Final = 4
_HEAD_BYTES: Final = 10
"""The throttle time, the error code and the session."""
_UUID_BYTES: Final = 16
_PARTITION_BYTES: Final = 30
"""The index, the error code and three offsets."""
_ABORTED_BYTES: Final = 16
_INT32_BYTES: Final = 4


class FetchRewrite:
    """The rewriting of Fetch responses of a version. `replace` gets the leaders with
    the addresses of upstream, and sets those of the gateway."""

    def __init__(
        self, version: int, replace: Callable[[list[m.NodeEndpoint]], None]
    ) -> None:
        self._leaders = StructArray(m.NodeEndpoint, version, flexible=True)
        self._replace = replace

    def __call__(self, frame: bytes) -> bytes:
        """Rewrite a whole frame. Raises MalformedFrame."""
        end = FetchWalk().find_end(frame)
        if end is None:
            raise MalformedFrame("an incomplete Fetch response")
        if end.first_tag != _LEADERS_TAG:
            return frame
        spans, after = read_tags(frame, end.at)
        fields = {tag: frame[begin:stop] for tag, (begin, stop) in spans.items()}
        leaders, _ = self._leaders.decode(fields[_LEADERS_TAG], 0)
        self._replace(leaders)
        fields[_LEADERS_TAG] = self._leaders.encode(leaders)
        head = frame[SIZE_BYTES : end.at]
        return frame_of(head + write_tags(fields) + frame[after:])


class End(NamedTuple):
    """The tagged fields at the end of a response, as positions in the part in which the
    first tag is."""

    at: int
    """Where the section begins; negative in an earlier part."""
    tag_at: int
    first_tag: int
    """-1 without a field."""


class FetchWalk:
    """A Fetch response of version 16 or later, in parts from its size on."""

    def __init__(self) -> None:
        self._skip = SIZE_BYTES + _CORRELATION_BYTES
        """The bytes before the next item."""
        self._rest = b""
        """The beginning of that item."""
        self._step: Callable[[bytes, int], int] = self._read_head
        self._topics = 0
        self._partitions = 0
        self._end: End | None = None

    def hide_leaders(self, part: bytes) -> bytes:
        """Return the next part, with another tag for the leaders. Raises
        MalformedFrame."""
        end = self.find_end(part)
        if end is None or end.first_tag != _LEADERS_TAG:
            return part
        tag_at = end.tag_at
        return part[:tag_at] + bytes([_UNREAD_TAG]) + part[tag_at + 1 :]

    def find_end(self, part: bytes) -> End | None:
        """Return the tagged fields at the end, if the first tag, or the end without
        one, is in this part. Raises MalformedFrame."""
        if self._end is not None:
            return None
        before = len(self._rest)
        data = self._rest + part if before else part
        at = self._skip
        while at < len(data) and self._end is None:
            try:
                at = self._step(data, at)
            except (IndexError, struct.error):  # the rest of the item follows
                break
        self._skip = max(at - len(data), 0)
        self._rest = data[at:]
        if self._end is None:
            return None
        start, tag_at, first_tag = self._end
        return End(start - before, tag_at - before, first_tag)

    # Each step reads an item and returns the position after it, which may be after the
    # data.

    def _read_head(self, data: bytes, at: int) -> int:
        count, at = read_uvarint(data, _skip_tags(data, at) + _HEAD_BYTES)
        self._topics = count
        return self._begin_topic(at)

    def _begin_topic(self, at: int) -> int:
        self._topics -= 1
        self._step = self._read_topic if self._topics > 0 else self._read_end
        return at

    def _read_topic(self, data: bytes, at: int) -> int:
        count, at = read_uvarint(data, at + _UUID_BYTES)
        self._partitions = count
        return self._begin_partition(at)

    def _begin_partition(self, at: int) -> int:
        self._partitions -= 1
        has_more = self._partitions > 0
        self._step = self._read_partition if has_more else self._read_topic_tags
        return at

    def _read_topic_tags(self, data: bytes, at: int) -> int:
        return self._begin_topic(_skip_tags(data, at))

    def _read_partition(self, data: bytes, at: int) -> int:
        count, at = read_uvarint(data, at + _PARTITION_BYTES)
        for _ in range(count - 1):
            at = _skip_tags(data, at + _ABORTED_BYTES)
        size, at = read_uvarint(data, at + _INT32_BYTES)
        self._step = self._read_partition_tags
        return at + max(size - 1, 0)

    def _read_partition_tags(self, data: bytes, at: int) -> int:
        return self._begin_partition(_skip_tags(data, at))

    def _read_end(self, data: bytes, at: int) -> int:
        count, tag_at = read_uvarint(data, at)
        first_tag = read_uvarint(data, tag_at)[0] if count else -1
        self._end = End(at, tag_at, first_tag)
        return at


def _skip_tags(data: bytes, at: int) -> int:
    """Return the position after a tag section, which may be after the data. Raises
    IndexError when the data end before a tag."""
    count, at = read_uvarint(data, at)
    for _ in range(count):
        size, at = read_uvarint(data, read_uvarint(data, at)[1])
        at += size
    return at
