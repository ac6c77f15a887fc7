"""Many deadlines, one alarm: a table of deadlines with a lazy heap.

Setting a timer later, as every heartbeat does, only writes the new deadline into its
entry; the heap still holds the old time, and when that comes up the entry is pushed
again. So a reset costs a look-up (perf.md section 3). The loop is asked for one
`call_later` only: the earliest.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Any, Protocol

from coterie.coordinator.result import CancelTimer, Timer, TimerKey


class Alarm(Protocol):
    """A callback to come."""

    def cancel(self) -> None:
        """Never call it."""


class Scheduler(Protocol):
    """What timers need of an event loop."""

    def call_later(self, delay: float, callback: Callable[[], None]) -> Alarm:
        """Call back after `delay` seconds."""


class Entry:
    """One timer. `queued_ms` is the time under which the heap holds it."""

    __slots__ = ("deadline_ms", "key", "queued_ms", "request", "table")

    def __init__(self, table: TimerTable, timer: Timer) -> None:
        self.table = table
        self.key = timer.key
        self.deadline_ms = self.queued_ms = timer.fires_at_ms
        self.request: Any = timer.request


class TimerTable:
    """The timers of one shard, by key. `fire` is given a timer's request."""

    def __init__(self, timers: Timers, fire: Callable[[Any], None]) -> None:
        self._timers = timers
        self.fire = fire
        self.entries: dict[TimerKey, Entry] = {}

    def __len__(self) -> int:
        return len(self.entries)

    def change(self, timer: Timer | CancelTimer) -> None:
        """Set, replace or leave a timer, or take it away."""
        entry = self.entries.get(timer.key)
        if type(timer) is CancelTimer:
            if entry is not None:
                del self.entries[timer.key]
            return
        assert isinstance(timer, Timer)
        if entry is None:
            entry = self.entries[timer.key] = Entry(self, timer)
            self._timers.push(entry)
            return
        if timer.unless_set:
            return
        entry.request = timer.request
        entry.deadline_ms = timer.fires_at_ms
        if timer.fires_at_ms < entry.queued_ms:
            self._timers.push(entry)

    def clear(self) -> None:
        """Take all timers away."""
        self.entries.clear()


class Timers:
    """The deadlines of all shards, and the one alarm for the earliest."""

    def __init__(self, scheduler: Scheduler, clock: Callable[[], int]) -> None:
        self._scheduler = scheduler
        self._clock = clock
        self._heap: list[tuple[int, int, Entry]] = []
        self._pushes = 0
        self._alarm: Alarm | None = None
        self._alarm_ms = 0

    def table(self, fire: Callable[[Any], None]) -> TimerTable:
        """A table for the timers of one shard."""
        return TimerTable(self, fire)

    def stop(self) -> None:
        """Fire nothing more."""
        self._heap.clear()
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None

    def push(self, entry: Entry) -> None:
        """Put an entry into the heap under its deadline."""
        entry.queued_ms = entry.deadline_ms
        assert entry.table.entries[entry.key] is entry
        self._pushes += 1
        heapq.heappush(self._heap, (entry.deadline_ms, self._pushes, entry))
        if self._alarm is None or entry.deadline_ms < self._alarm_ms:
            self._set_alarm(entry.deadline_ms)

    def run_due(self) -> None:
        """Fire what is due, and set the alarm for the next."""
        self._alarm = None
        now_ms = self._clock()
        due: list[Entry] = []
        while self._heap and self._heap[0][0] <= now_ms:
            queued_ms, _, entry = heapq.heappop(self._heap)
            if entry.queued_ms != queued_ms:
                continue  # it was pushed again under an earlier time
            if entry.table.entries.get(entry.key) is not entry:
                continue  # it was taken away
            if entry.deadline_ms > now_ms:
                self.push(entry)  # it was set later meanwhile
            else:
                due.append(entry)
        for entry in due:
            if entry.table.entries.get(entry.key) is not entry:
                continue  # one that fired before took it away
            if entry.deadline_ms > now_ms:
                self.push(entry)  # one that fired before set it later
                continue
            del entry.table.entries[entry.key]
            entry.table.fire(entry.request)
        if self._heap and (self._alarm is None or self._heap[0][0] < self._alarm_ms):
            self._set_alarm(self._heap[0][0])

    def _set_alarm(self, at_ms: int) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm_ms = at_ms
        delay_ms = max(at_ms - self._clock(), 0)
        self._alarm = self._scheduler.call_later(delay_ms / 1000, self.run_due)
