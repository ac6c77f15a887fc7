"""The memory of all connections: `queued.max.request.bytes` for the whole server.

A connection's share is what it holds: bytes received and not handled, requests without
a response, and responses that the client has not consumed. While the sum is at or over
the limit, connections that hold more than `SMALL_BYTES` are not read, so the small
requests of others go on. One of them, which lacks the fewest bytes, is still read:
large requests complete one after another, and each frees its memory.

The limit may be exceeded by what is read in one loop iteration, and by the responses to
requests that were complete. Rules of this file: no I/O and no clock; every byte that is
added is subtracted, at the latest by `release`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

SMALL_BYTES: Final = 65_536
"""What a connection may hold while the memory is exhausted and it is still read."""
_READ_BYTES: Final = 262_144
"""The most that the event loop reads from a connection at once."""

PROGRESS_INTERVAL_S: Final = 1.0
PROGRESS_BYTES_PER_S: Final = 1_024
EXHAUSTED_TIMEOUT_S: Final = 3.0
"""Time without progress after which a connection that holds much is closed, while the
memory is exhausted."""


class Progress:
    """The progress of one connection's incomplete request and unsent responses."""

    __slots__ = ("_seen_unsent_bytes", "seen_bytes", "stalled_s")

    def __init__(self) -> None:
        self.stalled_s = 0.0
        """Time without progress."""
        self.seen_bytes = 0
        """The bytes of the incomplete request at the last check; 0 when a request was
        handled since."""
        self._seen_unsent_bytes = 0

    def check(
        self, incomplete_bytes: int, unsent_bytes: int, *, is_paused: bool
    ) -> None:
        """Compare with the last check; call it every `PROGRESS_INTERVAL_S`.

        Time in which the connection is not read does not count as stalled for its
        incomplete request.
        """
        least = PROGRESS_BYTES_PER_S * PROGRESS_INTERVAL_S
        is_stalled = 0 < unsent_bytes >= self._seen_unsent_bytes
        if incomplete_bytes:
            is_stalled = incomplete_bytes < self.seen_bytes + least
        self.seen_bytes, self._seen_unsent_bytes = incomplete_bytes, unsent_bytes
        if not is_stalled:
            self.stalled_s = 0.0
        elif unsent_bytes or not is_paused:
            self.stalled_s += PROGRESS_INTERVAL_S


class MemoryShare:
    """The bytes that one connection holds.

    `measure` returns the values of `held_bytes` and `missing_bytes`; `notify` is called
    when `is_paused` changes.
    """

    __slots__ = ("held_bytes", "is_paused", "measure", "missing_bytes", "notify")

    def __init__(
        self, measure: Callable[[], tuple[int, int]], notify: Callable[[], None]
    ) -> None:
        self.held_bytes = 0
        self.missing_bytes = 0
        """The bytes that its incomplete request lacks, as far as its size is known."""
        self.is_paused = False
        """Whether the connection must not be read."""
        self.measure = measure
        self.notify = notify


class RequestMemory:
    """The shares of all connections; `limit_bytes` is -1 for no limit."""

    def __init__(self, limit_bytes: int) -> None:
        self.used_bytes = 0
        self.holding: set[MemoryShare] = set()
        """The shares that hold bytes."""
        self._limit_bytes = limit_bytes
        self._paused: dict[MemoryShare, None] = {}
        self._admitted: MemoryShare | None = None

    @property
    def is_exhausted(self) -> bool:
        """Whether the limit is reached."""
        return 0 < self._limit_bytes <= self.used_bytes

    @property
    def paused_count(self) -> int:
        """The number of connections that are not read."""
        return len(self._paused)

    def must_free(self, share: MemoryShare) -> bool:
        """Return whether the connection has to progress soon, or is closed."""
        return self.is_exhausted and share.held_bytes > SMALL_BYTES

    def update(self, share: MemoryShare) -> None:
        """Measure what a connection holds; pause or resume connections accordingly."""
        was_exhausted = self.is_exhausted
        self._measure(share)
        if self.is_exhausted and not was_exhausted:
            # Responses that clients have consumed since the last measurement may still
            # be counted.
            for each in tuple(self.holding):
                self._measure(each)
            if self.is_exhausted:
                for each in tuple(self.holding):
                    self._consider(each)
        if self.is_exhausted:
            self._consider(share)
            self._admit()
        elif self._paused:
            self._resume()

    def reconsider(self) -> None:
        """Resume connections that were paused: those resumed earlier may be idle."""
        if self._paused and not self.is_exhausted:
            self._resume()

    def release(self, share: MemoryShare) -> None:
        """Return the share of a connection that is closed."""
        share.measure, share.notify = _nothing, _ignore
        self.update(share)
        self._paused.pop(share, None)
        assert share not in self.holding
        assert self._admitted is not share

    def _measure(self, share: MemoryShare) -> None:
        held_bytes, missing_bytes = share.measure()
        assert held_bytes >= 0
        self.used_bytes += held_bytes - share.held_bytes
        share.held_bytes, share.missing_bytes = held_bytes, missing_bytes
        if held_bytes:
            self.holding.add(share)
        else:
            self.holding.discard(share)
        if held_bytes <= SMALL_BYTES and self._admitted is share:
            self._admitted = None
        assert self.used_bytes >= 0

    def _consider(self, share: MemoryShare) -> None:
        """Pause a connection that holds much; resume one that does no longer."""
        if share.held_bytes <= SMALL_BYTES:
            self._resume_one(share)
        elif not share.is_paused and share is not self._admitted:
            share.is_paused = True
            self._paused[share] = None
            share.notify()

    def _admit(self) -> None:
        """Read one of the paused connections, or no large request ever completes."""
        if self._admitted is None and self._paused:
            admitted = min(self._paused, key=lambda share: share.missing_bytes)
            self._admitted = admitted
            self._resume_one(admitted)

    def _resume(self) -> None:
        """Resume as many connections as may read at once, in the order of pausing."""
        room = self._limit_bytes - self.used_bytes
        for share in tuple(self._paused)[: room // _READ_BYTES + 1]:
            self._resume_one(share)

    def _resume_one(self, share: MemoryShare) -> None:
        if share.is_paused:
            share.is_paused = False
            self._paused.pop(share, None)
            share.notify()


def _ignore() -> None:
    pass


def _nothing() -> tuple[int, int]:
    return 0, 0
