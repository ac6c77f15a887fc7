"""The data plane: topics made real. Appends, and the catalog's entries, made durable.

Rules: an entry of the catalog is replayed and staged in one step, and so is a batch and
what its partition learns from it. When a flush fails, all that was staged is gone: the
catalog and the partitions are read from the log again and no undo code exists. Nothing
is answered before it is durable (`when_durable`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol

from coterie.catalog.catalog import Catalog, TopicChange
from coterie.catalog.entries import Entry, Kind, decode_entry, space_of
from coterie.catalog.incoming import IncomingBatch, check_batch
from coterie.catalog.topics import OFFSETS_TOPIC, Topic
from coterie.errors import ApiError, LogError
from coterie.log.log import Log, LogPartition
from coterie.runtime.compactor import COMPACTED_SPACE
from coterie.runtime.partitions import PRODUCERS_SPACE, Partition, partition_key
from coterie.types import LogOffset, TopicId, TopicName, TopicPartition
from coterie.wire.error_codes import ErrorCode

_LOGGER = logging.getLogger(__name__)

Done = Callable[[LogError | None], None]


class Durability(Protocol):
    """What the data plane needs of the flusher."""

    def when_durable(self, done: Done) -> None:
        """Call `done` once all that is staged is durable, or with what went wrong."""


class Handle(Protocol):
    """A callback to come."""

    def cancel(self) -> None:
        """Never call it."""


class Scheduler(Protocol):
    """What the data plane needs of an event loop."""

    def call_later(self, delay: float, callback: Callable[[], None]) -> Handle:
        """Call back after `delay` seconds."""


class Appended(NamedTuple):
    """A batch in its place. `size_bytes` is 0 for a repetition of an earlier one;
    `append_time_ms` is -1 where records carry their producer's time."""

    partition: Partition
    base_offset: LogOffset
    append_time_ms: int
    log_start_offset: LogOffset
    size_bytes: int


class DataPlane:
    """The partitions of all topics. One for each log; all nodes of a process share it.

    `clock` gives the time in ms since the epoch.
    """

    def __init__(
        self,
        log: Log,
        flusher: Durability,
        catalog: Catalog,
        *,
        clock: Callable[[], int],
        scheduler: Scheduler,
    ) -> None:
        self.log = log
        self.catalog = catalog
        self.clock = clock
        self.scheduler = scheduler
        self._flusher = flusher
        self._partitions: dict[LogPartition, Partition] = {}
        self._is_loading = False
        self._reloaded: list[Callable[[], None]] = []
        catalog.watch(self._topic_changed)

    # The catalog on disk.

    def load(self) -> None:
        """Read the catalog from the log. Raises LogError."""
        assert not self._is_loading
        self._is_loading = True
        try:
            self.catalog.clear()
            for kind in Kind:
                for key, value in self.log.items(space_of(kind)):
                    self.catalog.replay(decode_entry(kind, key, value))
            self.catalog.loaded()
        finally:
            self._is_loading = False

    def reload(self) -> None:
        """Forget all that was staged and read the log again: a flush failed."""
        assert not self.log.staged()
        self.load()
        for partition in list(self._partitions.values()):
            if self.catalog.topic_name(partition.where.topic_id) is None:
                del self._partitions[partition.where]
                partition.closed()
            else:
                partition.forget()
        for listener in self._reloaded:
            listener()

    def on_reload(self, listener: Callable[[], None]) -> None:
        """Call `listener` after every `reload`."""
        self._reloaded.append(listener)

    def stage(self, entries: Iterable[Entry]) -> None:
        """Replay entries and stage them to be kept."""
        assert not self._is_loading
        for entry in entries:
            self.catalog.replay(entry)
            self.log.put(entry.space, *entry.encode())

    def ensure_offsets_topic(self, fresh_id: TopicId) -> Topic:
        """`__consumer_offsets`, made under that id if there is none yet (staged)."""
        if OFFSETS_TOPIC not in self.catalog.topics:
            self.stage([self.catalog.create_offsets_topic(fresh_id)])
        return self.catalog.topics[OFFSETS_TOPIC]

    def when_durable(self, done: Callable[[ErrorCode], None]) -> None:
        """Call `done` with NONE once all that is staged is durable, else with
        KAFKA_STORAGE_ERROR."""

        def settled(error: LogError | None) -> None:
            done(ErrorCode.NONE if error is None else ErrorCode.KAFKA_STORAGE_ERROR)

        self._flusher.when_durable(settled)

    # Partitions.

    def partition(self, topic: TopicName, index: int) -> Partition | None:
        """A partition by name; None when there is none."""
        found = self.catalog.topics.get(topic)
        return None if found is None else self.partition_of(found, index)

    def partition_of(self, topic: Topic, index: int) -> Partition | None:
        """A partition of a topic that exists; None when it has not that many."""
        if not 0 <= index < topic.partition_count:
            return None
        assert self.catalog.topic_id(topic.name) == topic.topic_id
        where = LogPartition(topic.topic_id, index)
        found = self._partitions.get(where)
        if found is None:
            found = Partition(TopicPartition(topic.name, index), where, self.log)
            self._partitions[where] = found
        return found

    def partitions(self) -> Iterator[Partition]:
        """Every partition of every topic there is now, in no order."""
        for topic in list(self.catalog.topics.values()):
            if self.catalog.topic_id(topic.name) != topic.topic_id:
                continue  # deleted since the caller began
            for index in range(topic.partition_count):
                found = self.partition_of(topic, index)
                assert found is not None
                yield found

    def internal_grew(self, where: LogPartition, size_bytes: int) -> None:
        """Bytes that the runtime itself wrote have become durable in a partition."""
        assert size_bytes > 0
        found = self._partitions.get(where)
        if found is not None:
            found.grew(size_bytes)

    # Writing.

    def append(self, partition: Partition, batch: IncomingBatch) -> Appended:
        """Check a batch and stage it, or find the earlier one that it repeats.

        Raises ApiError as `check_batch` and `Producers.check` do, and LogError.
        """
        now_ms = self.clock()
        settings = self.catalog.settings_of(partition.name.topic)
        check_batch(batch, settings, now_ms)
        start = partition.bounds().log_start_offset
        producer = batch.producer
        assert partition.where in self._partitions
        if producer is not None:
            repeated = partition.find_repeated(producer)
            if repeated is not None:
                return Appended(partition, repeated.base_offset, -1, start, 0)
        header = partition.append(batch, settings, now_ms)
        assert header.base_offset >= start
        time_ms = now_ms if settings.log_append_time else -1
        return Appended(
            partition, header.base_offset, time_ms, start, header.size_bytes
        )

    def settle(
        self, appended: Sequence[Appended], done: Callable[[ErrorCode], None]
    ) -> None:
        """Once the batches are durable, wake who waits for them and call `done`."""

        def durable(error: ErrorCode) -> None:
            if error is ErrorCode.NONE:
                for found in appended:
                    if found.size_bytes:
                        found.partition.grew(found.size_bytes)
            done(error)

        self.when_durable(durable)

    def delete_records(self, partition: Partition, before: LogOffset) -> LogOffset:
        """Stage the end of all records before an offset, or of all there are for -1;
        the offset that is the first kept.

        Raises ApiError OFFSET_OUT_OF_RANGE, or POLICY_VIOLATION on a topic whose
        records are only compacted.
        """
        if not self.catalog.settings_of(partition.name.topic).delete:
            raise ApiError(
                ErrorCode.POLICY_VIOLATION,
                f"Records of partition {partition.name.topic}-"
                f"{partition.name.partition} can not be deleted due to the configured "
                "policy",
            )
        bounds = partition.bounds()
        offset = bounds.flushed_offset if before == -1 else before
        if not 0 <= offset <= bounds.flushed_offset:
            raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE)
        if offset <= bounds.log_start_offset:
            return bounds.log_start_offset
        self.truncate(partition, offset)
        return offset

    def truncate(self, partition: Partition, before: LogOffset) -> None:
        """Stage the end of all batches that end before an offset."""
        assert before <= partition.bounds().flushed_offset
        self.log.truncate(partition.where, before)

        def durable(error: ErrorCode) -> None:
            is_there = partition.where in self._partitions
            if error is ErrorCode.NONE and is_there:
                partition.truncated(before)

        self.when_durable(durable)

    def _topic_changed(self, change: TopicChange) -> None:
        if self._is_loading:
            return
        before, after = change
        assert before is not None or after is not None
        had = 0 if before is None else before.partition_count
        has = 0 if after is None else after.partition_count
        if after is None:
            assert before is not None
            for index in range(had):
                where = LogPartition(before.topic_id, index)
                self.log.delete(where)
                for space in (PRODUCERS_SPACE, COMPACTED_SPACE):
                    self.log.put(space, partition_key(where), None)
                gone = self._partitions.pop(where, None)
                if gone is not None:
                    gone.closed()
            return
        assert before is None or before.topic_id == after.topic_id
        assert has >= had, "a topic never shrinks"
        for index in range(had, has):
            self.log.create(LogPartition(after.topic_id, index))
