"""The store of the states of share partitions: Kafka's share coordinator, as calls.

The states are records of `__share_group_state`, which is created on first use. A share
partition belongs to one of its partitions by hash, whose log is replayed when a state
of it is first needed. A write is replayed, staged and flushed like any other. After a
failed flush all states are dropped, and read from the log again when needed.

The log is bounded: after `UPDATES_PER_SNAPSHOT` updates a state is written as a
snapshot, and after `PRUNE_RECORDS` records of a partition the states that hold back its
start are written as snapshots too, and what is before all snapshots is deleted.
"""

from __future__ import annotations

import base64
import logging
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Final, TypeAlias

from coterie.broker.catalog.catalog import TopicChange
from coterie.broker.catalog.topics import Topic
from coterie.broker.coordinator.share.state_requests import (
    DeleteShareState,
    InitializeShareState,
    ShareStateRequest,
)
from coterie.broker.coordinator.share_partition.records import (
    decode_record,
    encode_deletion,
    encode_snapshot,
    encode_update,
)
from coterie.broker.coordinator.share_partition.state import (
    UNKNOWN_COUNT,
    ShareKey,
    ShareState,
    StateUpdate,
)
from coterie.broker.log.log import LogPartition
from coterie.broker.runtime.data import DataPlane
from coterie.broker.runtime.shards import partition_for
from coterie.broker.runtime.slices import Slices, Wait
from coterie.broker.runtime.system import random_topic_id
from coterie.errors import CoterieError, LogCorrupt, LogError
from coterie.types import LogOffset, TopicId
from coterie.wire.error_codes import ErrorCode
from coterie.wire.record_batch import (
    LogRecord,
    crc_matches,
    decode_records,
    encode_batch,
    read_header,
)

_LOGGER = logging.getLogger(__name__)

UPDATES_PER_SNAPSHOT: Final = 500
"""Kafka's default of `share.coordinator.snapshot.update.records.per.snapshot`."""
PRUNE_RECORDS: Final = 2_000
_READ_BYTES: Final = 1 << 20

Done: TypeAlias = Callable[[ErrorCode], None]


class _Shard:
    """The states of one partition of the topic.

    `snapshots` has the offset of each state's newest snapshot, in order of offsets.
    """

    def __init__(self, index: int, log_partition: LogPartition) -> None:
        self.index = index
        self.log_partition = log_partition
        self.is_loaded = False
        self.waiting: list[Done] = []
        self.states: dict[ShareKey, ShareState] = {}
        self.snapshots: dict[ShareKey, LogOffset] = {}
        self.unpruned_count = 0

    def replay(
        self, key: ShareKey, record: ShareState | StateUpdate | None, offset: LogOffset
    ) -> None:
        """Apply a record to the states."""
        assert offset >= 0
        assert not isinstance(record, ShareState) or record.update_count == 0
        if isinstance(record, ShareState):
            self.states[key] = record
            self.snapshots.pop(key, None)
            self.snapshots[key] = offset
        elif record is None:
            self.states.pop(key, None)
            self.snapshots.pop(key, None)
        elif key in self.states:  # else its snapshot was deleted
            self.states[key] = self.states[key].updated(record)
        self.unpruned_count += 1


class ShareStates:
    """The states of all share partitions of a process.

    `dropped` is called with the key of a state that was initialized again or deleted,
    and with None when all states were dropped.
    """

    def __init__(self, data: DataPlane, slices: Slices) -> None:
        self._data = data
        self._slices = slices
        self._shards: dict[int, _Shard] = {}
        self.dropped: Callable[[ShareKey | None], None] = lambda _: None
        data.on_reload(self._drop_all)
        data.catalog.watch(self._topic_changed)

    # Reading.

    def load(self, key: ShareKey, done: Done) -> None:
        """Call `done` with NONE once `state` may be called for a share partition, or
        with COORDINATOR_NOT_AVAILABLE if its log cannot be read."""
        topic = self._data.catalog.share_state_topic
        if topic is None:
            done(ErrorCode.NONE)
            return
        shard = self._shard(topic, key)
        if shard.is_loaded:
            done(ErrorCode.NONE)
            return
        shard.waiting.append(done)
        if len(shard.waiting) == 1:
            self._slices.add(
                shard, self._load_steps(shard), partial(self._loaded, shard)
            )
        self._slices.prioritize(shard)

    def is_loaded(self, key: ShareKey) -> bool:
        """Return whether `state` may be called for a share partition."""
        topic = self._data.catalog.share_state_topic
        return topic is None or self._shard(topic, key).is_loaded

    def state(self, key: ShareKey) -> ShareState | None:
        """Return the state of a share partition that was loaded; None if it was never
        initialized."""
        topic = self._data.catalog.share_state_topic
        if topic is None:
            return None
        shard = self._shard(topic, key)
        assert shard.is_loaded, key
        return shard.states.get(key)

    def _shard(self, topic: Topic, key: ShareKey) -> _Shard:
        index = state_partition(key, topic.partition_count)
        shard = self._shards.get(index)
        if shard is None:
            shard = _Shard(index, LogPartition(topic.topic_id, index))
            self._shards[index] = shard
        assert shard.log_partition.topic_id == topic.topic_id
        return shard

    def _load_steps(self, shard: _Shard) -> Iterator[Wait | None]:
        log = self._data.log
        position = log.bounds(shard.log_partition).log_start_offset
        while self._shards.get(shard.index) is shard:
            bounds = log.bounds(shard.log_partition)
            if position >= bounds.next_offset:
                return
            if position >= bounds.flushed_offset:
                yield self._data.flusher.when_durable
                continue
            batches = log.read(shard.log_partition, position, _READ_BYTES)
            if not batches:
                position = bounds.flushed_offset
            for batch in batches:
                position = self._replay_batch(shard, batch)
                yield None

    def _replay_batch(self, shard: _Shard, batch: bytes) -> LogOffset:
        assert not shard.is_loaded
        header = read_header(batch)
        if not crc_matches(batch):
            raise LogCorrupt(f"offset {header.base_offset}: wrong checksum")
        if not header.is_control:
            for stored in decode_records(batch, header):
                record = decode_record(stored.key, stored.value)
                if record is not None:
                    shard.replay(*record, stored.offset)
        return header.last_offset + 1

    def _loaded(self, shard: _Shard, error: CoterieError | None) -> None:
        assert not shard.is_loaded
        code = ErrorCode.NONE
        if error is not None:
            _LOGGER.error(
                "the states of share groups in partition %d cannot be loaded: %s",
                shard.index,
                error,
            )
            code = ErrorCode.COORDINATOR_NOT_AVAILABLE
            if self._shards.get(shard.index) is shard:
                del self._shards[shard.index]
        elif self._shards.get(shard.index) is not shard:
            code = ErrorCode.COORDINATOR_NOT_AVAILABLE
        else:
            shard.is_loaded = True
            self._remove_deleted_topics(shard)
        waiting, shard.waiting = shard.waiting, []
        for done in waiting:
            done(code)

    # Writing.

    def write(self, key: ShareKey, update: StateUpdate, done: Done) -> None:
        """Stage an update of a state; call `done` once it is durable, with
        COORDINATOR_NOT_AVAILABLE if it failed."""
        state = self.state(key)
        assert state is not None, key
        assert update.start_offset >= 0
        updated = state.updated(update)
        if updated.update_count > UPDATES_PER_SNAPSHOT:
            self._stage(key, self._snapshot(updated))
        else:
            self._stage(key, update)
        self._when_durable(done)

    def handle(self, request: ShareStateRequest, done: Done) -> None:
        """Initialize or delete the states of a group's share partitions, all or none.

        `done` gets NONE once that is durable, FENCED_STATE_EPOCH if a state has a newer
        epoch, or COORDINATOR_NOT_AVAILABLE.
        """
        starts = {
            ShareKey(request.group_id, topic.topic_id, index): topic.start_offset
            for topic in request.topics
            for index in topic.partitions
        }
        if isinstance(request, InitializeShareState):
            self._ensure_topic()
            change = partial(self._initialize, starts, request.state_epoch, done)
        else:
            assert isinstance(request, DeleteShareState)
            change = partial(self._delete, list(starts), done)
        self.load_all(starts, change)

    def load_all(self, keys: Iterable[ShareKey], done: Done) -> None:
        """Load the states of all keys, one after the other, then call `done`."""
        left = iter(tuple(keys))

        def load_next(code: ErrorCode) -> None:
            while code is ErrorCode.NONE:
                key = next(left, None)
                if key is None:
                    break
                if not self.is_loaded(key):
                    self.load(key, load_next)
                    return
            done(code)

        load_next(ErrorCode.NONE)

    def _initialize(
        self,
        starts: dict[ShareKey, LogOffset],
        state_epoch: int,
        done: Done,
        code: ErrorCode,
    ) -> None:
        if code is not ErrorCode.NONE:
            done(code)
            return
        stored = {key: self.state(key) for key in starts}
        if any(each and each.state_epoch > state_epoch for each in stored.values()):
            done(ErrorCode.FENCED_STATE_EPOCH)
            return
        now_ms = self._data.wall_clock()
        for key, start_offset in starts.items():
            before = stored[key]
            state = ShareState(
                0 if before is None else before.snapshot_epoch + 1,
                state_epoch,
                0,
                start_offset,
                UNKNOWN_COUNT if start_offset < 0 else 0,
                now_ms,
                now_ms,
            )
            self._stage(key, state)
            self.dropped(key)
        self._when_durable(done)

    def _delete(self, keys: list[ShareKey], done: Done, code: ErrorCode) -> None:
        if code is not ErrorCode.NONE:
            done(code)
            return
        for key in keys:
            if self.state(key) is not None:
                self._stage(key, None)
            self.dropped(key)
        self._when_durable(done)

    def _when_durable(self, done: Done) -> None:
        def settled(error: LogError | None) -> None:
            failed = ErrorCode.COORDINATOR_NOT_AVAILABLE
            done(ErrorCode.NONE if error is None else failed)

        self._data.flusher.when_durable(settled)

    def _snapshot(self, state: ShareState) -> ShareState:
        return state._replace(
            snapshot_epoch=state.snapshot_epoch + 1,
            written_ms=self._data.wall_clock(),
            update_count=0,
        )

    def _stage(self, key: ShareKey, record: ShareState | StateUpdate | None) -> None:
        """Replay a record and stage it."""
        topic = self._data.catalog.share_state_topic
        assert topic is not None
        shard = self._shard(topic, key)
        assert shard.is_loaded
        self._append(shard, key, record)
        if shard.unpruned_count >= PRUNE_RECORDS + 2 * len(shard.states):
            self._prune(shard)

    def _append(
        self, shard: _Shard, key: ShareKey, record: ShareState | StateUpdate | None
    ) -> None:
        data = self._data
        offset = data.log.next_offset(shard.log_partition)
        assert shard.is_loaded
        shard.replay(key, record, offset)
        encoded: tuple[bytes, bytes | None]
        if isinstance(record, ShareState):
            encoded = encode_snapshot(key, record)
        elif record is None:
            encoded = encode_deletion(key)
        else:
            encoded = encode_update(key, shard.states[key], record)
        batch = encode_batch([LogRecord(offset, data.wall_clock(), *encoded)])
        data.log.append(shard.log_partition, batch)

        def durable(error: LogError | None) -> None:
            if error is None:
                data.notify_growth(shard.log_partition, len(batch))

        data.flusher.when_durable(durable)

    def _prune(self, shard: _Shard) -> None:
        """Delete the records that no state needs; first write a snapshot of each state
        whose newest one is old."""
        log_partition = shard.log_partition
        assert shard.unpruned_count >= PRUNE_RECORDS
        recent = self._data.log.next_offset(log_partition) - PRUNE_RECORDS // 2
        shard.unpruned_count = 0
        old = [key for key, offset in shard.snapshots.items() if offset < recent]
        for key in old:
            self._append(shard, key, self._snapshot(shard.states[key]))
        shard.unpruned_count = 0
        end = self._data.log.next_offset(log_partition)
        needed = next(iter(shard.snapshots.values()), end)
        assert needed <= end

        def durable(error: LogError | None) -> None:
            topic = self._data.catalog.share_state_topic
            if error is not None or topic is None:
                return
            partition = self._data.partition_of(topic, shard.index)
            if partition is not None and self._shards.get(shard.index) is shard:
                self._data.truncate(partition, needed)

        self._data.flusher.when_durable(durable)

    # The topic, and failures.

    def _ensure_topic(self) -> None:
        catalog = self._data.catalog
        if catalog.share_state_topic is None:
            entry = catalog.create_share_state_topic(random_topic_id())
            self._data.stage([entry])

    def _drop_all(self) -> None:
        """Drop all states, as a write failed: what they have may not be in the log."""
        shards, self._shards = self._shards, {}
        self.dropped(None)
        for shard in shards.values():
            self._slices.remove(shard)
            waiting, shard.waiting = shard.waiting, []
            for done in waiting:
                done(ErrorCode.COORDINATOR_NOT_AVAILABLE)

    def _topic_changed(self, change: TopicChange) -> None:
        before, after = change
        if before is None or after is not None:
            return
        for shard in list(self._shards.values()):
            if shard.log_partition.topic_id == before.topic_id:
                self._drop_all()  # the topic of the states itself
                return
            if shard.is_loaded:
                self._delete_topic(shard, before.topic_id)

    def _remove_deleted_topics(self, shard: _Shard) -> None:
        """Delete the states of topics that were deleted while this shard was not
        loaded."""
        topic_name = self._data.catalog.topic_name
        for topic_id in {key.topic_id for key in shard.states}:
            if topic_name(topic_id) is None:
                self._delete_topic(shard, topic_id)

    def _delete_topic(self, shard: _Shard, topic_id: TopicId) -> None:
        assert shard.is_loaded
        for key in [key for key in shard.states if key.topic_id == topic_id]:
            self._append(shard, key, None)
            self.dropped(key)


def state_partition(key: ShareKey, partition_count: int) -> int:
    """Return the partition of `__share_group_state` that has a state, as Kafka's
    SharePartitionKey and ShareCoordinatorService map it."""
    assert partition_count > 0
    topic_id = base64.urlsafe_b64encode(key.topic_id).rstrip(b"=").decode()
    return partition_for(f"{key.group_id}:{topic_id}:{key.partition}", partition_count)
