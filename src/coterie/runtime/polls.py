"""A fetch that waits: for enough bytes, for its time to run out, or for bad news.

A poll hears only of its own partitions, and counts what they grow by: a wake-up costs
the same however many topics there are and however many partitions the poll covers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from coterie.runtime.data import Scheduler
from coterie.runtime.partitions import Partition


class Poll:
    """One waiting fetch; `finished` is called once."""

    def __init__(
        self,
        partitions: Sequence[Partition],
        *,
        missing_bytes: int,
        committed: bool,
        finished: Callable[[], None],
    ) -> None:
        self._partitions = partitions
        self._missing_bytes = missing_bytes
        self._finished = finished
        self._stable = (
            {found: found.last_stable_offset() for found in partitions}
            if committed
            else None
        )
        self._is_over = False

    def start(self, scheduler: Scheduler, wait_ms: int) -> None:
        """Wait for at most that long."""
        assert self._missing_bytes > 0
        assert not self._is_over
        for partition in self._partitions:
            partition.waiters.add(self)
        self._timer = scheduler.call_later(wait_ms / 1000, self.finish)

    def grew(self, partition: Partition, size_bytes: int) -> None:
        """Bytes have become durable. A reader of committed records waits on until a
        transaction is decided, since it could not be given any of them."""
        assert size_bytes > 0
        self._missing_bytes -= size_bytes
        if self._missing_bytes > 0:
            return
        if self._stable is None or (
            partition.last_stable_offset() > self._stable[partition]
        ):
            self.finish()

    def finish(self) -> None:
        """Wait no longer."""
        if self._is_over:
            return
        self._is_over = True
        self._timer.cancel()
        for partition in self._partitions:
            partition.waiters.discard(self)
        self._finished()
