"""The reasons for which a client's connection is not read, or its requests wait."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from coterie.broker import READ_AHEAD_BYTES, MemoryShare
from coterie.gateway.path.cutting import FrameCutter

CONNECTING: Final = 1
AUTHENTICATING: Final = 2
MANY_EXPECTED: Final = 4
ENDED: Final = 8
CLIENT_FULL: Final = 16
GROUPS_WAIT: Final = 32
"""A group request waits for the response to an earlier one."""
TURN_ENDED: Final = 64
"""The requests of one read took long: other connections have their turn."""
UPSTREAM_FULL: Final = 128
_KEPT: Final = 127
"""The reasons for which requests that were received wait, too."""
_READ_AHEAD: Final = GROUPS_WAIT | TURN_ENDED
"""The reasons for which reading goes on until `READ_AHEAD_BYTES` wait: the end of a
client that is not read is not seen."""


class Reading:
    """The reading of one client. `cutter` has the requests that wait; `measure` is that
    of the connection's share of the memory."""

    def __init__(
        self, cutter: FrameCutter, measure: Callable[[], tuple[int, int]]
    ) -> None:
        self.share = MemoryShare(measure, self.update)
        self.reasons = 0
        """The reasons, as bits."""
        self.transport: asyncio.Transport | None = None
        """The client's transport while it is open."""
        self._cutter = cutter

    def hold(self, reason: int) -> None:
        """Stop for a reason."""
        self.reasons |= reason
        self._cutter.is_stopped = bool(self.reasons & _KEPT)
        self.update()

    def release(self, reason: int) -> bool:
        """End a reason; return whether it was one. Requests that waited have to be
        passed on then, and `update` has to be called."""
        if not self.reasons & reason:
            return False
        self.reasons &= ~reason
        self._cutter.is_stopped = bool(self.reasons & _KEPT)
        return True

    def update(self) -> None:
        """Read or pause, by the reasons, by what waits and by the memory."""
        transport = self.transport
        if transport is None or transport.is_closing():
            return
        is_held = self.reasons & ~_READ_AHEAD or (
            self.reasons and len(self._cutter.kept) >= READ_AHEAD_BYTES
        )
        if is_held or self.share.is_paused:
            transport.pause_reading()
        else:
            transport.resume_reading()
