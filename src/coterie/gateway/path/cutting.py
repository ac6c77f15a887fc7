"""A stream that is cut into frames, each of which goes to a sink."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

Sink: TypeAlias = Callable[[Any], None]
"""A function that takes bytes, or a view of them."""


class Begun(NamedTuple):
    """The sink of a frame, and the position after it."""

    sink: Sink
    after: int


def discard(_: bytes) -> None:
    """Drop bytes."""


class FrameCutter:
    """The bytes that a peer sends, in spans of consecutive frames with one sink.

    `begin` is called with the bytes and a position in them, where a frame starts. It
    returns None when the frame has to wait, or when it needs more bytes: it has then
    set `wanted` to their number. It may raise MalformedFrame, which `feed` and `go_on`
    raise after the frames before.

    A chunk in which one sink gets all is passed on as it is, parts of it as views. Only
    an incomplete start of a frame, and what has to wait, is copied.
    """

    def __init__(self, begin: Callable[[bytes, int], Begun | None]) -> None:
        self.wanted = 0
        """The bytes of a frame without which it cannot begin."""
        self.is_stopped = False
        """Whether no frame may begin."""
        self.left = 0
        """The bytes that the current frame lacks."""
        self.sink: Sink = discard
        """The sink of the current frame, or of the last one."""
        self.kept = bytearray()
        """What was received and not passed on."""
        self._begin = begin
        self._is_cutting = False

    def feed(self, data: bytes) -> None:
        """Pass on received bytes."""
        # Some transports deliver data after `pause_reading`.
        if self.kept or self.is_stopped:
            self.kept += data
            self.go_on()
        elif self.left > len(data):
            self.left -= len(data)
            self.sink(data)
        else:
            self._cut(data)

    def go_on(self) -> None:
        """Pass on what had to wait, if it can begin now."""
        kept = self.kept
        if kept and not self.is_stopped and not self._is_cutting:
            if len(kept) < self.wanted:
                return
            data = bytes(kept)
            kept.clear()
            self._cut(data)

    def _cut(self, data: bytes) -> None:
        end = len(data)
        first, at = 0, self.left
        self.left = self.wanted = 0
        self._is_cutting = True
        try:
            while at < end and not self.is_stopped:
                begun = self._begin(data, at)
                if begun is None:
                    break
                if begun.sink is not self.sink:
                    self._flush(data, first, at)
                    first = at
                    self.sink = begun.sink
                at = begun.after
        finally:
            if at > end:
                self.left, at = at - end, end
            self._flush(data, first, at)
            self._is_cutting = False
        self.kept += memoryview(data)[at:]

    def _flush(self, data: bytes, first: int, end: int) -> None:
        if end - first == len(data):
            self.sink(data)
        elif end > first:
            self.sink(memoryview(data)[first:end])
