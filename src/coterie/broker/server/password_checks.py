"""The checks of passwords: delayed after failures, few at a time, fair to addresses.

PLAIN hashes a password for some milliseconds in a worker thread. As many checks run as
there are workers; the others wait in one queue for each address, which take turns, so
that many attempts of one client do not delay another by more than one check. When too
many wait, one of the address with the most of them is refused, so that one address
cannot use up the places of all.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple, Protocol, TypeAlias

from coterie.broker.server.failed_attempts import FailedAttempts

WAITING_MAX: Final = 10_000
"""The largest number of checks that wait for a worker."""

Work: TypeAlias = Callable[[], bytes]
RunInWorker: TypeAlias = Callable[[Work], "asyncio.Future[bytes]"]


class Check(NamedTuple):
    """One token of a client to check.

    `done` gets a function that returns the result or raises the error. `refuse` is
    called instead when too many checks wait. Neither is called when `is_open` is false.
    """

    user: str
    address: str
    work: Work
    is_slow: bool
    is_open: Callable[[], bool]
    done: Callable[[Work], None]
    refuse: Callable[[], None]


class Timing(Protocol):
    """The part of an event loop that delays need."""

    def call_later(
        self, delay: float, callback: Callable[[Check], None], check: Check, /
    ) -> object:
        """Call `callback` with the check after `delay` seconds."""


class PasswordChecks:
    """The checks of all connections of a listener. `clock` returns ms."""

    def __init__(
        self,
        attempts: FailedAttempts,
        *,
        workers: int,
        loop: Timing,
        clock: Callable[[], int],
        run_in_worker: RunInWorker,
    ) -> None:
        self.attempts = attempts
        self._workers = workers
        self._loop = loop
        self._clock = clock
        self._run_in_worker = run_in_worker
        self._running = 0
        self._waiting: OrderedDict[str, deque[Check]] = OrderedDict()
        self.waiting_count = 0
        self.delayed_count = 0
        """The number of times a check was delayed after failures."""

    def submit(self, check: Check) -> None:
        """Check a token as soon as the failures of its user and address allow it."""
        if not check.is_open() or self._is_delayed(check):
            return
        if not check.is_slow:
            check.done(check.work)
        else:
            self._waiting.setdefault(check.address, deque()).append(check)
            self.waiting_count += 1
            self._start_waiting()
            if self.waiting_count > WAITING_MAX:
                self._refuse_one()

    def fail(self, user: str, address: str) -> None:
        """Count a failed authentication."""
        self.attempts.fail(user, address, self._clock())

    def succeed(self, user: str, address: str) -> None:
        """Forget the failures of a user at an address."""
        self.attempts.succeed(user, address, self._clock())

    def _is_delayed(self, check: Check) -> bool:
        """Submit the check again later, if its user or address has to wait."""
        wait_ms = self.attempts.wait_ms(check.user, check.address, self._clock())
        if wait_ms:
            self.delayed_count += 1
            self._loop.call_later(wait_ms / 1_000, self.submit, check)
        return wait_ms > 0

    def _start_waiting(self) -> None:
        while self._running < self._workers and self._waiting:
            check = self._next()
            # A check that ended while this one waited may have failed.
            if check.is_open() and not self._is_delayed(check):
                self._running += 1
                future = self._run_in_worker(check.work)
                future.add_done_callback(partial(self._finish, check))

    def _refuse_one(self) -> None:
        """Refuse the newest check of the address that has the most waiting ones."""
        address = max(self._waiting, key=lambda each: len(self._waiting[each]))
        checks = self._waiting[address]
        newest = checks.pop()
        self.waiting_count -= 1
        if not checks:
            del self._waiting[address]
        if newest.is_open():
            newest.refuse()

    def _next(self) -> Check:
        address, checks = self._waiting.popitem(last=False)
        check = checks.popleft()
        self.waiting_count -= 1
        assert self.waiting_count >= 0
        if checks:
            self._waiting[address] = checks
        return check

    def _finish(self, check: Check, future: asyncio.Future[bytes]) -> None:
        self._running -= 1
        assert self._running >= 0
        if future.cancelled():
            return  # the server stops
        future.exception()  # retrieved, or asyncio would log it as unretrieved
        if check.is_open():
            check.done(future.result)
        self._start_waiting()
