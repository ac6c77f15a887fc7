"""Encode and decode messages, by functions that are generated on first use and cached.

body = encode(HeartbeatResponse(error_code=27), 4)
request, end = decode(HeartbeatRequest, 4, body)
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable, Generator
from typing import Any, Final, TypeVar

from coterie.errors import MalformedFrame
from coterie.wire.compiler import (
    compile_decoder,
    compile_encoder,
    compile_sliced_decoder,
    compile_sliced_encoder,
)
from coterie.wire.primitives import Decoder, SlicedDecoder, SlicedEncoder
from coterie.wire.schema import Message

M = TypeVar("M", bound=Message)

COMPILED: Final = not __file__.endswith(".py")
"""Whether this module, and so the core, is compiled (setup.py)."""
NO_LIMIT: Final = sys.maxsize
EMBEDDED_ELEMENTS_MAX: Final = 500_000
"""The largest number of elements in bytes that a member sends inside a request, such as
its subscription."""

_decoders: dict[tuple[type[Message], int], Decoder] = {}
_encoders: dict[tuple[type[Message], int], Callable[[Any], bytes]] = {}
_sliced_decoders: dict[tuple[type[Message], int], SlicedDecoder] = {}
_sliced_encoders: dict[tuple[type[Message], int], SlicedEncoder] = {}


def decode(
    cls: type[M],
    version: int,
    data: bytes,
    at: int = 0,
    elements_max: int = NO_LIMIT,
) -> tuple[M, int]:
    """Decode a `cls` of `version` at position `at`; return it and the next position.

    `elements_max` limits the elements of all arrays together, which bounds the memory
    for data from a peer. Records of the log have no limit: a record that was written
    has to be read.

    Bytes after the value are not an error here. Kafka ignores them in requests; the
    readers of records check for them.

    Raises MalformedFrame, and nothing else, when the bytes are not a valid value.
    """
    try:
        compiled = _decoders[cls, version]
    except KeyError:
        compiled = decoder(cls, version)
    try:
        value, end = compiled(data, at, elements_max)
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise MalformedFrame(f"{cls.__name__} v{version}: {error}") from None
    if end > len(data):
        raise MalformedFrame(
            f"{cls.__name__} v{version}: ends at byte {end} of {len(data)}"
        )
    return value, end


def decode_in_slices(
    cls: type[M], version: int, data: bytes, at: int, elements_max: int = NO_LIMIT
) -> Generator[None, None, tuple[M, int]]:
    """Do as `decode`, and yield between slices of the work."""
    compiled = _sliced_decoders.get((cls, version))
    if compiled is None:
        _check_version(cls, version)
        flexible = version in cls.FLEXIBLE
        compiled = compile_sliced_decoder(cls, version, flexible=flexible)
        _sliced_decoders[cls, version] = compiled
    try:
        value, end = yield from compiled(data, at, elements_max)
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise MalformedFrame(f"{cls.__name__} v{version}: {error}") from None
    if end > len(data):
        raise MalformedFrame(
            f"{cls.__name__} v{version}: ends at byte {end} of {len(data)}"
        )
    return value, end


def encode_in_slices(value: Message, version: int) -> Generator[None, None, bytes]:
    """Do as `encode`, and yield between slices of the work."""
    cls = type(value)
    compiled = _sliced_encoders.get((cls, version))
    if compiled is None:
        _check_version(cls, version)
        flexible = version in cls.FLEXIBLE
        compiled = compile_sliced_encoder(cls, version, flexible=flexible)
        _sliced_encoders[cls, version] = compiled
    parts: list[bytes] = []
    slices: list[bytes] = []
    for _ in compiled(value, parts):
        slices.append(b"".join(parts))
        parts.clear()
        yield
    return b"".join([*slices, *parts])


def encode(value: Message, version: int) -> bytes:
    """Encode a message in one of its versions."""
    try:
        compiled = _encoders[type(value), version]
    except KeyError:
        compiled = encoder(type(value), version)
    return compiled(value)


def decoder(cls: type[Message], version: int) -> Decoder:
    """Return the compiled decoder, which does not translate errors as `decode` does."""
    compiled = _decoders.get((cls, version))
    if compiled is None:
        _check_version(cls, version)
        compiled = compile_decoder(cls, version, flexible=version in cls.FLEXIBLE)
        _decoders[cls, version] = compiled
    return compiled


def encoder(cls: type[Message], version: int) -> Callable[[Any], bytes]:
    """Return the compiled encoder as a function from value to bytes."""
    compiled = _encoders.get((cls, version))
    if compiled is None:
        _check_version(cls, version)
        append_parts = compile_encoder(cls, version, flexible=version in cls.FLEXIBLE)

        def compiled(value: Any) -> bytes:
            parts: list[bytes] = []
            append_parts(value, parts)
            return b"".join(parts)

        _encoders[cls, version] = compiled
    return compiled


def _check_version(cls: type[Message], version: int) -> None:
    assert version in cls.VERSIONS, f"{cls.__name__} has no version {version}"
