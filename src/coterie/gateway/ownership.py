"""The shards that a node owns: taken over when assigned, released when not, and served
only while the node's lease lasts.

The upstream group assigns the shards. A node that is cut off from upstream is not told
that it lost them, so it has a lease: upstream gives a node's shards to others only when
it has received no heartbeat for the session time-out. Heartbeats arrive after they were
sent, so the lease counts from the time of sending, and ends earlier by a margin for
clocks of different speed. The clock has to go on while the process or the machine is
suspended.

A lease that has ended stays ended until every shard was released: state that was kept
for a moment without a lease may be older than what another owner has written.

The module imports no event loop: the simulation runs it with its own clock.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple

from coterie.broker import (
    CoordinatorPartition,
    Loaded,
    Phase,
    Runtime,
    Scheduler,
    ShardStore,
    TimerHandle,
)
from coterie.gateway.counts import GatewayCounts
from coterie.types import LogOffset

_LOGGER = logging.getLogger(__name__)

RETRY_MIN_MS: Final = 200
RETRY_MAX_MS: Final = 10_000
"""The delays before a shard is taken over again, doubled after each failure."""


class Progress(NamedTuple):
    """How far a shard is taken over."""

    epoch: int = -1
    """The producer epoch, which fences earlier owners; -1 before it is known."""
    offset: LogOffset = 0
    """The offset up to which the partition was replayed, or written after that."""
    barrier: LogOffset = -1
    """The offset of the own barrier, after which the shard is loaded; -1 before it is
    written."""


class OpenedShard(NamedTuple):
    """The store of a shard, and the function that stops everything that uses it: its
    loading, its writer and what follows its partition."""

    store: ShardStore
    close: Callable[[], None]
    progress: Callable[[], Progress] = Progress


class Lease:
    """The time until which a node may serve its shards. `clock` returns ms."""

    def __init__(self, clock: Callable[[], int], duration_ms: int) -> None:
        assert duration_ms > 0
        self._clock = clock
        self._duration_ms = duration_ms
        self._ends_at_ms = 0
        self._has_ended = True

    def is_held(self) -> bool:
        """Return whether the node may serve its shards now."""
        if not self._has_ended and self._clock() >= self._ends_at_ms:
            self._has_ended = True
        return not self._has_ended

    @property
    def remaining_ms(self) -> int:
        """The time until the end; 0 once it has ended."""
        return self._ends_at_ms - self._clock() if self.is_held() else 0

    def extend(self, sent_at_ms: int) -> None:
        """Extend the lease by a heartbeat that was sent then; a lease that has ended is
        not extended."""
        if self.is_held():
            self._ends_at_ms = max(self._ends_at_ms, sent_at_ms + self._duration_ms)

    def begin(self, sent_at_ms: int) -> None:
        """Begin a lease, with no shard served from an earlier one."""
        self._ends_at_ms = sent_at_ms + self._duration_ms
        self._has_ended = False

    def end(self) -> None:
        """End the lease now."""
        self._has_ended = True


@dataclass(slots=True, eq=False)
class _Assigned:
    """A shard that is assigned to this node."""

    since_ms: int
    failures: int = 0
    opened: OpenedShard | None = None
    """What was opened to take the shard over; None before that, and between a failure
    and the next try."""
    is_active: bool = False
    retry: TimerHandle | None = None


class Ownership:
    """The shards that are assigned to this node; see the module's docstring.

    `open_shard` returns what a shard is loaded from and written to; it is called for
    each try to take a shard over. `clock` returns ms, and `scheduler` follows it while
    the process runs.
    """

    def __init__(
        self,
        runtime: Runtime,
        open_shard: Callable[[int], OpenedShard],
        *,
        clock: Callable[[], int],
        scheduler: Scheduler,
        lease_ms: int,
        counts: GatewayCounts,
    ) -> None:
        self._runtime = runtime
        self._open_shard = open_shard
        self._clock = clock
        self._scheduler = scheduler
        self._counts = counts
        self._shards: dict[int, _Assigned] = {}
        self._active = 0
        self._is_check_scheduled = False
        self.lease = Lease(clock, lease_ms)
        runtime.lease = self.lease.is_held
        runtime.recover = self._take_again

    @property
    def shards(self) -> frozenset[int]:
        """The shards that are assigned to this node."""
        return frozenset(self._shards)

    def is_failed(self, index: int) -> bool:
        """Return whether a shard waits for another try to take it over."""
        return index in self._shards and self._shards[index].retry is not None

    def since_ms(self, index: int) -> int:
        """Return when an assigned shard was assigned, on the node's clock."""
        return self._shards[index].since_ms

    def progress(self, index: int) -> Progress:
        """Return how far an assigned shard is taken over."""
        opened = self._shards[index].opened
        return Progress() if opened is None else opened.progress()

    # The membership's events.

    def assigned(self, shards: frozenset[int]) -> None:
        """Own exactly these shards: release all others at once, and take over those
        that are new."""
        for index in sorted(self._shards.keys() - shards):
            self._close(index)
            self._shards.pop(index, None)
        now_ms = self._clock()
        for index in sorted(shards - self._shards.keys()):
            self._shards[index] = _Assigned(now_ms)
        self._take_all()

    def heartbeat_answered(self, sent_at_ms: int) -> None:
        """Extend the lease: upstream has answered, without an error, a heartbeat (or a
        join or sync) that was sent then."""
        if self.lease.is_held():
            self.lease.extend(sent_at_ms)
        else:
            self._close_all()
            self.lease.begin(sent_at_ms)
        if self.lease.is_held():
            self._take_all()
        self._schedule_check()

    def lost(self) -> None:
        """Release all shards at once: the node is not a member any more."""
        self.lease.end()
        self._close_all()
        self._shards.clear()

    def fenced(self, index: int) -> None:
        """Release a shard that another node has taken over, as upstream has refused its
        producer epoch.

        If the shard is still assigned to this node, the other one was late, and this
        node takes the shard over again.
        """
        self._counts.fenced += 1
        self._take_again(index)

    def drain(self, done: Callable[[], None]) -> None:
        """Release all shards once their writes are durable, and call `done`.

        Further requests are served until then.
        """
        waiting = [
            partition
            for partition in self._runtime.shards
            if partition.phase is Phase.ACTIVE
        ]
        left = len(waiting)

        def written(_: object) -> None:
            nonlocal left
            left -= 1
            if left <= 0:
                self.lost()
                done()

        if not waiting:
            written(None)
        for partition in waiting:
            partition.flusher.when_durable(written)

    # The lease.

    def _schedule_check(self) -> None:
        if not self._is_check_scheduled and self.lease.is_held():
            self._is_check_scheduled = True
            delay_ms = self.lease.remaining_ms
            self._scheduler.call_later(delay_ms / 1000, self._check_lease)

    def _check_lease(self) -> None:
        """Release all shards if the lease has ended; they stay assigned, and are taken
        over again with the next lease."""
        self._is_check_scheduled = False
        if self.lease.is_held():
            self._schedule_check()
        elif self._shards:
            self._counts.lapsed_leases += 1
            _LOGGER.error(
                "upstream has answered no heartbeat in time: all %d shards of this "
                "node stop until it does",
                len(self._shards),
            )
            self._close_all()

    # Taking over.

    def _take_all(self) -> None:
        if not self.lease.is_held():
            return
        for index, shard in list(self._shards.items()):
            if shard.opened is None and shard.retry is None:
                self._take(index, shard)

    def _take(self, index: int, shard: _Assigned) -> None:
        started_ms = self._clock()
        opened = shard.opened = self._open_shard(index)

        def load(
            partition: CoordinatorPartition, loaded: Loaded, failed: Loaded
        ) -> None:
            def finished(_: CoordinatorPartition) -> None:
                if shard.opened is opened:
                    shard.failures, shard.is_active = 0, True
                    self._count_active()
                    self._counts.takeovers += 1
                    self._counts.observe_takeover((self._clock() - started_ms) / 1000)
                    loaded(partition)

            opened.store.load(partition, finished, failed)

        self._runtime.assign(index, opened.store._replace(load=load))

    def _count_active(self) -> None:
        """Log once all shards are active that are assigned."""
        self._active += 1
        if self._active == len(self._shards):
            _LOGGER.info("all %d shards of this node are active", self._active)

    def _take_again(self, index: int) -> None:
        """Release a shard that has stopped, and take it over later."""
        shard = self._shards.get(index)
        if shard is None:
            return
        if shard.opened is not None and not shard.is_active:
            self._counts.failed_takeovers += 1
        self._close(index)
        delay_ms = min(RETRY_MIN_MS << min(shard.failures, 16), RETRY_MAX_MS)
        shard.failures += 1

        def retry() -> None:
            shard.retry = None
            if self._shards.get(index) is shard:
                self._take_all()

        shard.retry = self._scheduler.call_later(delay_ms / 1000, retry)

    def _close_all(self) -> None:
        for index in list(self._shards):
            self._close(index)

    def _close(self, index: int) -> None:
        """Release a shard at once, and stop everything that uses its store."""
        shard = self._shards.get(index)
        if shard is None:
            return  # the end of another shard's writes has ended a drain: `lost`
        if shard.retry is not None:
            shard.retry.cancel()
            shard.retry = None
        self._active -= shard.is_active
        opened, shard.opened, shard.is_active = shard.opened, None, False
        if opened is not None:
            self._runtime.release(index)
            opened.close()
