"""The in-memory connection from a client's connection to the group server.

The group server's own `ClientConnection` serves it, so that limits, memory, order and
fast paths are those of an embedded server.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from coterie.broker.server.client_connection import ClientConnection
from coterie.gateway.path.frames import split_frames

ANSWER_BYTES_MAX: Final = 262_144
"""Bytes of responses that wait for others before no further request is handled."""


class InnerConnection(asyncio.Transport):
    """The transport of the group server's connection; its responses are in `answers`.

    `outer` is the client's transport, `connection` the server's side. `on_answers` is
    called after responses were added, `on_close` when the group server closes or resets
    the connection, and `on_hold` when it wants no more requests, or wants them again.
    """

    def __init__(
        self,
        outer: asyncio.Transport,
        connection: ClientConnection,
        *,
        on_answers: Callable[[], None],
        on_close: Callable[[], None],
        on_hold: Callable[[bool], None],
    ) -> None:
        super().__init__()
        self.answers: deque[bytes] = deque()
        self.is_closed = False
        self._outer = outer
        self._on_answers = on_answers
        self._on_close = on_close
        self._on_hold = on_hold
        self._answer_bytes = 0
        self._is_outer_full = False
        self._is_full = False
        self.connection = connection
        connection.connection_made(self)

    def take_answer(self) -> bytes:
        """Return the next response, which was not taken yet."""
        answer = self.answers.popleft()
        self._answer_bytes -= len(answer)
        return answer

    def set_outer_full(self, *, is_full: bool) -> None:
        """Handle no request while the client is not consuming responses."""
        self._is_outer_full = is_full
        self.update()

    def update(self) -> None:
        """Stop the group server when too many responses wait, or let it go on."""
        is_full = self._is_outer_full or self._answer_bytes > ANSWER_BYTES_MAX
        if is_full == self._is_full or self.is_closed:
            return
        self._is_full = is_full
        if is_full:
            self.connection.pause_writing()
        else:
            self.connection.resume_writing()

    def lose(self) -> None:
        """Report that the client's connection is closed."""
        self.is_closed = True
        self.answers.clear()
        self._answer_bytes = 0
        self.connection.connection_lost(None)

    # The methods of `asyncio.Transport` that the group server calls.

    def write(self, data: Any) -> None:
        """Queue responses."""
        if not self.is_closed:
            self.answers.extend(split_frames(data))
            self._answer_bytes += len(data)
            self._on_answers()
            self.update()

    def close(self) -> None:
        """Accept no further response."""
        if not self.is_closed:
            self.is_closed = True
            self._on_close()

    def abort(self) -> None:
        """Drop the responses as well."""
        self.answers.clear()
        self._answer_bytes = 0
        self.close()

    def is_closing(self) -> bool:
        """Return whether no response is accepted."""
        return self.is_closed

    def pause_reading(self) -> None:
        """Stop the requests of the client."""
        self._on_hold(True)

    def resume_reading(self) -> None:
        """Accept requests again."""
        self._on_hold(False)

    def set_write_buffer_limits(
        self, high: int | None = None, low: int | None = None
    ) -> None:
        """Keep the limits of this class."""

    def get_write_buffer_size(self) -> int:
        """Return the bytes of responses that the client has not consumed."""
        return self._answer_bytes + self._outer.get_write_buffer_size()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Return the information about the client's transport."""
        return self._outer.get_extra_info(name, default)
