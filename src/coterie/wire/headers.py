"""Request headers v0 to v2 and response headers v0 and v1.

A request begins with key, version and correlation id, then the client id (never
compact, from header v1 on), then tagged fields (v2, when the request's version is
flexible). A response begins with the correlation id and, when flexible, tagged fields;
but an ApiVersions response never has those, so that a client which guessed the version
wrong can still read it (G1-02).
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from coterie.errors import MalformedFrame
from coterie.wire.primitives import read_tags

_FRONT: Final = struct.Struct(">hhi")
_FRONT_AND_CLIENT: Final = struct.Struct(">hhih")
_CORRELATION: Final = struct.Struct(">i")
FRONT_BYTES: Final = _FRONT.size
CLIENT_ID_AT: Final = _FRONT_AND_CLIENT.size


class RequestFront(NamedTuple):
    """The part of a request's header that every version has."""

    api_key: int
    api_version: int
    correlation_id: int


def read_front(frame: bytes) -> tuple[int, int, int]:
    """Read key, version and correlation id.

    Raises MalformedFrame when the frame is shorter than that.
    """
    if len(frame) < FRONT_BYTES:
        raise MalformedFrame(f"a request of {len(frame)} bytes has no header")
    return _FRONT.unpack_from(frame)


def read_client_id(frame: bytes, *, flexible: bool) -> tuple[str, int]:
    """Read the rest of the header: the client id ("" for null), where the body begins.

    Raises MalformedFrame when it does not decode.
    """
    try:
        size = _FRONT_AND_CLIENT.unpack_from(frame)[3]
        at = CLIENT_ID_AT + max(size, 0)
        client_id = str(frame[CLIENT_ID_AT:at], "utf-8")
        if flexible:
            at = at + 1 if frame[at] == 0 else read_tags(frame, at)[1]
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise MalformedFrame(f"request header: {error}") from None
    if size < -1 or at > len(frame):
        raise MalformedFrame(f"request header: a client id of {size} bytes")
    return client_id, at


def write_response(correlation_id: int, body: bytes, *, tagged: bool) -> bytes:
    """A whole response frame: size, header and body. `tagged` asks for header v1."""
    if tagged:
        return _SIZED.pack(len(body) + 5, correlation_id) + b"\0" + body
    return _SIZED.pack(len(body) + 4, correlation_id) + body


_SIZED: Final = struct.Struct(">ii")


def write_request(
    front: RequestFront, client_id: str | None, body: bytes, *, flexible: bool
) -> bytes:
    """A whole request frame, as a client sends it."""
    name = b"" if client_id is None else client_id.encode()
    size = -1 if client_id is None else len(name)
    tags = b"\0" if flexible else b""
    payload = _FRONT_AND_CLIENT.pack(*front, size) + name + tags + body
    return _CORRELATION.pack(len(payload)) + payload


def read_response(frame: bytes, *, tagged: bool) -> tuple[int, int]:
    """Read a response's header: its correlation id, and where the body begins.

    Raises MalformedFrame when the frame is shorter than that.
    """
    try:
        (correlation_id,) = _CORRELATION.unpack_from(frame)
        at = _CORRELATION.size
        if tagged:
            at = read_tags(frame, at)[1]
    except (struct.error, IndexError) as error:
        raise MalformedFrame(f"response header: {error}") from None
    return correlation_id, at
