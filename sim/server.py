"""The server of a world: the real runtime over a log that can fail, and be killed."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from coterie.catalog.group_configs import GroupConfigs
from coterie.coordinator.assignors.registry import configured
from coterie.coordinator.result import GroupConfigView, TopicView
from coterie.coordinator.shard import Shard
from coterie.errors import LogError
from coterie.log.compaction import compact
from coterie.log.log import LogPartition
from coterie.log.memory import MemoryLog
from coterie.runtime.flusher import Flusher
from coterie.runtime.loader import Loader
from coterie.runtime.runtime import Runtime
from coterie.runtime.shards import DrivenShard
from coterie.runtime.snapshots import Snapshots
from coterie.runtime.timers import Scheduler
from coterie.settings import Settings
from coterie.types import GroupId, TopicName
from sim.clock import Clock
from sim.topics import Topics

OFFSETS_TOPIC_ID: Final = b"offsets-topic-id"
SHARDS: Final = 2


class Killed(BaseException):
    """The process is gone; nothing of it may catch this."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Who sent a request."""

    api_version: int
    client_id: str = "sim"
    client_host: str = "/sim"

    def may_describe(self, topic: TopicName) -> bool:
        """Everybody may know of everything."""
        return bool(topic)


class Server:
    """One server through all its lives. `fault` is asked before every write to the disk
    and may raise LogError or `Killed`."""

    def __init__(
        self,
        clock: Clock,
        topics: Topics,
        settings: Settings,
        dice: random.Random,
        fault: Callable[[], None],
    ) -> None:
        self.clock = clock
        self.topics: TopicView = topics
        self.settings = settings
        self.scheduler: Scheduler = clock
        self.configs: GroupConfigView = GroupConfigs(settings)
        self.assignors = configured(settings.group_consumer_assignors)
        self.log = MemoryLog(fault)
        self.lives = 0
        self.bugs: list[str] = []
        self._dice = dice
        for index in range(SHARDS):
            self.log.create(LogPartition(OFFSETS_TOPIC_ID, index))
        self.log.flush()
        self.start()

    def start(self) -> None:
        """Begin a life, with what the disk has."""
        self.lives += 1
        self.flusher = Flusher(self.log, self.clock, threaded=False)
        self.runtime = Runtime(self.log, self.flusher, self)
        self.snapshots = Snapshots(self.log)
        self.loader = Loader(
            self.log,
            self.flusher,
            self.snapshots,
            loop=self.clock,
            activate=self.runtime.activate,
            failed=self._load_failed,
        )
        self.is_up = True
        self.runtime.start(OFFSETS_TOPIC_ID, SHARDS)

    def kill(self) -> None:
        """End a life: what is not on disk is gone, and nobody is answered."""
        self.is_up = False
        self.clock.forget_soon()
        self.runtime.stop()
        self.log = self.log.reopen()

    def submit(
        self, group_id: GroupId, request: Any, version: int, answer: Callable[..., Any]
    ) -> None:
        """Hand a request to the group's shard; a dead server answers nobody."""
        if not self.is_up:
            return
        life = self.lives

        def answered(response: Any) -> None:
            if self.lives == life and self.is_up:
                answer(response)

        index = self.runtime.shard_of(group_id)
        self.runtime.submit(index, request, Caller(version), answered)

    def shard(self, group_id: GroupId) -> Shard | None:
        """The shard of a group, if it serves now."""
        if not self.is_up:
            return None
        shard = self.runtime.shards[self.runtime.shard_of(group_id)].shard
        assert isinstance(shard, Shard)
        return shard

    def snapshot(self) -> None:
        """Write a snapshot of every shard, with live traffic before and after."""
        for driven in self.runtime.shards:
            changed = frozenset(driven.shard.changed)
            driven.shard.changed.clear()
            for _ in self.snapshots.write(driven, changed):
                pass
        self.flusher.when_durable(lambda _: None)

    def compact(self) -> None:
        """Compact every shard up to anywhere that is legal, tombstones too."""
        for driven in self.runtime.shards:
            where = driven.where
            bases = [info.base_offset for info in self.log.infos(where)][1:]
            if not bases:
                continue
            end = self._dice.choice(bases)
            kept_from = self.snapshots.replay_from(driven.index)
            if kept_from is not None:
                end = min(end, kept_from)
            tombstones_before_ms = self._dice.choice([0, self.clock.now_ms + 1])
            for _ in compact(
                self.log,
                where,
                start=0,
                end=end,
                tombstones_before_ms=tombstones_before_ms,
            ):
                pass
        self.flusher.when_durable(lambda _: None)

    # What the runtime asks of its surroundings.

    def make_shard(self) -> Shard:
        """An empty shard."""
        return Shard(self.settings)

    def grew(self, where: LogPartition, size_bytes: int) -> None:
        """Bytes have become durable."""
        assert size_bytes > 0

    def load(self, driven: DrivenShard) -> None:
        """Fill an empty shard."""
        self.loader.load(driven)

    def hurry(self, driven: DrivenShard) -> None:
        """Load this one before others."""
        self.loader.hurry(driven)

    def _load_failed(self, driven: DrivenShard) -> None:
        self.bugs.append(f"{driven.name} could not be loaded")
        self.runtime.loading_failed(driven)


def disk_failure() -> LogError:
    """What a disk says that could not write."""
    return LogError("the simulated disk failed")
