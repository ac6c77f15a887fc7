"""One life of the server: the real runtime, flusher, loader, snapshots and compaction,
over a disk that outlives it and a loop whose time is the world's."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from random import Random
from typing import Any, Final

from coterie.catalog.topic_configs import TopicSettings, topic_settings
from coterie.coordinator.assignors.registry import configured
from coterie.coordinator.assignors.spec import Assign, Assignment, GroupSpec
from coterie.coordinator.result import GroupConfigView, TopicView
from coterie.coordinator.shard import Shard
from coterie.errors import LogError
from coterie.log.log import LogPartition
from coterie.runtime.compactor import compaction
from coterie.runtime.flusher import Flusher
from coterie.runtime.loader import Loader
from coterie.runtime.partitions import Partition
from coterie.runtime.runtime import Runtime
from coterie.runtime.shards import DrivenShard, Phase
from coterie.runtime.snapshots import Snapshots
from coterie.runtime.timers import Scheduler
from coterie.settings import Settings
from coterie.types import LogOffset, TopicPartition
from sim.clock import Clock, ServerLoop
from sim.configs import Configs
from sim.disk import Disk
from sim.topics import Topics

OFFSETS_TOPIC_ID: Final = b"offsets-topic-id"
LOADING_MS_MAX: Final = 1_500
_STEPS_PER_TURN: Final = 1
_PAUSE_MS_MAX: Final = 400
"""Between turns; so long a snapshot is behind what it began at."""


class _SlowLoop:
    """The loop as the flusher sees it: a write begins some time after it was asked for,
    and what comes in between is part of it."""

    def __init__(self, loop: ServerLoop, delay_ms: Callable[[], int]) -> None:
        self._loop = loop
        self._delay_ms = delay_ms

    def call_soon(self, callback: Callable[..., object], *args: Any) -> None:
        """Call back when the disk is ready."""
        delay_ms = self._delay_ms()
        if delay_ms:
            self._loop.call_later(delay_ms / 1000, callback, *args)
        else:
            self._loop.call_soon(callback, *args)

    call_soon_threadsafe = call_soon


class Surroundings:
    """What outlives the server, and what every life of it is given."""

    def __init__(
        self, clock: Clock, rng: Random, settings: Settings, topics: Topics
    ) -> None:
        self.clock = clock
        self.rng = rng
        self.settings = settings
        self.topics = topics
        self.configs = Configs(settings)
        self.disk_ms = 0
        """How long a write may wait for the disk."""
        self.assignors_fail = False
        """Whether the server's own assignors do not work."""

    def new_id(self) -> str:
        """The end of a member id."""
        return f"{self.rng.getrandbits(32):08x}"

    def new_uuid(self) -> bytes:
        """Sixteen bytes."""
        return self.rng.randbytes(16)


def _breakable(assign: Assign, around: Surroundings) -> Assign:
    def assign_or_fail(spec: GroupSpec) -> Assignment:
        if around.assignors_fail:
            raise RuntimeError("the world made it fail")
        return assign(spec)

    return assign_or_fail


class Server:
    """A running server: the runtime's environment, and what a world does to it."""

    def __init__(self, around: Surroundings, disk: Disk, shard_count: int) -> None:
        self.around = around
        self.disk = disk
        self.loop = ServerLoop(around.clock)
        self.settings = around.settings
        self.topics: TopicView = around.topics
        self.configs: GroupConfigView = around.configs
        self.assignors: Mapping[str, Assign] = {
            name: _breakable(assign, around)
            for name, assign in configured(
                around.settings.group_consumer_assignors
            ).items()
        }
        self.scheduler: Scheduler = self.loop
        self.clock = around.clock.now
        slow = _SlowLoop(self.loop, lambda: around.rng.randint(0, around.disk_ms))
        self.flusher = Flusher(disk, slow, threaded=False)
        self.runtime = Runtime(
            disk, self.flusher, self, new_id=around.new_id, new_uuid=around.new_uuid
        )
        self.snapshots = Snapshots(disk)
        self._loader = Loader(
            disk,
            self.flusher,
            self.snapshots,
            loop=self.loop,
            activate=self.runtime.activate,
            failed=self.runtime.loading_failed,
        )
        self._loader.seconds = lambda: 0.0  # a slice never ends for want of time
        self._compacting: set[int] = set()
        self._snapshotting: set[int] = set()
        for index in range(shard_count):
            where = LogPartition(OFFSETS_TOPIC_ID, index)
            if where not in disk.partitions():
                disk.create(where)
        self.flusher.flush()
        self.runtime.start(OFFSETS_TOPIC_ID, shard_count)

    # What the runtime asks.

    def make_shard(self) -> Shard:
        """An empty shard."""
        return Shard(self.settings)

    def grew(self, where: LogPartition, size_bytes: int) -> None:
        """Nobody waits for bytes here."""

    def load(self, driven: DrivenShard) -> None:
        """Load a shard, after a while."""
        shard = driven.shard

        def begin() -> None:
            if driven.shard is shard and driven.phase is Phase.LOADING:
                self._loader.load(driven)

        delay_ms = self.around.rng.randint(0, LOADING_MS_MAX)
        self.loop.call_later(delay_ms / 1000, begin)

    def hurry(self, driven: DrivenShard) -> None:
        """Load this one before others."""
        self._loader.hurry(driven)

    # What a world does.

    def is_quiet(self, driven: DrivenShard) -> bool:
        """Whether all that the shard has written is durable."""
        return driven.written_sequence <= self.flusher.durable_sequence

    def snapshot(self, driven: DrivenShard) -> None:
        """Write a snapshot of what has changed in a shard, a step at a time."""
        if driven.phase is not Phase.ACTIVE or driven.index in self._snapshotting:
            return
        self._snapshotting.add(driven.index)
        shard = driven.shard
        changed = frozenset(shard.changed)
        shard.changed.clear()
        self._go_on(
            self.snapshots.write(driven, changed),
            lambda: shard.changed.update(changed),
            lambda: self._snapshotting.discard(driven.index),
        )

    def compact(self, driven: DrivenShard, delete_retention_ms: int) -> None:
        """Compact a shard's log as the server's housekeeping does."""
        if driven.index in self._compacting:
            return
        self._compacting.add(driven.index)
        name = TopicPartition("__consumer_offsets", driven.index)
        steps = compaction(
            self.disk,
            Partition(name, driven.where, self.disk),
            self._compaction_settings(delete_retention_ms),
            now_ms=self.clock(),
            before=self._compacts_before(driven),
        )
        self._go_on(steps, lambda: None, lambda: self._compacting.discard(driven.index))

    def _compacts_before(self, driven: DrivenShard) -> LogOffset | None:
        """A shard that starts from its snapshot needs every tombstone since then."""
        if driven.phase is not Phase.ACTIVE:
            return 0
        return self.snapshots.replay_from(driven.index)

    def _compaction_settings(self, delete_retention_ms: int) -> TopicSettings:
        configs = {
            "cleanup.policy": "compact",
            "min.cleanable.dirty.ratio": "0",
            "delete.retention.ms": str(delete_retention_ms),
        }
        return topic_settings(configs, self.settings)

    def _go_on(
        self,
        steps: Iterator[object],
        failed: Callable[[], None],
        ended: Callable[[], None],
    ) -> None:
        """A few steps; the rest once these are durable and others had a turn."""
        has_more = len(list(islice(steps, _STEPS_PER_TURN))) == _STEPS_PER_TURN

        def durable(error: LogError | None) -> None:
            if error is not None:
                failed()
            if error is None and has_more:
                delay_ms = self.around.rng.randint(0, _PAUSE_MS_MAX)
                self.loop.call_later(
                    delay_ms / 1000, lambda: self._go_on(steps, failed, ended)
                )
            else:
                ended()

        self.flusher.when_durable(durable)
