"""Work of several shards in slices that leave the event loop free."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple, TypeAlias

from coterie.broker.runtime.durability import Done
from coterie.broker.runtime.system import EventLoop
from coterie.errors import CoterieError, LogError

_LOGGER = logging.getLogger(__name__)

SLICE_S: Final = 0.01

Wait: TypeAlias = Callable[[Done], None]
"""A function that calls its argument when the work can go on."""
Ended: TypeAlias = Callable[[CoterieError | None], None]


class _Job(NamedTuple):
    steps: Iterator[Wait | None]
    ended: Ended


class Slices:
    """Jobs that run one after the other, for `SLICE_S` in each iteration of the loop.

    Each owner, as a shard, has at most one job. `seconds` is the clock that bounds a
    slice.
    """

    def __init__(
        self, loop: EventLoop, seconds: Callable[[], float] = time.monotonic
    ) -> None:
        self._loop = loop
        self._seconds = seconds
        self._jobs: dict[object, _Job] = {}
        self._first: object = None
        self._scheduled = False

    def add(self, owner: object, steps: Iterator[Wait | None], ended: Ended) -> None:
        """Run all steps of an owner's job in place of its last one, then call `ended`
        with the error, if any. While a step waits, all jobs do."""
        self._jobs[owner] = _Job(steps, ended)
        self._schedule()

    def prioritize(self, owner: object) -> None:
        """Run an owner's job before the others."""
        if owner in self._jobs:
            self._first = owner

    def remove(self, owner: object) -> None:
        """Drop an owner's job; it is not called any more."""
        self._jobs.pop(owner, None)

    def clear(self) -> None:
        """Drop all jobs."""
        self._jobs.clear()

    def run(self) -> None:
        """Run one slice, and schedule the next one."""
        self._scheduled = False
        ends = self._seconds() + SLICE_S
        while self._jobs:
            is_preferred = self._first in self._jobs
            owner = self._first if is_preferred else next(iter(self._jobs))
            job = self._jobs[owner]
            if not self._run_job(owner, job, ends):
                return

    def _schedule(self) -> None:
        if self._jobs and not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self.run)

    def _run_job(self, owner: object, job: _Job, ends: float) -> bool:
        """Run a job; return False if it did not end in this slice."""
        error: CoterieError | None = None
        try:
            for wait in job.steps:
                if wait is not None:
                    wait(lambda _: self._schedule())
                    return False
                if self._seconds() >= ends:
                    self._schedule()
                    return False
        except CoterieError as failed:
            error = failed
        except Exception as bug:
            _LOGGER.exception("a bug in loading a shard")
            error = LogError(f"{type(bug).__name__}: {bug}")
        if self._jobs.get(owner) is job:
            del self._jobs[owner]
            job.ended(error)
        return True
