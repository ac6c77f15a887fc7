"""Frames of the Kafka protocol, and the request and response headers in them.

A frame is four bytes of size and then that many bytes. A request begins with key,
version and correlation id, then the client id (never compact, from header v1 on), then
tagged fields (header v2, when the request's version is flexible). A response begins
with the correlation id and, when flexible, tagged fields (header v1). An ApiVersions
response always has header v0, so that a client whose version was not supported can
still read it (G1-02).
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
HEADER_V0_BYTES: Final = _HEADER_V0.size
CLIENT_ID_AT: Final = _HEADER_V1.size
_SIZE_AND_CORRELATION: Final = struct.Struct(">ii")


def frame_of(payload: bytes) -> bytes:
    """Return the payload prefixed with its size."""
    return _SIZE.pack(len(payload)) + payload


_PRODUCE: Final = b"\0\0"
"""The API key of Produce, the first bytes of its frames."""


class FrameReader:
    """A reader that splits received bytes into frames of at most `frame_bytes_max`
    bytes; frames that begin with the API key of Produce, the only request that carries
    records, have at most `produce_bytes_max`.

    It never raises. After an invalid size `failure` is set: the frames before it are
    still returned, and later bytes are ignored.
    """

    def __init__(self, frame_bytes_max: int, produce_bytes_max: int = 0) -> None:
        self.failure: MalformedFrame | None = None
        self.waiting_bytes = 0
        self.frame_bytes_max = frame_bytes_max
        self.produce_bytes_max = produce_bytes_max
        self._chunks: list[bytes] = []
        self._wanted = SIZE_BYTES

    def feed(self, data: bytes) -> list[bytes]:
        """Append received bytes; return the frames now complete, without sizes."""
        if self._chunks:
            self._chunks.append(data)
            self.waiting_bytes += len(data)
            if self.waiting_bytes < self._wanted:
                return []
            data = b"".join(self._chunks)
            self._chunks.clear()
        return self._split(data)

    def _split(self, data: bytes) -> list[bytes]:
        frames, at, end = [], 0, len(data)
        self._wanted = SIZE_BYTES
        while end - at >= SIZE_BYTES and self.failure is None:
            (size,) = _SIZE.unpack_from(data, at)
            if not 0 <= size <= self.frame_bytes_max:
                key = data[at + SIZE_BYTES : at + SIZE_BYTES + len(_PRODUCE)]
                limit = self._limit(key)
                if not 0 <= size <= limit:
                    self.failure = MalformedFrame(
                        f"frame of {size} bytes; at most {limit} accepted"
                    )
                    break
                if len(key) < len(_PRODUCE):
                    self._wanted = SIZE_BYTES + len(_PRODUCE)
                    break
            if end - at - SIZE_BYTES < size:
                self._wanted = SIZE_BYTES + size
                break
            frames.append(data[at + SIZE_BYTES : at + SIZE_BYTES + size])
            at += SIZE_BYTES + size
        self._keep(data, at)
        return frames

    def _limit(self, key: bytes) -> int:
        """Return the size limit of a frame that begins with `key`, which is shorter
        than an API key when the rest was not received yet."""
        if _PRODUCE.startswith(key):
            return max(self.frame_bytes_max, self.produce_bytes_max)
        return self.frame_bytes_max

    def _keep(self, data: bytes, at: int) -> None:
        self.waiting_bytes = 0 if self.failure else len(data) - at
        if self.waiting_bytes:
            self._chunks.append(data[at:])


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
