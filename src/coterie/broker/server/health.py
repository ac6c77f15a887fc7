"""The health of a server: the delay of its event loop, liveness and readiness.

`/health` responds with 200 while the event loop turns, and with 503 after a turn of
over `STALL_S`. `/ready` responds with 503 and names what is missing: shards that are
not loaded, the catalog, or a flush. A failed flush is repeated with a probe every
`RETRY_S`, because a server that gets no traffic would never flush again.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

from coterie.broker.runtime.shards import Phase
from coterie.broker.server.broker import Broker
from coterie.errors import LogError

INTERVAL_S: Final = 0.1
"""The interval of the callback that measures the delay; a longer turn delays it."""
LONG_TURN_S: Final = 0.25
STALL_S: Final = 10.0
"""A turn of the event loop, or a flush, that takes this long is a failure."""
RETRY_S: Final = 5.0
_RECENT_S: Final = 60.0
_PHASES: Final = (Phase.LOADING, Phase.ACTIVE, Phase.STOPPED)
"""The phases of a server's shards; those of a gateway may be unassigned, too."""
_PROBE: Final = b"flush.probe"
_SPACE: Final = "health"


class LoopClock(Protocol):
    """The part of an event loop that the measurement needs."""

    def time(self) -> float:
        """Return the loop's time in seconds."""

    def call_at(self, when: float, callback: Callable[[], None]) -> asyncio.TimerHandle:
        """Call `callback` at that time of the loop."""


class LoopMonitor:
    """A periodic callback that measures the delay of an event loop.

    `observe` takes each delay in seconds. `on_tick` is called with the loop's time.
    """

    def __init__(
        self,
        loop: LoopClock,
        observe: Callable[[float], None],
        on_tick: Callable[[float], None],
    ) -> None:
        self._loop = loop
        self._observe = observe
        self._on_tick = on_tick
        self._timer: asyncio.TimerHandle | None = None
        self._due_s = 0.0
        self._recent: list[tuple[float, float]] = [(0.0, 0.0), (0.0, 0.0)]
        """The start and the largest delay of the current and the previous minute."""
        self.long_turns = 0
        """The number of delays of at least `LONG_TURN_S`."""
        self.last_delay_s = 0.0

    def start(self) -> None:
        self._recent = [(self._loop.time(), 0.0), (0.0, 0.0)]
        self._schedule(self._loop.time())

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    @property
    def delay_s(self) -> float:
        """The newest delay, or that of the callback that is overdue."""
        return max(self.last_delay_s, self._loop.time() - self._due_s)

    @property
    def largest_delay_s(self) -> float:
        """The largest delay of the last one to two minutes."""
        return max(self.delay_s, *(delay_s for _, delay_s in self._recent))

    def _schedule(self, now_s: float) -> None:
        self._due_s = now_s + INTERVAL_S
        self._timer = self._loop.call_at(self._due_s, self._tick)

    def _tick(self) -> None:
        now_s = self._loop.time()
        delay_s = self.last_delay_s = max(0.0, now_s - self._due_s)
        self._observe(delay_s)
        self.long_turns += delay_s >= LONG_TURN_S
        (since_s, largest_s), before = self._recent
        if now_s - since_s >= _RECENT_S:
            before, since_s, largest_s = (since_s, largest_s), now_s, 0.0
        self._recent = [(since_s, max(largest_s, delay_s)), before]
        # Scheduled first, so that a failure of `on_tick` does not end the measurement.
        self._schedule(now_s)
        self._on_tick(now_s)


class Health:
    """The liveness and readiness of a server. `version` is Coterie's."""

    def __init__(
        self,
        broker: Broker,
        loop: LoopClock,
        observe: Callable[[float], None],
        version: str,
    ) -> None:
        self._broker = broker
        self._started_s = loop.time()
        self._loop = loop
        self._version = version
        self._write = (0, 0.0)
        """The number of the write in progress, and the time when it was first seen."""
        self._probed_s = 0.0
        self._is_stopping = False
        self.monitor = LoopMonitor(loop, observe, self._check_flush)

    def stop(self) -> None:
        """Stop measuring; the server is not ready from now on."""
        self._is_stopping = True
        self.monitor.stop()

    def liveness(self) -> tuple[bool, Mapping[str, Any]]:
        """Return whether the event loop turns, and the details."""
        monitor = self.monitor
        is_turning = monitor.delay_s < STALL_S
        return is_turning, {
            "status": "ok" if is_turning else "the event loop was blocked",
            "version": self._version,
            "uptime_s": round(self._loop.time() - self._started_s),
            "time_ms": time.time_ns() // 1_000_000,
            "clock_ms": self._broker.clock(),
            "event_loop_delay_ms": _ms(monitor.delay_s),
            "event_loop_delay_max_ms": _ms(monitor.largest_delay_s),
            "long_turns": monitor.long_turns,
        }

    def readiness(self) -> tuple[bool, Mapping[str, Any]]:
        """Return whether clients can use all groups and topics, and what is missing."""
        broker = self._broker
        phases = Counter(partition.phase for partition in broker.runtime.shards)
        loaded, total = phases[Phase.ACTIVE], phases.total()
        missing = []
        if self._is_stopping:
            missing.append("the server is stopping")
        if not broker.data.is_loaded:
            missing.append("the catalog is not loaded")
        if loaded < total or not total:
            missing.append(f"{loaded} of {total} shards are loaded")
        if broker.flusher.last_error is not None:
            missing.append("the last flush failed: see the server's log")
        elif self._is_flush_stalled():
            missing.append(f"a flush has been in progress for over {STALL_S:g} s")
        return not missing, {
            "status": "not ready" if missing else "ready",
            "missing": missing,
            "shards": {each.value: phases[each] for each in _PHASES},
            "flush_failures": broker.flusher.failures,
        }

    def _is_flush_stalled(self) -> bool:
        sequence, since_s = self._write
        flusher = self._broker.flusher
        return (
            flusher.is_writing
            and sequence == flusher.next_sequence
            and self._loop.time() - since_s >= STALL_S
        )

    def _check_flush(self, now_s: float) -> None:
        """Note the write in progress; write a probe after a failed flush."""
        flusher = self._broker.flusher
        if self._write[0] != flusher.next_sequence or not flusher.is_writing:
            self._write = (flusher.next_sequence, now_s)
        if flusher.last_error is not None and now_s - self._probed_s >= RETRY_S:
            self._probed_s = now_s
            self._broker.log.put(_SPACE, _PROBE, b"")
            flusher.when_durable(_ignore)


def _ignore(error: LogError | None) -> None:
    """Ignore the outcome of the probe: the flusher keeps it."""


def _ms(seconds: float) -> float:
    return round(seconds * 1_000, 1)
