"""A world in which time is a number: the real coordinator, a shard a log partition,
and a queue of what happens next. What it writes goes to segment files at once.

Sessions do not end by themselves: members of this world send no heartbeats while
nothing changes, and who crashes is expired by who lets it crash.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Final, TypeAlias

from coterie.catalog.group_configs import GroupConfigs
from coterie.coordinator.assignors.registry import configured
from coterie.coordinator.consumer.topic_news import TopicsChanged
from coterie.coordinator.describe.delete_groups import DeleteGroup
from coterie.coordinator.offsets.expire import ExpireOffsets
from coterie.coordinator.offsets.tombstones import DeletedTopic, TopicsDeleted
from coterie.coordinator.records.consumer_group_metadata import (
    ConsumerGroupMetadataKey,
)
from coterie.coordinator.records.group_metadata import GroupMetadataKey
from coterie.coordinator.records.offset_commit import OffsetCommitKey
from coterie.coordinator.records.serde import encode_record
from coterie.coordinator.result import (
    Context,
    Origin,
    Record,
    Result,
    Timer,
    TimerKey,
)
from coterie.coordinator.shard import Shard
from coterie.errors import ApiError
from coterie.pipeline.generator.segment_files import SegmentFiles
from coterie.pipeline.generator.topics import Topic, Topics
from coterie.pipeline.generator.truth import Truth
from coterie.runtime.router import partition_for
from coterie.settings import Settings
from coterie.types import GroupId
from coterie.wire.compression import Codec
from coterie.wire.messages.offset_delete import OffsetDeleteRequest
from coterie.wire.record_batch import (
    NOBODY,
    TRANSACTIONAL,
    LogRecord,
    Producer,
    encode_batch,
    encode_marker,
)

Script: TypeAlias = Generator[int, None, None]
"""What somebody does; it yields how many ms it waits before it goes on."""

_CAUSES: Final = {
    ExpireOffsets: "expired",
    DeleteGroup: "group_deleted",
    OffsetDeleteRequest: "offsets_deleted",
    TopicsDeleted: "topic_deleted",
}


@dataclass(eq=False)
class Sent:
    """A request; `response` is None while it is parked."""

    response: Any = None


@dataclass(frozen=True, kw_only=True)
class Where:
    """What a log is to look like."""

    folder: Path
    partitions: int = 50
    codec: Codec = Codec.NONE
    segment_bytes: int = 16 * 1024 * 1024


@dataclass
class LogPart:
    """One log partition and the shard over it."""

    index: int
    shard: Shard
    files: SegmentFiles
    end_offset: int = 0
    timers: dict[TimerKey, Timer] = field(default_factory=dict)
    waiting: dict[int, Sent] = field(default_factory=dict)


class World:
    """Everything there is. See the module's docstring."""

    def __init__(self, rng: Random, settings: Settings, where: Where, now_ms: int):
        self.rng = rng
        self.settings = settings
        self.where = where
        self.now_ms = now_ms
        self.topics = Topics(rng)
        self.truth = Truth(where.folder / "truth")
        self._configs = GroupConfigs(settings)
        self._assignors = configured(settings.group_consumer_assignors)
        self._tickets = itertools.count(1)
        self._due: list[tuple[int, int, Callable[[], None]]] = []
        self.parts = [self._make_part(index) for index in range(where.partitions)]

    def _make_part(self, index: int) -> LogPart:
        files = SegmentFiles(self.where.folder, index, self.where.segment_bytes)
        part = LogPart(index, Shard(self.settings), files)
        context = self._context(0, -1, "", "")
        self._settle(part, part.shard.after_load(context), None)
        return part

    def part_of(self, group_id: GroupId) -> LogPart:
        """Where a group lives."""
        return self.parts[partition_for(group_id, len(self.parts))]

    # Time.

    def at(self, at_ms: int, act: Callable[[], None]) -> None:
        """Have something happen then."""
        heapq.heappush(self._due, (at_ms, next(self._tickets), act))

    def start(self, script: Script, at_ms: int) -> None:
        """Have somebody begin then."""

        def go_on() -> None:
            wait_ms = next(script, None)
            if wait_ms is not None:
                self.at(self.now_ms + max(1, wait_ms), go_on)

        self.at(at_ms, go_on)

    def run(self, until_ms: int) -> None:
        """Let it all happen."""
        while self._due and self._due[0][0] <= until_ms:
            at_ms, _, act = heapq.heappop(self._due)
            self.now_ms = max(self.now_ms, at_ms)
            act()
        self.now_ms = until_ms

    # The coordinator.

    def send(
        self, group_id: GroupId, request: Any, client: tuple[str, str] = ("", "")
    ) -> Sent:
        """Ask a group's coordinator, in the newest version there is."""
        part = self.part_of(group_id)
        versions = getattr(request, "VERSIONS", None)
        version = 9 if versions is None else min(versions.high, 9)
        ticket = next(self._tickets)
        sent = part.waiting[ticket] = Sent()
        context = self._context(ticket, version, *client)
        try:
            result = part.shard.handle(request, context)
        except ApiError as error:
            answer = part.shard.refuse(request, context, error.code, error.message)
            result = Result(answer)
        self._settle(part, result, request, ticket)
        return sent

    def expire_session(self, group_id: GroupId, member_id: str) -> None:
        """Nobody has heard of a member for its session timeout."""
        part = self.part_of(group_id)
        timer = part.timers.pop(("session", group_id, member_id))
        self._fire(part, timer.request)

    def topics_changed(self, topic: Topic, *, created: bool = False) -> None:
        """Tell every shard of a topic that is new or larger."""
        names = frozenset({topic.name})
        news = TopicsChanged(names, names if created else frozenset())
        for part in self.parts:
            self._fire(part, news)

    def topic_deleted(self, topic: Topic) -> None:
        """Tell every shard of a topic that is gone."""
        gone = TopicsDeleted((DeletedTopic(topic.name, topic.topic_id),))
        for part in self.parts:
            self._fire(part, gone)
            self._fire(part, TopicsChanged(frozenset({topic.name})))

    def _fire(self, part: LogPart, request: Any) -> None:
        context = self._context(next(self._tickets), -1, "", "")
        self._settle(part, part.shard.handle(request, context), request)

    def _settle(
        self, part: LogPart, result: Result, request: Any, ticket: int = 0
    ) -> None:
        part.shard.apply(result)
        if result.records:
            base = self.keep(part, result.records)
            self._tell(part, result.records, base, _CAUSES.get(type(request)))
        for timer in result.timers:
            self._set(part, timer)
        if result.response is not None and ticket:
            part.waiting.pop(ticket).response = result.response
        for reply in result.replies:
            part.waiting.pop(reply.ticket).response = reply.response

    def _set(self, part: LogPart, timer: Any) -> None:
        if isinstance(timer, Timer) and timer.unless_set and timer.key in part.timers:
            return
        part.timers.pop(timer.key, None)
        if not isinstance(timer, Timer):
            return
        part.timers[timer.key] = timer
        if timer.key[0] == "session":
            return

        def fire() -> None:
            if part.timers.get(timer.key) is timer:
                del part.timers[timer.key]
                self._fire(part, timer.request)

        self.at(max(timer.fires_at_ms, self.now_ms), fire)

    def _context(self, ticket: int, version: int, client: str, host: str) -> Context:
        return Context(
            now_ms=self.now_ms,
            ticket=ticket,
            api_version=version,
            client_id=client,
            client_host=host,
            fresh_id=lambda: f"{self.rng.getrandbits(64):016x}",
            topics=self.topics,
            settings=self.settings,
            configs=self._configs,
            assignors=self._assignors,
            fresh_uuid=lambda: self.rng.randbytes(16),
        )

    # The log.

    def keep(
        self, part: LogPart, records: Sequence[Record], producer: Producer = NOBODY
    ) -> int:
        """Write records as one batch and make them true; the first one's offset."""
        base = part.end_offset
        now_ms = self.now_ms
        batch = [
            LogRecord(base + index, now_ms, *encode_record(record))
            for index, record in enumerate(records)
        ]
        attributes = TRANSACTIONAL if producer.producer_id >= 0 else 0
        data = encode_batch(
            batch, producer=producer, attributes=attributes, codec=self.where.codec
        )
        part.files.append(base, data)
        part.end_offset = base + len(batch)
        who = producer.producer_id, producer.producer_epoch
        for index, record in enumerate(records):
            part.shard.replay(record, Origin(base + index, now_ms, *who))
        return base

    def end_transaction(
        self, group_id: GroupId, producer: Producer, *, commit: bool
    ) -> None:
        """Write a marker."""
        part = self.part_of(group_id)
        offset, who = part.end_offset, (producer.producer_id, producer.producer_epoch)
        marker = encode_marker(offset, self.now_ms, *who, commit=commit)
        part.files.append(offset, marker)
        part.end_offset += 1
        part.shard.replay_marker(*who, commit=commit, log_offset=offset)
        self.truth.ended(producer.producer_id, commit=commit)

    def _tell(
        self, part: LogPart, records: Sequence[Record], base: int, cause: str | None
    ) -> None:
        if cause is None:
            return
        for offset, (key, value, _) in enumerate(records, base):
            assert value is None, "these only take away"
            gone: tuple[str, str | None, int | None]
            if isinstance(key, OffsetCommitKey):
                gone = (key.group, key.topic, key.partition)
                self.truth.removed((key.group, key.topic, key.partition))
            elif isinstance(key, GroupMetadataKey):
                gone = (key.group, None, None)
            elif isinstance(key, ConsumerGroupMetadataKey):
                gone = (key.group_id, None, None)
            else:
                continue
            self.truth.write(
                "deletions",
                **dict(zip(("group_id", "topic", "partition"), gone, strict=True)),
                at_ms=self.now_ms,
                log_partition=part.index,
                log_offset=offset,
                cause=cause,
            )

    def close(self) -> None:
        """Close all files."""
        self.truth.close()
        for part in self.parts:
            part.files.close()
