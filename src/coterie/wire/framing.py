"""Frames of the Kafka protocol, and the request and response headers in them.

A frame is four bytes of size and then that many bytes. A request begins with key,
version and correlation id, then the client id (never compact, from header v1 on), then
tagged fields (header v2, when the request's version is flexible). A response begins
with the correlation id and, when flexible, tagged fields (header v1). An ApiVersions
response always has header v0, so that a client whose version was not supported can
still read it.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from coterie.errors import MalformedFrame
from coterie.wire.primitives import read_tags

_SIZE: Final = struct.Struct(">i")
SIZE_BYTES: Final = _SIZE.size
_HEADER_V0: Final = struct.Struct(">hhi")
_HEADER_V1: Final = struct.Struct(">hhih")
_CORRELATION: Final = struct.Struct(">i")
_KEY: Final = struct.Struct(">h")
HEADER_V0_BYTES: Final = _HEADER_V0.size
CLIENT_ID_AT: Final = _HEADER_V1.size
_SIZE_AND_CORRELATION: Final = struct.Struct(">ii")


def read_size(data: bytes, at: int) -> int:
    """Decode the size of the frame at position `at`."""
    size: int = _SIZE.unpack_from(data, at)[0]
    return size


def frame_of(payload: bytes) -> bytes:
    """Return the payload prefixed with its size."""
    return _SIZE.pack(len(payload)) + payload


_PRODUCE: Final = b"\0\0"
"""The API key of Produce, the first bytes of its frames."""
_SMALL_BYTES: Final = 4_096
_KEPT_BYTES: Final = 65_536
"""Bytes of returned frames that may stay in memory until the following frames are
returned, too."""


class FrameReader:
    """A reader that splits received bytes into frames of at most `frame_bytes_max`
    bytes; frames that begin with the API key of Produce, the only request that carries
    records, have at most `produce_bytes_max`.

    Frames are split off one at a time, so the bytes of later frames stay together. It
    never raises. After an invalid size `failure` is set: the frames before it are still
    returned, and all other bytes are ignored.
    """

    def __init__(self, frame_bytes_max: int, produce_bytes_max: int = 0) -> None:
        self.failure: MalformedFrame | None = None
        self.waiting_bytes = 0
        """The bytes received that belong to no returned frame."""
        self.frame_bytes_max = frame_bytes_max
        self.produce_bytes_max = produce_bytes_max
        self._data = b""
        self._at = 0
        self._chunks: list[bytes | bytearray] = []
        self._wanted = SIZE_BYTES
        self._has_size = False

    @property
    def missing_bytes(self) -> int:
        """The bytes that the next frame lacks, as far as its size is known."""
        return max(self._wanted - self.waiting_bytes, 0)

    def feed(self, data: bytes) -> list[bytes]:
        """Append received bytes; return the frames now complete, without sizes."""
        self.append(data)
        frames = []
        while (frame := self.next_frame()) is not None:
            frames.append(frame)
        return frames

    def append(self, data: bytes) -> None:
        """Append received bytes."""
        if self.failure is not None:
            return
        chunks = self._chunks
        if not self.waiting_bytes:
            self._data, self._at = data, 0
        elif len(data) > _SMALL_BYTES:
            chunks.append(data)
        elif chunks and isinstance(chunks[-1], bytearray):
            chunks[-1] += data  # an object for each byte would take 50 times the space
        else:
            chunks.append(bytearray(data))
        self.waiting_bytes += len(data)

    def next_frame(self) -> bytes | None:
        """Return the next frame without its size; None when it is incomplete."""
        if not self.has_frame():
            return None
        wanted = self._wanted
        if len(self._data) - self._at < wanted:
            if self.waiting_bytes == wanted:
                return self._only_frame()
            self._join()
        data, at = self._data, self._at
        end = at + wanted
        frame = data[at + SIZE_BYTES : end]
        self.waiting_bytes -= wanted
        if end == len(data):
            self._data = b""
            if self._chunks:
                self._join()
        elif end > len(data) >> 1 and end > _KEPT_BYTES:
            self._data, self._at = data[end:], 0  # frees the bytes before
        else:
            self._at = end
        self._wanted, self._has_size = SIZE_BYTES, False
        return frame

    def next_key(self) -> int | None:
        """Return the API key of the next frame; None when the frame is incomplete."""
        if not self.has_frame():
            return None
        if len(self._data) - self._at < SIZE_BYTES + _KEY.size:
            self._join()
        # A frame that is shorter than a key has the first bytes of the next one; it is
        # refused when it is decoded.
        key = self._data[self._at + SIZE_BYTES : self._at + SIZE_BYTES + _KEY.size]
        return int.from_bytes(key, signed=True)

    def has_frame(self) -> bool:
        """Return whether the next frame is complete."""
        if self.waiting_bytes < self._wanted:
            return False
        if self._has_size:
            return True
        if len(self._data) - self._at < self._wanted:
            self._join()
        (size,) = _SIZE.unpack_from(self._data, self._at)
        if not 0 <= size <= self.frame_bytes_max and not self._admits(size):
            return False
        self._wanted, self._has_size = SIZE_BYTES + size, True
        return self.waiting_bytes >= self._wanted

    def complete_keys(self) -> list[int]:
        """Return the API keys of the complete frames, in order; take none of them."""
        if not self.has_frame():
            return []
        self._join()
        data, at = self._data, 0
        keys = []
        while len(data) - at >= SIZE_BYTES + _KEY.size:
            end = at + SIZE_BYTES + read_size(data, at)
            if not at < end <= len(data):
                break
            keys.append(int(_KEY.unpack_from(data, at + SIZE_BYTES)[0]))
            at = end
        return keys

    def discard(self) -> None:
        """Drop the bytes of all frames that were not returned."""
        self._data = b""
        self._chunks.clear()
        self.waiting_bytes = 0
        self._wanted, self._has_size = SIZE_BYTES, False

    def _admits(self, size: int) -> bool:
        """Return whether a frame may be that large by its API key; set `failure` when
        no key permits the size, and wait for the rest of the key otherwise."""
        begin = self._at + SIZE_BYTES
        key = self._data[begin : begin + len(_PRODUCE)]
        limit = self.frame_bytes_max
        if _PRODUCE.startswith(key):
            limit = max(limit, self.produce_bytes_max)
        if not 0 <= size <= limit:
            self.failure = MalformedFrame(
                f"frame of {size} bytes; at most {limit} accepted"
            )
            self.discard()
            return False
        self._wanted = SIZE_BYTES + len(_PRODUCE)
        return len(key) == len(_PRODUCE)

    def _only_frame(self) -> bytes:
        """Return the frame that all chunks belong to; a large one is copied once."""
        first = self._data[self._at + SIZE_BYTES :]
        frame = b"".join((first, *self._chunks))
        self.discard()
        return frame

    def _join(self) -> None:
        """Append the chunks to the bytes from which frames are split off."""
        self._data = b"".join((self._data[self._at :], *self._chunks))
        self._at = 0
        self._chunks.clear()


class RequestHeaderV0(NamedTuple):
    """Request header v0, with which every request header begins."""

    api_key: int
    api_version: int
    correlation_id: int


def read_header_v0(frame: bytes) -> tuple[int, int, int]:
    """Decode API key, API version and correlation id.

    Raises MalformedFrame when the frame is shorter.
    """
    if len(frame) < HEADER_V0_BYTES:
        raise MalformedFrame(f"request of {len(frame)} bytes is shorter than a header")
    return _HEADER_V0.unpack_from(frame)


def read_client_id(frame: bytes, *, flexible: bool) -> tuple[str, int]:
    """Decode the remaining fields of header v1, or v2 when `flexible`.

    Returns the client id ("" for null) and the position of the body. Raises
    MalformedFrame when the header cannot be decoded.
    """
    try:
        size = _HEADER_V1.unpack_from(frame)[3]
        at = CLIENT_ID_AT + max(size, 0)
        client_id = str(frame[CLIENT_ID_AT:at], "utf-8")
        if flexible:
            at = at + 1 if frame[at] == 0 else read_tags(frame, at)[1]
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise MalformedFrame(f"request header: {error}") from None
    if size < -1 or at > len(frame):
        raise MalformedFrame(f"request header: client id of {size} bytes")
    return client_id, at


def write_response(correlation_id: int, body: bytes, *, tagged: bool) -> bytes:
    """Encode a response frame: size, header (v1 when `tagged`) and body."""
    if tagged:
        return _SIZE_AND_CORRELATION.pack(len(body) + 5, correlation_id) + b"\0" + body
    return _SIZE_AND_CORRELATION.pack(len(body) + 4, correlation_id) + body


def write_request(
    header: RequestHeaderV0, client_id: str | None, body: bytes, *, flexible: bool
) -> bytes:
    """Encode a request frame: size, header (v2 when `flexible`, else v1) and body."""
    name = b"" if client_id is None else client_id.encode()
    size = -1 if client_id is None else len(name)
    tags = b"\0" if flexible else b""
    payload = _HEADER_V1.pack(*header, size) + name + tags + body
    return frame_of(payload)


def read_response(frame: bytes, *, tagged: bool) -> tuple[int, int]:
    """Decode a response header (v1 when `tagged`); return the correlation id and the
    position of the body.

    Raises MalformedFrame when the frame is shorter.
    """
    try:
        (correlation_id,) = _CORRELATION.unpack_from(frame)
        at = _CORRELATION.size
        if tagged:
            at = read_tags(frame, at)[1]
    except (struct.error, IndexError) as error:
        raise MalformedFrame(f"response header: {error}") from None
    return correlation_id, at
