"""The event loop, the clock and random ids, as the runtime uses them.

The coordinator, the catalog and the codecs are pure and receive all three by argument;
this module holds the interfaces and the implementations that a real server uses.
Simulation and tests pass their own.
"""

from __future__ import annotations

import secrets
import sys
import time
import uuid
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from coterie.broker.catalog.topics import is_usable_id
from coterie.types import TopicId


class TimerHandle(Protocol):
    """A scheduled callback."""

    def cancel(self) -> None:
        """Cancel the callback."""


class Scheduler(Protocol):
    """The part of an event loop that timers need."""

    def call_later(self, delay: float, callback: Callable[[], None]) -> TimerHandle:
        """Call `callback` after `delay` seconds."""

    def call_soon(self, callback: Callable[..., object], *args: Any) -> object:
        """Call `callback` in the next iteration of the loop."""


def after_reads(scheduler: Scheduler, callback: Callable[[], None]) -> None:
    """Call `callback` after the loop has read from every socket that is readable now.

    A loop that was late, because its process was stopped or its thread was busy, can
    run its timers before it reads what arrived meanwhile: libuv does, and asyncio does
    when the poll was interrupted. The next iteration of asyncio collects readable
    sockets behind the callbacks that are already scheduled, and libuv runs those before
    it polls; so only the iteration after the next is behind a whole poll on both.
    """
    scheduler.call_soon(scheduler.call_soon, callback)


class EventLoop(Protocol):
    """The part of an event loop that background work needs."""

    def call_soon(self, callback: Callable[..., object], *args: Any) -> object:
        """Call `callback` in the next iteration of the loop."""

    def call_soon_threadsafe(
        self, callback: Callable[..., object], *args: Any
    ) -> object:
        """Call `callback` in the next iteration of the loop, from any thread."""


def steady_clock() -> Callable[[], int]:
    """Return a clock in ms since the epoch that never steps back.

    It reads the system time once and then follows the monotonic clock, so that setting
    the system time does not expire every session. Time during which the machine is
    suspended does not count. Timestamps of records are `wall_clock`'s.
    """
    ahead_ns = time.time_ns() - time.monotonic_ns()
    monotonic_ns = time.monotonic_ns

    def now_ms() -> int:
        return (monotonic_ns() + ahead_ns) // 1_000_000

    return now_ms


def wall_clock() -> int:
    """Return the system time in ms since the epoch; it can step in both directions."""
    return time.time_ns() // 1_000_000


def suspended_clock() -> int:
    """Return ms since the boot, including the time during which the machine was
    suspended; where the system has no such clock (macOS), without it. The monotonic
    clock of Windows includes it."""
    if sys.platform == "win32":
        return time.monotonic_ns() // 1_000_000
    clock = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    return time.clock_gettime_ns(clock) // 1_000_000


class Timekeeping(NamedTuple):
    """The time of groups, offsets, logs and transactions.

    `steady` never steps back, for timeouts; `wall` is the system time, which the
    timestamps of records are compared with. Both are in ms since the epoch. The delays
    of `scheduler` and `checks` are times of `steady`; `checks` is for periodic work,
    which may be late. What belongs to connections, such as quotas
    and the waits of fetches, uses the event loop and `steady_clock` instead.
    """

    steady: Callable[[], int]
    wall: Callable[[], int]
    scheduler: Scheduler
    checks: Scheduler


def random_uuid() -> bytes:
    """Return the sixteen bytes of a random UUID."""
    return uuid.uuid4().bytes


def random_member_suffix() -> str:
    """Return a random UUID as text: the end of a member id."""
    return str(uuid.uuid4())


def random_topic_id() -> TopicId:
    """Return a random topic id, never a reserved one."""
    while True:
        topic_id = uuid.uuid4().bytes
        if is_usable_id(topic_id):
            return topic_id


def random_session_id() -> int:
    """Return a random positive fetch session id. It may already be taken."""
    return secrets.randbelow(2**31 - 1) + 1
