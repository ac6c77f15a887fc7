"""The interface of what makes a log's appends durable.

`Flusher` writes the log of a server to disk; the gateway has a writer for each shard,
which produces to a partition of another cluster.
"""

from __future__ import annotations

from collections.abc import Callable

from coterie.errors import LogError

Done = Callable[[LogError | None], None]
"""A callback with None, or with the error of a write."""


class Durability:
    """The writes of one log, by sequence number.

    `next_sequence` is the number of the write that will contain the appends staged now.
    Every write up to `durable_sequence` is durable. When a write fails, neither it nor
    anything staged after it is kept.
    """

    def __init__(self) -> None:
        self.next_sequence = 1
        self.durable_sequence = 0

    def on_failure(self, listener: Callable[[LogError], None]) -> None:
        """Call `listener` after each failed write, once the log has dropped the write
        and before the callbacks that wait for it."""
        raise NotImplementedError

    def when_durable(self, done: Done) -> None:
        """Call `done(None)` once everything staged so far is durable, or `done(error)`
        when its write failed. Without staged appends it is called at once."""
        raise NotImplementedError
