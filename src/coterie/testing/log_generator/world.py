"""A simulated cluster: the real coordinator with one shard for each log partition, a
queue of scheduled calls, and a simulated clock. Records go to segment files.

Sessions do not expire automatically: members send no heartbeats while nothing changes,
and the script of a crash expires its member's session.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Collection, Generator, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Final, TypeAlias

from coterie.broker.catalog.group_configs import GroupConfigs
from coterie.broker.coordinator.admin import DeleteGroup
from coterie.broker.coordinator.assignors.registry import configured
from coterie.broker.coordinator.consumer.subscriptions import TopicsChanged
from coterie.broker.coordinator.offsets.deletion import (
    DeletedTopic,
    ExpireOffsets,
    TopicsDeleted,
)
from coterie.broker.coordinator.record_serde import encode_record
from coterie.broker.coordinator.records import (
    ConsumerGroupMetadataKey,
    GroupMetadataKey,
    OffsetCommitKey,
)
from coterie.broker.coordinator.result import (
    Context,
    CoordinatorEnvironment,
    Origin,
    Record,
    Result,
    Timer,
    TimerKey,
)
from coterie.broker.coordinator.shard import Shard
from coterie.broker.runtime.shards import partition_for
from coterie.errors import ApiError
from coterie.settings import Settings
from coterie.testing.log_generator.segment_files import SegmentFiles
from coterie.testing.log_generator.truth import PartitionRef, Truth
from coterie.types import GroupId, TopicId, TopicName
from coterie.wire import messages as m
from coterie.wire.compression import Codec
from coterie.wire.record_batch import (
    NO_PRODUCER,
    TRANSACTIONAL,
    LogRecord,
    Producer,
    encode_batch,
    encode_marker,
)

Script: TypeAlias = Generator[int, None, None]
"""A sequence of actions; it yields the number of ms to wait before the next one."""

_CAUSES: Final = {
    ExpireOffsets: "expired",
    DeleteGroup: "group_deleted",
    m.OffsetDeleteRequest: "offsets_deleted",
    TopicsDeleted: "topic_deleted",
}
"""The cause that `truth` gives for tombstones, by the request that wrote them."""


@dataclass
class Topic:
    """A topic with one id. Producers write to it at a constant rate."""

    name: TopicName
    topic_id: TopicId
    partitions: int
    created_ms: int
    records_per_s: float

    def partition(self, number: int) -> PartitionRef:
        return PartitionRef(self.name, self.topic_id.hex(), number)

    def end_offset(self, partition: int, now_ms: int) -> int:
        """Return the end offset at a time; each partition has 1 % fewer records than
        the previous one.
        """
        seconds = (now_ms - self.created_ms) / 1000
        return int(seconds * self.records_per_s * (1 - partition / 100))


class Topics:
    """The topics of the cluster, as the coordinator's `TopicView`."""

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self.version = 1
        self.by_name: dict[TopicName, Topic] = {}
        self._names: dict[TopicId, TopicName] = {}

    def create(self, name: TopicName, partitions: int, now_ms: int) -> Topic:
        assert name not in self.by_name
        rate = self._rng.choice((0.2, 1.0, 5.0, 20.0))
        topic = Topic(name, self._rng.randbytes(16), partitions, now_ms, rate)
        self.by_name[name] = topic
        self._names[topic.topic_id] = name
        self.version += 1
        return topic

    def grow(self, name: TopicName, by: int) -> None:
        self.by_name[name].partitions += by
        self.version += 1

    def delete(self, name: TopicName) -> Topic:
        self.version += 1
        return self.by_name.pop(name)

    def partition_count(self, topic: TopicName) -> int | None:
        found = self.by_name.get(topic)
        return None if found is None else found.partitions

    def topic_id(self, topic: TopicName) -> TopicId | None:
        found = self.by_name.get(topic)
        return None if found is None else found.topic_id

    def topic_name(self, topic_id: TopicId) -> TopicName | None:
        """Return the name of the topic that has this id; None after its deletion."""
        name = self._names.get(topic_id)
        return name if name is not None and self.topic_id(name) == topic_id else None

    def topic_names(self) -> Iterable[TopicName]:
        return self.by_name.keys()

    def partition_racks(self, topic: TopicName) -> Sequence[Collection[str]]:
        return ()


@dataclass(eq=False)
class PendingRequest:
    """A sent request; `response` is None until the coordinator responds."""

    response: Any = None


@dataclass(frozen=True, kw_only=True)
class LogLayout:
    """The directory and format of the written log."""

    folder: Path
    partitions: int = 50
    codec: Codec = Codec.NONE
    segment_bytes: int = 16 * 1024 * 1024


@dataclass
class PartitionLog:
    """One log partition and the coordinator shard over it."""

    index: int
    shard: Shard
    files: SegmentFiles
    end_offset: int = 0
    timers: dict[TimerKey, Timer] = field(default_factory=dict)
    waiting: dict[int, PendingRequest] = field(default_factory=dict)


class World:
    """The simulated cluster. See the module's docstring."""

    def __init__(
        self, rng: Random, settings: Settings, layout: LogLayout, now_ms: int
    ) -> None:
        self.rng = rng
        self.settings = settings
        self.layout = layout
        self.now_ms = now_ms
        self.topics = Topics(rng)
        self.truth = Truth(layout.folder / "truth")
        self._environment = CoordinatorEnvironment(
            settings=settings,
            topics=self.topics,
            configs=GroupConfigs(settings),
            assignors=configured(settings.group_consumer_assignors),
            new_id=lambda: f"{rng.getrandbits(64):016x}",
            new_uuid=lambda: rng.randbytes(16),
        )
        self._tickets = itertools.count(1)
        self._due: list[tuple[int, int, Callable[[], None]]] = []
        self.logs = [self._open_log(index) for index in range(layout.partitions)]

    def _open_log(self, index: int) -> PartitionLog:
        files = SegmentFiles(self.layout.folder, index, self.layout.segment_bytes)
        log = PartitionLog(index, Shard(self.settings), files)
        context = self._context(0, -1, "", "")
        self._apply(log, log.shard.after_load(context), None)
        return log

    def log_of(self, group_id: GroupId) -> PartitionLog:
        return self.logs[partition_for(group_id, len(self.logs))]

    # The clock.

    def schedule(self, at_ms: int, action: Callable[[], None]) -> None:
        """Schedule a call; calls of one time run in the order of their scheduling."""
        heapq.heappush(self._due, (at_ms, next(self._tickets), action))

    def start(self, script: Script, at_ms: int) -> None:
        def resume() -> None:
            wait_ms = next(script, None)
            if wait_ms is not None:
                self.schedule(self.now_ms + max(1, wait_ms), resume)

        self.schedule(at_ms, resume)

    def run(self, until_ms: int) -> None:
        while self._due and self._due[0][0] <= until_ms:
            at_ms, _, action = heapq.heappop(self._due)
            self.now_ms = max(self.now_ms, at_ms)
            action()
        self.now_ms = until_ms

    # The coordinator.

    def send(
        self, group_id: GroupId, request: Any, client: tuple[str, str] = ("", "")
    ) -> PendingRequest:
        """Send a request to a group's coordinator, in its newest version up to 9.

        `client` has the client id and the host.
        """
        log = self.log_of(group_id)
        versions = getattr(request, "VERSIONS", None)
        version = 9 if versions is None else min(versions.high, 9)
        ticket = next(self._tickets)
        pending = log.waiting[ticket] = PendingRequest()
        context = self._context(ticket, version, *client)
        try:
            result = log.shard.handle(request, context)
        except ApiError as error:
            response = log.shard.refuse(request, context, error.code, error.message)
            result = Result(response)
        self._apply(log, result, request, ticket)
        return pending

    def expire_session(self, group_id: GroupId, member_id: str) -> None:
        log = self.log_of(group_id)
        timer = log.timers.pop(("session", group_id, member_id))
        self._handle(log, timer.request)

    def publish_topic_change(self, topic: Topic, *, created: bool = False) -> None:
        """Broadcast to all shards that a topic was created or has more partitions."""
        names = frozenset({topic.name})
        change = TopicsChanged(names, names if created else frozenset())
        for log in self.logs:
            self._handle(log, change)

    def publish_topic_deletion(self, topic: Topic) -> None:
        """Broadcast to all shards that a topic was deleted."""
        deletion = TopicsDeleted((DeletedTopic(topic.name, topic.topic_id),))
        for log in self.logs:
            self._handle(log, deletion)
            self._handle(log, TopicsChanged(frozenset({topic.name})))

    def _handle(self, log: PartitionLog, request: Any) -> None:
        context = self._context(next(self._tickets), -1, "", "")
        self._apply(log, log.shard.handle(request, context), request)

    def _apply(
        self, log: PartitionLog, result: Result, request: Any, ticket: int = 0
    ) -> None:
        """Write a result's records, set its timers and complete requests."""
        log.shard.apply(result)
        if result.records:
            base = self.append(log, result.records)
            cause = _CAUSES.get(type(request))
            if cause is not None:
                self._record_deletions(log, result.records, base, cause)
        for timer in result.timers:
            self._set_timer(log, timer)
        if result.response is not None and ticket:
            log.waiting.pop(ticket).response = result.response
        for reply in result.replies:
            log.waiting.pop(reply.ticket).response = reply.response

    def _set_timer(self, log: PartitionLog, timer: Any) -> None:
        if isinstance(timer, Timer) and timer.unless_set and timer.key in log.timers:
            return
        log.timers.pop(timer.key, None)
        if not isinstance(timer, Timer):
            return
        log.timers[timer.key] = timer
        if timer.key[0] == "session":
            return  # see the module's docstring

        def fire() -> None:
            if log.timers.get(timer.key) is timer:
                del log.timers[timer.key]
                self._handle(log, timer.request)

        self.schedule(max(timer.fires_at_ms, self.now_ms), fire)

    def _context(self, ticket: int, version: int, client: str, host: str) -> Context:
        return Context(self._environment, self.now_ms, ticket, version, client, host)

    # The log.

    def append(
        self,
        log: PartitionLog,
        records: Sequence[Record],
        producer: Producer = NO_PRODUCER,
    ) -> int:
        """Write records as one batch and replay them; return the base offset."""
        base = log.end_offset
        now_ms = self.now_ms
        batch = [
            LogRecord(base + index, now_ms, *encode_record(record))
            for index, record in enumerate(records)
        ]
        attributes = TRANSACTIONAL if producer.producer_id >= 0 else 0
        data = encode_batch(
            batch, producer=producer, attributes=attributes, codec=self.layout.codec
        )
        log.files.append(base, data)
        log.end_offset = base + len(batch)
        producer_id, epoch = producer.producer_id, producer.producer_epoch
        for index, record in enumerate(records):
            origin = Origin(base + index, now_ms, producer_id, epoch)
            log.shard.replay(record, origin)
        return base

    def end_transaction(
        self, group_id: GroupId, producer: Producer, *, commit: bool
    ) -> None:
        log = self.log_of(group_id)
        offset, producer_id = log.end_offset, producer.producer_id
        epoch = producer.producer_epoch
        marker = encode_marker(offset, self.now_ms, producer_id, epoch, commit=commit)
        log.files.append(offset, marker)
        log.end_offset += 1
        log.shard.replay_marker(producer_id, epoch, commit=commit, log_offset=offset)
        self.truth.end_transaction(producer_id, commit=commit)

    def _record_deletions(
        self, log: PartitionLog, records: Sequence[Record], base: int, cause: str
    ) -> None:
        """Record the tombstones of offsets and groups in `truth`."""
        for offset, (key, value, _) in enumerate(records, base):
            assert value is None, "these requests write tombstones only"
            topic: str | None = None
            partition: int | None = None
            if isinstance(key, OffsetCommitKey):
                group_id, topic, partition = key.group, key.topic, key.partition
                self.truth.delete_offset((key.group, key.topic, key.partition))
            elif isinstance(key, GroupMetadataKey):
                group_id = key.group
            elif isinstance(key, ConsumerGroupMetadataKey):
                group_id = key.group_id
            else:
                continue
            self.truth.write(
                "deletions",
                group_id=group_id,
                topic=topic,
                partition=partition,
                at_ms=self.now_ms,
                log_partition=log.index,
                log_offset=offset,
                cause=cause,
            )

    def close(self) -> None:
        self.truth.close()
        for log in self.logs:
            log.files.close()
