"""Work of several shards in slices that leave the event loop free."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from coterie.broker.runtime.system import Scheduler
from coterie.errors import CoterieError, LogError

_LOGGER = logging.getLogger(__name__)

SLICE_S: Final = 0.01

Ended = Callable[[CoterieError | None], None]


class _Job(NamedTuple):
    steps: Iterator[None]
    ended: Ended


class Slices:
    """Jobs that run one after the other, for `SLICE_S` in each iteration of the loop.

    Each shard has at most one job. `seconds` is the clock that bounds a slice.
    """

    def __init__(
        self, scheduler: Scheduler, seconds: Callable[[], float] = time.monotonic
    ) -> None:
        self._scheduler = scheduler
        self._seconds = seconds
        self._jobs: dict[object, _Job] = {}
        self._first: object = None
        self._scheduled = False

    def add(self, owner: object, steps: Iterator[None], ended: Ended) -> None:
        """Run all steps of an owner's job, then call `ended` with the error, if any."""
        assert owner not in self._jobs
        self._jobs[owner] = _Job(steps, ended)
        self._schedule()

    def prioritize(self, owner: object) -> None:
        """Run an owner's job before the others."""
        if owner in self._jobs:
            self._first = owner

    def remove(self, owner: object) -> None:
        """Drop an owner's job; it is not called any more."""
        self._jobs.pop(owner, None)

    def _schedule(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            self._scheduler.call_soon(self._run)

    def _run(self) -> None:
        self._scheduled = False
        ends = self._seconds() + SLICE_S
        while self._jobs:
            is_preferred = self._first in self._jobs
            owner = self._first if is_preferred else next(iter(self._jobs))
            if self._run_job(owner, self._jobs[owner], ends):
                self._schedule()
                return

    def _run_job(self, owner: object, job: _Job, ends: float) -> bool:
        """Run a job until its end; return True when the time is over before."""
        error: CoterieError | None = None
        try:
            for _ in job.steps:
                if self._seconds() >= ends:
                    return True
        except CoterieError as failed:
            error = failed
        except Exception as bug:
            _LOGGER.exception("a bug in loading a shard")
            error = LogError(f"{type(bug).__name__}: {bug}")
        if self._jobs.get(owner) is job:
            del self._jobs[owner]
            job.ended(error)
        return False
