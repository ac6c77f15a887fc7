"""Frames out of a byte stream: four bytes of size, then so many bytes."""

from __future__ import annotations

import struct
from typing import Final

from coterie.errors import MalformedFrame

_SIZE: Final = struct.Struct(">i")
SIZE_BYTES: Final = _SIZE.size


def frame_of(payload: bytes) -> bytes:
    """A frame: the payload behind its size."""
    return _SIZE.pack(len(payload)) + payload


class FrameReader:
    """Splits what arrives into frames of at most `frame_bytes_max` bytes.

    It never raises: at a size no frame can have, `failure` says so, what came before
    is still handed over, and what comes after is not looked at.
    """

    def __init__(self, frame_bytes_max: int) -> None:
        self.failure: MalformedFrame | None = None
        self.waiting_bytes = 0
        self.frame_bytes_max = frame_bytes_max
        self._chunks: list[bytes] = []
        self._wanted = SIZE_BYTES

    def feed(self, data: bytes) -> list[bytes]:
        """Take bytes from the peer; the frames that are now whole, without sizes."""
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
                self.failure = MalformedFrame(
                    f"a frame of {size} bytes; 0 to {self.frame_bytes_max} are read"
                )
                break
            if end - at - SIZE_BYTES < size:
                self._wanted = SIZE_BYTES + size
                break
            frames.append(data[at + SIZE_BYTES : at + SIZE_BYTES + size])
            at += SIZE_BYTES + size
        self._keep(data, at)
        return frames

    def _keep(self, data: bytes, at: int) -> None:
        self.waiting_bytes = 0 if self.failure else len(data) - at
        if self.waiting_bytes:
            self._chunks.append(data[at:])
