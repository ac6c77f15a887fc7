"""One array of structs in a message whose other bytes stay as they are."""

from __future__ import annotations

import struct
from typing import Final, Generic, TypeVar

from coterie.errors import MalformedFrame
from coterie.wire.codec import NO_LIMIT
from coterie.wire.compiler import compile_decoder, compile_encoder
from coterie.wire.primitives import read_uvarint, write_uvarint
from coterie.wire.schema import Struct

S = TypeVar("S", bound=Struct)
_INT32: Final = struct.Struct(">i")


class StructArray(Generic[S]):
    """The arrays of one struct in one version."""

    def __init__(self, kind: type[S], version: int, *, flexible: bool) -> None:
        self._name = kind.__name__
        self._is_compact = flexible
        self._decode = compile_decoder(kind, version, flexible=flexible)
        self._encode = compile_encoder(kind, version, flexible=flexible)

    def decode(self, data: bytes, at: int) -> tuple[list[S], int]:
        """Return the structs and the position after them. Raises MalformedFrame."""
        found: list[S] = []
        try:
            if self._is_compact:
                count, at = read_uvarint(data, at)
                count -= 1
            else:
                count, at = _INT32.unpack_from(data, at)[0], at + _INT32.size
            for _ in range(count):
                each, at = self._decode(data, at, NO_LIMIT)
                found.append(each)
        except (struct.error, IndexError, UnicodeDecodeError) as error:
            raise MalformedFrame(f"an array of {self._name}: {error}") from None
        if at > len(data):
            raise MalformedFrame(f"an incomplete array of {self._name}")
        return found, at

    def encode(self, structs: list[S]) -> bytes:
        """Return the encoded array."""
        count = len(structs)
        parts = [write_uvarint(count + 1) if self._is_compact else _INT32.pack(count)]
        for each in structs:
            self._encode(each, parts)
        return b"".join(parts)
