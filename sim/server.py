"""One process of the server: the real runtime, flusher, loader, snapshots and
compaction. The disk outlives the process, and the event loop uses the world's time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from random import Random
from typing import Any, Final

from coterie.broker.catalog.configs import TopicSettings, topic_settings
from coterie.broker.coordinator.assignors.registry import configured
from coterie.broker.coordinator.assignors.spec import Assign, Assignment, GroupSpec
from coterie.broker.coordinator.result import CoordinatorEnvironment
from coterie.broker.log.log import LogPartition
from coterie.broker.runtime.flusher import Flusher
from coterie.broker.runtime.loader import Loader
from coterie.broker.runtime.log_cleaner import compaction
from coterie.broker.runtime.partitions import Partition
from coterie.broker.runtime.runtime import Runtime
from coterie.broker.runtime.shards import CoordinatorPartition, Loaded, Phase
from coterie.broker.runtime.snapshots import Snapshots
from coterie.broker.runtime.system import Timekeeping
from coterie.errors import LogError
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
"""The longest time between iterations, by which a snapshot may lag."""


class _SlowLoop:
    """The loop of the flusher: a write starts some time after it was requested, and
    includes everything staged until then.
    """

    def __init__(self, loop: ServerLoop, delay_ms: Callable[[], int]) -> None:
        self._loop = loop
        self._delay_ms = delay_ms

    def call_soon(self, callback: Callable[..., object], *args: Any) -> None:
        """Schedule a callback for the time at which the disk is ready."""
        delay_ms = self._delay_ms()
        if delay_ms:
            self._loop.call_later(delay_ms / 1000, callback, *args)
        else:
            self._loop.call_soon(callback, *args)

    call_soon_threadsafe = call_soon


class ServerEnvironment:
    """The environment of all successive processes of the server."""

    def __init__(
        self, clock: Clock, rng: Random, settings: Settings, topics: Topics
    ) -> None:
        self.clock = clock
        self.rng = rng
        self.settings = settings
        self.topics = topics
        self.configs = Configs(settings)
        self.disk_ms = 0
        """The longest delay of a write."""
        self.assignors_fail = False
        """Whether the server-side assignors fail."""

    def new_id(self) -> str:
        """Return the random suffix of a member id."""
        return f"{self.rng.getrandbits(32):08x}"

    def new_uuid(self) -> bytes:
        """Return sixteen random bytes."""
        return self.rng.randbytes(16)


class Assignors(dict[str, Assign]):
    """The configured assignors, which fail while the world says so.

    At other times they are the functions themselves: the coordinator computes targets
    of `uniform` from its plan.
    """

    def __init__(
        self, assignors: Mapping[str, Assign], environment: ServerEnvironment
    ) -> None:
        super().__init__(assignors)
        self._environment = environment

    def __getitem__(self, name: str) -> Assign:
        return _fail if self._environment.assignors_fail else super().__getitem__(name)


def _fail(spec: GroupSpec) -> Assignment:
    raise RuntimeError("the world made it fail")


class DelayedLoader(Loader):
    """A loader that starts to load each shard after a random delay."""

    def __init__(
        self,
        disk: Disk,
        flusher: Flusher,
        snapshots: Snapshots,
        loop: ServerLoop,
        rng: Random,
    ) -> None:
        # A slice never reaches its time limit.
        super().__init__(disk, flusher, snapshots, loop, lambda: 0.0)
        self._server_loop = loop
        self._rng = rng

    def load(
        self, partition: CoordinatorPartition, loaded: Loaded, failed: Loaded
    ) -> None:
        """Load a shard after a delay."""
        shard = partition.shard

        def begin() -> None:
            if partition.shard is shard and partition.phase is Phase.LOADING:
                super(DelayedLoader, self).load(partition, loaded, failed)

        delay_ms = self._rng.randint(0, LOADING_MS_MAX)
        self._server_loop.call_later(delay_ms / 1000, begin)


class Server:
    """A running server: runtime, loader and snapshots over the world's disk."""

    def __init__(
        self, environment: ServerEnvironment, disk: Disk, shard_count: int
    ) -> None:
        self.environment = environment
        self.disk = disk
        self.loop = ServerLoop(environment.clock)
        self.settings = environment.settings
        self.clock = environment.clock.now
        slow = _SlowLoop(
            self.loop, lambda: environment.rng.randint(0, environment.disk_ms)
        )
        self.flusher = Flusher(disk, slow, threaded=False)
        self.snapshots = Snapshots(disk)
        loader = DelayedLoader(
            disk, self.flusher, self.snapshots, self.loop, environment.rng
        )
        assignors = configured(environment.settings.group_consumer_assignors)
        self.runtime = Runtime(
            CoordinatorEnvironment(
                environment.settings,
                topics=environment.topics,
                configs=environment.configs,
                assignors=Assignors(assignors, environment),
                new_id=environment.new_id,
                new_uuid=environment.new_uuid,
            ),
            scheduler=self.loop,
            timekeeping=Timekeeping(self.clock, self.clock, self.loop, self.loop),
        )
        self._compacting: set[int] = set()
        self._snapshotting: set[int] = set()
        for index in range(shard_count):
            log_partition = LogPartition(OFFSETS_TOPIC_ID, index)
            if log_partition not in disk.partitions():
                disk.create(log_partition)
        self.flusher.flush()
        self.runtime.start(shard_count)
        for index in range(shard_count):
            log_partition = LogPartition(OFFSETS_TOPIC_ID, index)
            self.runtime.assign(index, loader.store(log_partition))

    # Operations of the world.

    def is_quiet(self, partition: CoordinatorPartition) -> bool:
        """Return whether all records of the shard are durable."""
        return partition.written_sequence <= self.flusher.durable_sequence

    def snapshot(self, partition: CoordinatorPartition) -> None:
        """Write a snapshot of a shard's changes, step by step."""
        if partition.phase is not Phase.ACTIVE or partition.index in self._snapshotting:
            return
        self._snapshotting.add(partition.index)
        shard = partition.shard
        changed = frozenset(shard.changed)
        shard.changed.clear()
        self._go_on(
            self.snapshots.write(partition, changed),
            lambda: shard.changed.update(changed),
            lambda: self._snapshotting.discard(partition.index),
        )

    def compact(
        self, partition: CoordinatorPartition, delete_retention_ms: int
    ) -> None:
        """Compact a shard's log as the server's housekeeping does."""
        if partition.index in self._compacting:
            return
        self._compacting.add(partition.index)
        name = TopicPartition("__consumer_offsets", partition.index)
        steps = compaction(
            self.disk,
            Partition(name, partition.log_partition, self.disk),
            self._compaction_settings(delete_retention_ms),
            now_ms=self.clock(),
            before=self._compacts_before(partition),
        )
        self._go_on(
            steps, lambda: None, lambda: self._compacting.discard(partition.index)
        )

    def _compacts_before(self, partition: CoordinatorPartition) -> LogOffset | None:
        """Return the offset before which tombstones may be dropped. A shard that loads
        its snapshot needs every later tombstone.
        """
        if partition.phase is not Phase.ACTIVE:
            return 0
        return self.snapshots.replay_from(partition.index)

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
        """Run a few steps; schedule the next steps for the time at which these are
        durable.
        """
        has_more = len(list(islice(steps, _STEPS_PER_TURN))) == _STEPS_PER_TURN

        def durable(error: LogError | None) -> None:
            if error is not None:
                failed()
            if error is None and has_more:
                delay_ms = self.environment.rng.randint(0, _PAUSE_MS_MAX)
                self.loop.call_later(
                    delay_ms / 1000, lambda: self._go_on(steps, failed, ended)
                )
            else:
                ended()

        self.flusher.when_durable(durable)
