"""The data plane: partitions, appends, and the catalog on disk.

An entry of the catalog is replayed and staged in one step, and so are a batch and the
producer state that follows from it. When a flush fails, everything staged is lost: the
catalog and the partitions are read from the log again, and nothing is undone in memory.
Responses are sent once the changes are durable (`when_durable`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

from coterie.broker.catalog.batch_validation import (
    BatchLimits,
    IncomingBatch,
    validate_batch,
)
from coterie.broker.catalog.catalog import Catalog, TopicChange
from coterie.broker.catalog.entries import Entry, EntryKind, decode_entry, space_of
from coterie.broker.catalog.topics import Topic
from coterie.broker.log.log import Log, LogPartition
from coterie.broker.runtime.decoding import (
    LOOP_BATCH_BYTES,
    RunInWorker,
    run_inline,
)
from coterie.broker.runtime.flusher import Flusher
from coterie.broker.runtime.partitions import (
    COMPACTED_SPACE,
    PRODUCERS_SPACE,
    Partition,
    partition_key,
)
from coterie.broker.runtime.system import Scheduler, Timekeeping
from coterie.errors import ApiError, LogCorrupt, LogError
from coterie.types import OFFSETS_TOPIC, LogOffset, TopicId, TopicName, TopicPartition
from coterie.wire.error_codes import ErrorCode


class Appended(NamedTuple):
    """The result of an append.

    `size_bytes` is 0 for a duplicate of an earlier batch. `append_time_ms` is -1 when
    records have the producer's timestamps; for a duplicate it is the greatest timestamp
    of the earlier batch in any case, as in Kafka (UnifiedLog.append).
    """

    partition: Partition
    base_offset: LogOffset
    append_time_ms: int
    log_start_offset: LogOffset
    size_bytes: int


class DataPlane:
    """The partitions of all topics, shared by all nodes of a process.

    Fetches wait in `scheduler`. `run_in_worker` decodes large batches.
    """

    def __init__(
        self,
        log: Log,
        flusher: Flusher,
        catalog: Catalog,
        *,
        timekeeping: Timekeeping,
        scheduler: Scheduler,
        run_in_worker: RunInWorker = run_inline,
    ) -> None:
        self.log = log
        self.catalog = catalog
        self.clock, self.wall_clock = timekeeping.steady, timekeeping.wall
        self.timekeeping = timekeeping
        self.scheduler = scheduler
        self.run_in_worker = run_in_worker
        self.flusher = flusher
        settings = catalog.settings
        self._limits = BatchLimits(
            settings.batch_records_max, settings.batch_decompressed_bytes_max
        )
        self._loop_limits = self._limits._replace(
            decompressed_bytes_max=min(
                settings.batch_decompressed_bytes_max, LOOP_BATCH_BYTES
            )
        )
        self._partitions: dict[LogPartition, Partition] = {}
        self._is_loading = False
        self.is_loaded = False
        """Whether the catalog was read completely."""
        self._reloaded: list[Callable[[], None]] = []
        catalog.watch(self._topic_changed)

    # The catalog on disk.

    def load(self) -> None:
        """Read the catalog from the log. Raises LogError.

        LogCorrupt is raised for an entry that cannot be decoded, and for a partition
        that is not in the log.
        """
        assert not self._is_loading
        self._is_loading = True
        self.is_loaded = False
        try:
            self.catalog.clear()
            for kind in EntryKind:
                for key, value in self.log.items(space_of(kind)):
                    self.catalog.replay(decode_entry(kind, key, value))
            self.catalog.finish_load()
            self._check_partitions()
            self.is_loaded = True
        finally:
            self._is_loading = False

    def _check_partitions(self) -> None:
        known = set(self.log.partitions())
        for topic in self.catalog.topics.values():
            for index in range(topic.partition_count):
                if LogPartition(topic.topic_id, index) not in known:
                    raise LogCorrupt(
                        f"partition {topic.name}-{index} is in the catalog and not in "
                        "the log: the store is damaged; restore it from a backup"
                    )

    def reload(self) -> None:
        """Read the catalog and the partitions again, after a failed flush."""
        assert not self.log.has_staged()
        self.load()
        for partition in list(self._partitions.values()):
            if self.catalog.topic_name(partition.log_partition.topic_id) is None:
                del self._partitions[partition.log_partition]
                partition.close()
            else:
                partition.reset()
        for listener in self._reloaded:
            listener()

    def on_reload(self, listener: Callable[[], None]) -> None:
        """Call `listener` after every `reload`."""
        self._reloaded.append(listener)

    def stage(self, entries: Iterable[Entry]) -> None:
        """Replay entries of the catalog and stage them."""
        assert not self._is_loading
        for entry in entries:
            self.catalog.replay(entry)
            self.log.put(entry.space, *entry.encode())

    def ensure_offsets_topic(self, fresh_id: TopicId) -> Topic:
        """Return `__consumer_offsets`; create it with that id if missing (staged)."""
        if OFFSETS_TOPIC not in self.catalog.topics:
            self.stage([self.catalog.create_offsets_topic(fresh_id)])
        return self.catalog.topics[OFFSETS_TOPIC]

    @property
    def failures(self) -> int:
        """The number of flushes that failed."""
        return self.flusher.failures

    def when_durable(
        self, done: Callable[[ErrorCode], None], failures: int | None = None
    ) -> None:
        """Call `done` with NONE once all that is staged is durable, else with
        KAFKA_STORAGE_ERROR.

        A request that stages in several iterations of the loop passes the number of
        `failures` before: what was staged earlier was lost if there are more.
        """

        def settled(error: LogError | None) -> None:
            is_lost = failures is not None and failures != self.flusher.failures
            if error is not None or is_lost:
                done(ErrorCode.KAFKA_STORAGE_ERROR)
            else:
                done(ErrorCode.NONE)

        self.flusher.when_durable(settled)

    # Partitions.

    def partition(self, topic: TopicName, index: int) -> Partition | None:
        """Return a partition by name; None when it does not exist."""
        known = self.catalog.topics.get(topic)
        return None if known is None else self.partition_of(known, index)

    def partition_of(self, topic: Topic, index: int) -> Partition | None:
        """Return a partition of an existing topic; None when the index is too high."""
        if not 0 <= index < topic.partition_count:
            return None
        assert self.catalog.topic_id(topic.name) == topic.topic_id
        log_partition = LogPartition(topic.topic_id, index)
        partition = self._partitions.get(log_partition)
        if partition is None:
            partition = Partition(
                TopicPartition(topic.name, index), log_partition, self.log
            )
            self._partitions[log_partition] = partition
        return partition

    def partitions(self) -> Iterator[Partition]:
        """Yield every partition. Topics may be deleted between two steps."""
        for topic in list(self.catalog.topics.values()):
            if self.catalog.topic_id(topic.name) != topic.topic_id:
                continue  # deleted since the iteration began
            for index in range(topic.partition_count):
                partition = self.partition_of(topic, index)
                assert partition is not None
                yield partition

    def notify_growth(self, log_partition: LogPartition, size_bytes: int) -> None:
        """Wake fetches of a partition that the coordinator's runtime has written to."""
        assert size_bytes > 0
        partition = self._partitions.get(log_partition)
        if partition is not None:
            partition.notify_growth(size_bytes)

    # Writing.

    def validation(
        self, partition: Partition, batch: IncomingBatch, *, in_loop: bool
    ) -> Callable[[], IncomingBatch]:
        """Return a function that does `validate_batch`, in any thread.

        With `in_loop` a batch of more than `LOOP_BATCH_BYTES` is too large.
        """
        return partial(
            validate_batch,
            batch,
            self.catalog.settings_of(partition.name.topic),
            self._loop_limits if in_loop else self._limits,
            self.wall_clock(),
        )

    def append(self, partition: Partition, batch: IncomingBatch) -> Appended:
        """Stage a validated batch, or find the earlier batch that it duplicates.

        Raises ApiError as `ProducerState.check_append` does, and LogError.
        """
        now_ms = self.wall_clock()
        settings = self.catalog.settings_of(partition.name.topic)
        start = partition.bounds().log_start_offset
        producer = batch.producer
        assert partition.log_partition in self._partitions
        if producer is not None:
            duplicate = partition.find_duplicate(producer)
            if duplicate is not None:
                base_offset, _, timestamp_ms = duplicate
                return Appended(partition, base_offset, timestamp_ms, start, 0)
        header = partition.append(batch, settings, now_ms)
        assert header.base_offset >= start
        time_ms = now_ms if settings.log_append_time else -1
        return Appended(
            partition, header.base_offset, time_ms, start, header.size_bytes
        )

    def settle(
        self, appended: Sequence[Appended], done: Callable[[ErrorCode], None]
    ) -> None:
        """Wake waiting fetches and call `done` once the batches are durable."""

        def durable(error: ErrorCode) -> None:
            if error is ErrorCode.NONE:
                for each in appended:
                    if each.size_bytes:
                        each.partition.notify_growth(each.size_bytes)
            done(error)

        self.when_durable(durable)

    def delete_records(self, partition: Partition, before: LogOffset) -> LogOffset:
        """Delete all records before an offset (staged), or all records for -1.

        Return the new log start offset.

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
        """Delete all batches that end before an offset (staged)."""
        assert before <= partition.bounds().flushed_offset
        self.log.truncate(partition.log_partition, before)

        def durable(error: ErrorCode) -> None:
            is_there = partition.log_partition in self._partitions
            if error is ErrorCode.NONE and is_there:
                partition.truncate_producers(before)

        self.when_durable(durable)

    def _topic_changed(self, change: TopicChange) -> None:
        if self._is_loading:
            return
        before, after = change
        assert before is not None or after is not None
        old_count = 0 if before is None else before.partition_count
        new_count = 0 if after is None else after.partition_count
        if after is None:
            assert before is not None
            for index in range(old_count):
                log_partition = LogPartition(before.topic_id, index)
                self.log.delete(log_partition)
                for space in (PRODUCERS_SPACE, COMPACTED_SPACE):
                    self.log.put(space, partition_key(log_partition), None)
                deleted = self._partitions.pop(log_partition, None)
                if deleted is not None:
                    deleted.close()
            return
        assert before is None or before.topic_id == after.topic_id
        assert new_count >= old_count, "partitions are never removed"
        for index in range(old_count, new_count):
            self.log.create(LogPartition(after.topic_id, index))
