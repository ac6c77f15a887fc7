"""Encoders of Kafka's primitive types, to write expected layouts by hand."""

from __future__ import annotations

import struct


def int8(value: int) -> bytes:
    return struct.pack(">b", value)


def int16(value: int) -> bytes:
    return struct.pack(">h", value)


def int32(value: int) -> bytes:
    return struct.pack(">i", value)


def int64(value: int) -> bytes:
    return struct.pack(">q", value)


def text(value: str | None) -> bytes:
    """Encode a string of a version that is not flexible."""
    if value is None:
        return int16(-1)
    return int16(len(value.encode())) + value.encode()


def blob(value: bytes) -> bytes:
    return int32(len(value)) + value


def many(*elements: bytes) -> bytes:
    """Encode an array of a version that is not flexible."""
    return int32(len(elements)) + b"".join(elements)


def short(value: str | None) -> bytes:
    """Encode a compact string of under 127 bytes."""
    if value is None:
        return b"\0"
    return bytes([len(value.encode()) + 1]) + value.encode()


def few(*elements: bytes) -> bytes:
    """Encode a compact array of under 127 elements."""
    return bytes([len(elements) + 1]) + b"".join(elements)


NO_TAGS = b"\0"
NULL_ARRAY = int32(-1)
