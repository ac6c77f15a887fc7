"""Answers that wait until what they speak of is durable.

An answer is parked under the sequence of the write that it waits for. Whoever stages a
record says so at once (`expect`), so that exactly that write lets the answers go.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple, Protocol

from coterie.coordinator.result import Context
from coterie.errors import LogError
from coterie.log.log import LogPartition
from coterie.runtime.timers import Scheduler
from coterie.settings import Settings
from coterie.wire.schema import Struct

Answer = Callable[[Any], None]


class Waiting(NamedTuple):
    """A request that somebody waits for, with all that is needed to refuse it."""

    request: Any
    context: Context
    answer: Answer


Refuse = Callable[[Waiting, LogError | TimeoutError], None]
_LOOKS_PER_TIMEOUT: Final = 5


class Sequenced(Protocol):
    """What deferring needs of the flusher."""

    next_sequence: int
    durable_sequence: int

    def when_durable(self, done: Callable[[LogError | None], None]) -> None:
        """Call `done` once all that is staged is durable, or with what went wrong."""


class Surroundings(Protocol):
    """What deferring needs beside the flusher: time, and who to tell."""

    settings: Settings
    scheduler: Scheduler

    def clock(self) -> int:
        """Ms since the epoch."""

    def grew(self, where: LogPartition, size_bytes: int) -> None:
        """Bytes have become durable in a partition."""


class _Write:
    """What waits for one write: answers, and readers of the partitions it is in."""

    __slots__ = ("answers", "grown", "since_ms")

    def __init__(self, since_ms: int) -> None:
        self.since_ms = since_ms
        self.answers: list[tuple[Waiting, Struct]] = []
        self.grown: dict[LogPartition, int] = {}


class Deferred:
    """Answers by the sequence of the write they wait for.

    When the write is durable, `grew` hears first by how many bytes each partition is
    longer. When it failed, or takes longer than `offsets.commit.timeout.ms`, each
    request is refused by `refuse` (E23-09).
    """

    def __init__(
        self, flusher: Sequenced, refuse: Refuse, surroundings: Surroundings
    ) -> None:
        self._flusher = flusher
        self._refuse = refuse
        self._clock = surroundings.clock
        self._grew = surroundings.grew
        self._scheduler = surroundings.scheduler
        self._timeout_ms = surroundings.settings.offsets_commit_timeout_ms
        self._is_watching = False
        self._writes: dict[int, _Write] = {}

    def __len__(self) -> int:
        return sum(len(write.answers) for write in self._writes.values())

    def staged(self, where: LogPartition, size_bytes: int) -> int:
        """A batch was staged: the sequence of the write that will hold it."""
        sequence = self._flusher.next_sequence
        write = self._writes.get(sequence)
        if write is None:
            write = self._writes[sequence] = _Write(self._clock())
            self._watch()
            self._flusher.when_durable(lambda error: self._settle(sequence, error))
        write.grown[where] = write.grown.get(where, 0) + size_bytes
        return sequence

    def park(self, sequence: int, waiting: Waiting, response: Struct) -> None:
        """Answer once that write is durable."""
        assert sequence > self._flusher.durable_sequence
        self._writes[sequence].answers.append((waiting, response))

    def _watch(self) -> None:
        """Look again later, as long as there is something to look at."""
        if not self._is_watching and self._writes:
            self._is_watching = True
            delay_ms = self._timeout_ms / _LOOKS_PER_TIMEOUT
            self._scheduler.call_later(delay_ms / 1000, self._look)

    def _look(self) -> None:
        """Refuse what waits for a write that takes too long. The write may still come
        to be: a client that hears nothing better asks again."""
        self._is_watching = False
        too_old_ms = self._clock() - self._timeout_ms
        for write in self._writes.values():
            if write.since_ms <= too_old_ms:
                answers, write.answers = write.answers, []
                for waiting, _ in answers:
                    self._refuse(waiting, TimeoutError("the disk takes too long"))
        self._watch()

    def _settle(self, sequence: int, error: LogError | None) -> None:
        write = self._writes.pop(sequence)
        if error is None:
            for where, size_bytes in write.grown.items():
                self._grew(where, size_bytes)
        for waiting, response in write.answers:
            if error is None:
                waiting.answer(response)
            else:
                self._refuse(waiting, error)
