"""The timers of all shards: tables of deadlines over one lazy heap.

Moving a deadline later, as every heartbeat does, only writes the entry: the heap keeps
the old time, and when that time comes the entry is pushed again. So renewing a session
costs one dictionary lookup. The event loop holds one callback: the earliest deadline.

A callback that comes late (the process was stopped, or a slow request held the loop) is
postponed behind one read of all sockets, once: the heartbeats in them arrived in time,
and must renew their sessions before these expire.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Any, Final

from coterie.broker.coordinator.result import CancelTimer, Timer, TimerKey
from coterie.broker.runtime.system import Scheduler, TimerHandle, after_reads

PURGE_SIZE_MIN: Final = 4_096
"""The size of the heap from which on cancelled entries are removed early."""
LATE_MS: Final = 50
"""A callback that runs so long after its time is late. An idle loop needs 5 ms."""


class TimerEntry:
    """A timer. `queued_ms` is its position in the heap; `deadline_ms` may be later."""

    __slots__ = ("deadline_ms", "key", "queued_ms", "request", "table")

    def __init__(self, table: TimerTable, timer: Timer) -> None:
        self.table = table
        self.key = timer.key
        self.deadline_ms = self.queued_ms = timer.fires_at_ms
        self.request: Any = timer.request


class TimerTable:
    """The timers of one shard, by key. `fire` takes the request of a due timer."""

    def __init__(self, timers: Timers, fire: Callable[[Any], None]) -> None:
        self._timers = timers
        self.fire = fire
        self.entries: dict[TimerKey, TimerEntry] = {}

    def __len__(self) -> int:
        return len(self.entries)

    def change(self, timer: Timer | CancelTimer) -> None:
        """Set, replace, keep (`unless_set`) or cancel a timer."""
        entry = self.entries.get(timer.key)
        if type(timer) is CancelTimer:
            if entry is not None:
                del self.entries[timer.key]
            return
        assert isinstance(timer, Timer)
        if entry is None:
            entry = self.entries[timer.key] = TimerEntry(self, timer)
            self._timers.push(entry)
            return
        if timer.unless_set:
            return
        entry.request = timer.request
        entry.deadline_ms = timer.fires_at_ms
        if timer.fires_at_ms < entry.queued_ms:
            self._timers.push(entry)

    def clear(self) -> None:
        self.entries.clear()


class Timers:
    """The heap of all deadlines, with one callback for the earliest."""

    def __init__(self, scheduler: Scheduler, clock: Callable[[], int]) -> None:
        self._scheduler = scheduler
        self._clock = clock
        self._heap: list[tuple[int, int, TimerEntry]] = []
        self._purge_size = PURGE_SIZE_MIN
        self._pushes = 0
        self._handle: TimerHandle | None = None
        self._scheduled_ms = 0
        self._is_postponed = False

    def stop(self) -> None:
        self._heap.clear()
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _purge(self) -> None:
        """Remove cancelled and replaced entries, which could otherwise fill the memory
        until their deadlines."""
        self._heap = [
            (queued_ms, number, entry)
            for queued_ms, number, entry in self._heap
            if entry.queued_ms == queued_ms
            and entry.table.entries.get(entry.key) is entry
        ]
        heapq.heapify(self._heap)
        self._purge_size = max(2 * len(self._heap), PURGE_SIZE_MIN)

    def push(self, entry: TimerEntry) -> None:
        """Push an entry under its deadline."""
        entry.queued_ms = entry.deadline_ms
        assert entry.table.entries[entry.key] is entry
        self._pushes += 1
        heapq.heappush(self._heap, (entry.deadline_ms, self._pushes, entry))
        if len(self._heap) >= self._purge_size:
            self._purge()
        if self._is_postponed:
            return  # the postponed callback schedules the next one
        if self._handle is None or entry.deadline_ms < self._scheduled_ms:
            self._schedule(entry.deadline_ms)

    def wake(self) -> None:
        """Fire the due timers; if the callback is late, read the sockets first."""
        self._handle = None
        if self._clock() - self._scheduled_ms < LATE_MS:
            self.run_due()
            return
        assert not self._is_postponed
        self._is_postponed = True
        after_reads(self._scheduler, self.run_due)

    def run_due(self) -> None:
        """Fire the due timers, and schedule a callback for the next."""
        self._is_postponed = False
        now_ms = self._clock()
        due: list[TimerEntry] = []
        while self._heap and self._heap[0][0] <= now_ms:
            queued_ms, _, entry = heapq.heappop(self._heap)
            if entry.queued_ms != queued_ms:
                continue  # pushed again with an earlier time
            if entry.table.entries.get(entry.key) is not entry:
                continue  # cancelled or replaced
            if entry.deadline_ms > now_ms:
                self.push(entry)  # the deadline was moved later
            else:
                due.append(entry)
        for entry in due:
            if entry.table.entries.get(entry.key) is not entry:
                continue  # cancelled by a timer fired above
            if entry.deadline_ms > now_ms:
                self.push(entry)  # moved later by a timer fired above
                continue
            del entry.table.entries[entry.key]
            entry.table.fire(entry.request)
        if self._heap and (
            self._handle is None or self._heap[0][0] < self._scheduled_ms
        ):
            self._schedule(self._heap[0][0])

    def _schedule(self, at_ms: int) -> None:
        if self._handle is not None:
            self._handle.cancel()
        self._scheduled_ms = at_ms
        delay_ms = max(at_ms - self._clock(), 0)
        self._handle = self._scheduler.call_later(delay_ms / 1000, self.wake)
