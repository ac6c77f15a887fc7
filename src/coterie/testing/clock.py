"""A clock that a test moves: sessions, rebalances, retention and expiry happen now.

The time of a test server is the machine's time plus what the test has advanced. Only
groups, offsets, logs and transactions follow it (`Timekeeping`); connections, quotas,
the waits of fetches and all clients keep real time. docs/testing/clock.md explains what
that means for each client.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Final, TypedDict, Unpack

from coterie.broker import Broker, Outcome, RunInWorker, Timekeeping, TimerEntry
from coterie.testing.clock_timers import (
    CHECK_INTERVAL_MS_MIN,
    CHECK_PARTS,
    NS_PER_MS,
    Checks,
    MovableTime,
    TimerQueue,
)

_SETTLE_ITERATIONS: Final = 3
"""Iterations of the loop until a callback after `after_reads` has run."""
_WAIT_S: Final = 120.0
"""The longest real time that `advance` takes."""
_TOO_LONG: Final = (
    "the server did not finish what was due: resume it if it is paused, or advance in "
    "smaller steps"
)
CHECK_TIMERS: Final = frozenset({"expire-offsets", "regex"})
"""The kinds of timers that repeat while nothing happens."""
MEMBER_TIMERS: Final = frozenset(
    {"session", "join", "sync", "rebalance", "computation"}
)
"""The kinds of timers by which a member has to send something."""


class Duration(TypedDict, total=False):
    """A duration in parts that are added. Fractions are allowed."""

    days: float
    hours: float
    minutes: float
    seconds: float
    ms: float


class Clock:
    """The clock of a server.

    `now` and `now_ms` are the time of the server: of LogAppendTime and of commits.
    """

    def __init__(self) -> None:
        self._time = MovableTime()
        self._timers = TimerQueue(self._time)
        self._broker: Broker | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._turn = asyncio.Lock()
        self._work: _WorkerBarrier | None = None

    @property
    def now_ms(self) -> int:
        """The time in ms since the epoch."""
        return self._time.now_ms()

    @property
    def now(self) -> datetime:
        """The time, in UTC."""
        return datetime.fromtimestamp(self.now_ms / 1_000, UTC)

    # The server.

    def timekeeping(self) -> Timekeeping:
        """Return the time of a new server, which replaces the clock's earlier one.

        The server passes it to `Server`, and is attached once it has started. What the
        test has advanced stays, as over a restart; timers of the earlier server are
        dropped.
        """
        self.detach()
        timers = self._timers = TimerQueue(self._time)
        now_ms = self._time.now_ms
        return Timekeeping(now_ms, now_ms, timers, Checks(self._time, timers))

    def attach(self, broker: Broker) -> None:
        """Move the time of a started broker. It is called in the broker's loop."""
        self._loop = asyncio.get_running_loop()
        self._turn = asyncio.Lock()
        self._work = _WorkerBarrier(broker.data.run_in_worker)
        broker.data.run_in_worker = self._work.run
        self._broker = broker

    def detach(self) -> None:
        """Leave the broker, which stops. Until the next one `advance` moves the time
        and nothing else."""
        self._broker = None
        self._loop = None
        self._timers.clear()

    # The test.

    def advance(
        self,
        by: timedelta = timedelta(0),
        *,
        keep_sessions: bool = False,
        **parts: Unpack[Duration],
    ) -> None:
        """Move the time forward, and wait until everything due has happened.

        Each timer fires at its own time, in order, and what it writes is durable before
        the next one fires. `advance` does not wait for clients: a member that has to
        answer, such as with a JoinGroup, has no time to do so before later timers. Make
        two steps and wait for the group between them. With `keep_sessions` members do
        not age: the timeouts of their sessions and rebalances count real time only.

        It is called from any thread but the server's. Raises ValueError for a negative
        duration, and TimeoutError after 120 s, as when the server is paused.
        """
        duration_ns = _in_ns(by, parts)
        loop = self._loop
        if loop is None:
            self._time.jump(duration_ns)
        elif loop is running_loop():
            raise RuntimeError(
                "advance() would block the server's event loop: await advance_async()"
            )
        else:
            work = self._advance(duration_ns, keep_sessions=keep_sessions)
            future = asyncio.run_coroutine_threadsafe(work, loop)
            try:
                future.result(_WAIT_S)
            except TimeoutError:
                future.cancel()
                raise TimeoutError(_TOO_LONG) from None

    async def advance_async(
        self,
        by: timedelta = timedelta(0),
        *,
        keep_sessions: bool = False,
        **parts: Unpack[Duration],
    ) -> None:
        """Do the same as `advance` without blocking the caller's event loop, which may
        be the server's."""
        if self._loop is not running_loop():
            advance = partial(self.advance, by, keep_sessions=keep_sessions, **parts)
            await asyncio.to_thread(advance)
            return
        work = self._advance(_in_ns(by, parts), keep_sessions=keep_sessions)
        try:
            await asyncio.wait_for(work, _WAIT_S)
        except TimeoutError:
            raise TimeoutError(_TOO_LONG) from None

    def freeze(self) -> None:
        """Stop the time, which then moves by `advance` only.

        Delays of the broker stop, too: a classic group that has just been created waits
        `group.initial.rebalance.delay.ms` until the test advances.
        """
        self._time.freeze()
        self._schedule()

    def run(self) -> None:
        """Let a frozen time run again, from where it is."""
        self._time.run()
        self._schedule()

    @property
    def is_frozen(self) -> bool:
        """Whether the time moves by `advance` only."""
        return self._time.is_frozen

    # In the server's loop.

    def _schedule(self) -> None:
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._timers.schedule)

    async def _advance(self, by_ns: int, *, keep_sessions: bool) -> None:
        """Jump from timer to timer; let the broker settle after each."""
        async with self._turn:
            self._time.left_ns = by_ns
            try:
                await self._jump_to_timers(keep_sessions=keep_sessions)
            finally:
                self._time.left_ns = 0
                self._timers.schedule()

    async def _jump_to_timers(self, *, keep_sessions: bool) -> None:
        timers, postponed = self._timers, _Postponed(keep_sessions=keep_sessions)
        await self._settle()
        while True:
            if self._broker is not None:
                postponed.postpone(
                    self._broker, self.now_ms, self._time.left_ns // NS_PER_MS
                )
            next_ns = timers.next_ns()
            wait_ns = 0 if next_ns is None else next_ns - self._time.now_ns()
            if next_ns is None or wait_ns > self._time.left_ns:
                self._time.jump(self._time.left_ns)
                return
            if wait_ns > 0:
                self._time.jump(wait_ns)
                self._time.left_ns -= wait_ns
            timers.run_due()
            await self._settle()

    async def _settle(self) -> None:
        """Wait until what has happened so far is durable, and its callbacks have run.

        Work of clients that arrives meanwhile is not waited for, so that a busy server
        settles, too.
        """
        for _ in range(_SETTLE_ITERATIONS):
            await asyncio.sleep(0)
        broker = self._broker
        if broker is None or self._work is None:
            return
        await self._work.wait()
        if broker.log.has_staged() or broker.flusher.is_writing:
            durable = asyncio.get_running_loop().create_future()
            broker.flusher.when_durable(lambda _: _complete(durable))
            await durable
            await asyncio.sleep(0)


class _Postponed:
    """The shards' timers that an advance moves to a later time: those of checks and,
    with `keep_sessions`, those of members."""

    def __init__(self, *, keep_sessions: bool) -> None:
        self._keep_sessions = keep_sessions
        self._moved: dict[TimerEntry, int] = {}

    def postpone(self, broker: Broker, now_ms: int, left_ms: int) -> None:
        """Move each deadline once, and again when it was set since then, as by a
        heartbeat.

        A later deadline needs no change to the heap of timers; see `Timers`.
        """
        for shard in broker.runtime.shards:
            for key, entry in shard.timers.entries.items():
                if self._moved.get(entry) == entry.deadline_ms:
                    continue
                delay_ms = entry.deadline_ms - now_ms
                if key[0] in MEMBER_TIMERS:
                    entry.deadline_ms += left_ms if self._keep_sessions else 0
                elif key[0] in CHECK_TIMERS and delay_ms >= CHECK_INTERVAL_MS_MIN:
                    delay_ms = max(delay_ms, left_ms // CHECK_PARTS)
                    entry.deadline_ms = now_ms + delay_ms
                self._moved[entry] = entry.deadline_ms


class _WorkerBarrier:
    """The work in a broker's worker thread that decodes batches, as the log cleaner
    needs."""

    def __init__(self, run_in_worker: RunInWorker) -> None:
        self._run_in_worker = run_in_worker
        self._running: set[asyncio.Future[None]] = set()

    def run(self, work: Callable[[], Any], done: Callable[[Outcome], None]) -> None:
        """Run `work` in the thread, then `done` in the event loop."""
        finished = asyncio.get_running_loop().create_future()
        self._running.add(finished)
        finished.add_done_callback(self._running.discard)

        def finish(outcome: Outcome) -> None:
            _complete(finished)
            done(outcome)

        self._run_in_worker(work, finish)

    async def wait(self) -> None:
        """Wait until the work that was started before is finished."""
        if self._running:
            await asyncio.wait(set(self._running))


def _complete(future: asyncio.Future[None]) -> None:
    if not future.done():  # the waiting task may be cancelled
        future.set_result(None)


def running_loop() -> asyncio.AbstractEventLoop | None:
    """Return the event loop of this thread; None without one."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def _in_ns(by: timedelta, parts: Duration) -> int:
    """Return a duration in ns. Raises ValueError for a negative one."""
    total = by + timedelta(
        days=parts.get("days", 0),
        hours=parts.get("hours", 0),
        minutes=parts.get("minutes", 0),
        seconds=parts.get("seconds", 0),
        milliseconds=parts.get("ms", 0),
    )
    if total < timedelta(0):
        raise ValueError(f"the time cannot go back: {total}")
    return total // timedelta(microseconds=1) * 1_000
