"""The starts of frames, read in place from the bytes of a stream."""

from __future__ import annotations

import struct
from typing import Final

from coterie.errors import MalformedFrame
from coterie.wire.framing import SIZE_BYTES
from coterie.wire.primitives import read_tags, read_uvarint

REQUEST_HEAD: Final = struct.Struct(">ihhi")
"""Size, API key, API version and correlation id of a request."""
ANSWER_HEAD: Final = struct.Struct(">ii")
"""Size and correlation id of a response."""
REQUEST_BYTES_MIN: Final = REQUEST_HEAD.size - SIZE_BYTES
ANSWER_BYTES_MIN: Final = ANSWER_HEAD.size - SIZE_BYTES
PRODUCE_START_BYTES_MAX: Final = 131_072
"""The bytes in which the `acks` of a Produce request must be: two strings of at most
32 KiB, and tagged fields, precede it."""
_INT16: Final = struct.Struct(">h")
_PRODUCE_FLEXIBLE_SINCE: Final = 9
_TRANSACTIONAL_ID_SINCE: Final = 3


def read_acks(data: bytes, at: int, version: int) -> int | None:
    """Return `acks` of the Produce request whose frame is at `at`; None while its bytes
    are missing. Nothing after it is decoded.

    Raises MalformedFrame when the frame ends before it.
    """
    end = at + SIZE_BYTES + REQUEST_HEAD.unpack_from(data, at)[0]
    try:
        at = _skip_string(data, at + REQUEST_HEAD.size)
        if version >= _PRODUCE_FLEXIBLE_SINCE:
            at = read_tags(data, at)[1]
            size, at = read_uvarint(data, at)
            at += max(size - 1, 0)
        elif version >= _TRANSACTIONAL_ID_SINCE:
            at = _skip_string(data, at)
        acks: int = _INT16.unpack_from(data, at)[0]
    except (IndexError, struct.error, MalformedFrame):
        if len(data) < end:
            return None
        raise MalformedFrame("a Produce request without acks") from None
    if at + _INT16.size > end:
        raise MalformedFrame("a Produce request without acks")
    return acks


def _skip_string(data: bytes, at: int) -> int:
    size: int = _INT16.unpack_from(data, at)[0]
    return at + _INT16.size + max(size, 0)
