"""Take a shard over: fence its earlier owners, load it, then keep it.

    InitProducerId -> barrier -> the partition up to the barrier

The new producer epoch fences nobody until a batch with it is in the partition: earlier
owners write until the barrier. So the shard is loaded when the own barrier is replayed,
never before. While the shard is owned, the barrier is repeated, and the partition is
read for the markers of transactions.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

from coterie.broker import (
    CoordinatorPartition,
    Loaded,
    LogPartition,
    Runtime,
    Scheduler,
    ShardStore,
    Slices,
    TimerHandle,
    replay_batch,
)
from coterie.errors import (
    ApiError,
    ConnectionLost,
    CoterieError,
    LogError,
    RequestTimedOut,
    code_of,
)
from coterie.gateway.counts import GatewayCounts
from coterie.gateway.log.barrier import Barrier, Lineage, encode_barrier, read_barrier
from coterie.gateway.log.markers import MarkerTail
from coterie.gateway.log.shard_log import ShardLog
from coterie.gateway.log.shard_writer import FENCED, RETRIED, ShardWriter
from coterie.gateway.ownership import OpenedShard, Progress
from coterie.gateway.upstream.topic import ShardsTopic
from coterie.gateway.upstream.upstream import Fetched, Upstream
from coterie.types import LogOffset
from coterie.wire.error_codes import ErrorCode
from coterie.wire.record_batch import (
    NO_PRODUCER,
    BatchHeader,
    Marker,
    Producer,
    read_header,
    stamped,
    whole_batches,
)

_LOGGER = logging.getLogger(__name__)

RETRY_MIN_S: Final = 0.05
RETRY_MAX_S: Final = 1.0
REPEAT_S: Final = 1_800.0
"""The interval of barriers: less than half of the shortest sensible
`producer.id.expiration.ms`."""
RENEW_S: Final = 86_400.0
"""The time after which an owner takes its shard over again, which increments the epoch:
upstream forgets transactional ids that are not initialized for long
(`transactional.id.expiration.ms`, 7 days), and the next owner would get another
producer id, whose barrier does not fence this one."""


LOG_INTERVAL_MS: Final = 10_000
"""The least time between two log lines with one reason why shards are not loaded."""
_REASONS_MAX: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class LogContext:
    """What all shards of a node share.

    `steady` is a clock in ms that never steps back, `wall` the system time in ms.
    """

    runtime: Runtime
    upstream: Upstream
    topic: ShardsTopic
    node: str
    """The name of this node, which barriers contain."""
    transactional_id: Callable[[int], str]
    scheduler: Scheduler
    steady: Callable[[], int]
    wall: Callable[[], int]
    slices: Slices
    fenced: Callable[[int], None]
    """The callback with a shard that has another owner."""
    counts: GatewayCounts = field(default_factory=GatewayCounts)
    logged: dict[str, int] = field(default_factory=dict)
    """When each reason of a failure was logged last, on `steady`."""


class Opening:
    """One try to take a shard over, which `load` of its store begins, and, when it
    succeeds, the time of owning it."""

    def __init__(self, context: LogContext, index: int) -> None:
        self._context = context
        self._index = index
        self._is_closed = False
        self._producer = NO_PRODUCER
        self._position: LogOffset = 0
        self._barrier_offset: LogOffset = -1
        self._lineage = Lineage(NO_PRODUCER.producer_id, 0)
        self._is_loaded = False
        self._retry_s = RETRY_MIN_S
        self._timer: TimerHandle | None = None
        self._owners_barrier: LogOffset = -1
        self._dropped = 0
        self._dropped_after: LogOffset = -1
        self._since_ms = 0
        self._renew_at_ms = 0
        log_partition = LogPartition(context.topic.topic_id, index)
        self.log = ShardLog(log_partition)
        self.writer = ShardWriter(
            self.log,
            context.upstream,
            context.scheduler,
            context.steady,
            on_fenced=lambda: context.fenced(index),
        )
        self.writer.counts = context.counts
        self.tail = MarkerTail(
            context.upstream,
            context.scheduler,
            index,
            is_needed=self._has_transactions,
            replay=self._replay_marker,
            failed=self._reload,
        )
        self.tail.is_unacknowledged = self.writer.is_unacknowledged
        self.writer.before_replay = self.tail.after
        self.writer.on_failure(self._writer_failed)
        self.store = ShardStore(
            log_partition,
            self.log,
            self.writer,
            self.load,
            lambda _: context.slices.prioritize(self),
        )

    @property
    def opened(self) -> OpenedShard:
        """The store of the shard, for this try."""
        return OpenedShard(self.store, self.close, self.progress)

    def progress(self) -> Progress:
        """Return how far the shard is taken over."""
        end = self.writer.upstream_end if self._is_loaded else 0
        return Progress(
            self._producer.producer_epoch,
            max(self._position, end),
            self._barrier_offset,
        )

    def close(self) -> None:
        """Stop at once: the shard is released, or could not be taken over."""
        self._is_closed = True
        self._context.slices.remove(self)
        self.tail.close()
        if self._timer is not None:
            self._timer.cancel()
        self.writer.close(LogError(f"shard {self._index} was released"))

    def load(
        self, partition: CoordinatorPartition, loaded: Loaded, failed: Loaded
    ) -> None:
        """Take the shard over, and call one of the callbacks."""
        assert not self._is_loaded
        self._partition, self._loaded, self._failed = partition, loaded, failed
        # Not when the response arrives: it may be late, and another node have got a
        # later producer, with another id if upstream has forgotten this one.
        self._since_ms = self._context.wall()
        self._context.upstream.init_producer_id(
            self._context.transactional_id(self._index), self._initialized
        )

    # The producer and its barrier.

    def _initialized(self, result: Producer | CoterieError) -> None:
        if self._is_closed:
            return
        if isinstance(result, CoterieError):
            self._fail(result)
            return
        self._producer = result._replace(base_sequence=0)
        self._lineage = Lineage(self._producer.producer_id, self._since_ms)
        self._write_barrier()

    def _write_barrier(self) -> None:
        lease = self._context.runtime.lease
        if lease is not None and not lease():
            self._fail(LogError("the lease ended before the shard was taken over"))
            return
        batch = stamped(self._encode_barrier(is_repeated=False), self._producer)
        self._context.upstream.produce(self._index, batch, self._barrier_written)

    def _encode_barrier(self, *, is_repeated: bool) -> bytes:
        topic = self._context.topic
        barrier = Barrier(
            cluster_id=topic.cluster_id,
            node=self._context.node,
            partition_count=topic.partition_count,
            time_ms=self._since_ms,
            is_repeated=is_repeated,
        )
        return encode_barrier(barrier, self._context.wall())

    def _barrier_written(self, result: LogOffset | CoterieError) -> None:
        if self._is_closed:
            return
        if _is_retriable(result):
            self._retry(self._write_barrier)
            return
        if code_of(result) is ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
            result = -1
        if isinstance(result, CoterieError):
            self._fail(result)
            return
        self._barrier_offset = result
        self._retry_s = RETRY_MIN_S
        self._fetch(0)

    # Loading.

    def _fetch(self, offset: LogOffset) -> None:
        def fetched(result: Fetched | CoterieError) -> None:
            if self._is_closed:
                return
            if _is_retriable(result):
                self._retry(lambda: self._fetch(offset))
            elif code_of(result) is ErrorCode.OFFSET_OUT_OF_RANGE:
                reason = "its log does not begin at offset 0: records were deleted"
                self._fail(LogError(reason))
            elif isinstance(result, CoterieError):
                self._fail(result)
            else:
                self._retry_s = RETRY_MIN_S
                self._position = offset
                self._replay(result)

        self._context.upstream.fetch(self._index, offset, fetched)

    def _replay(self, fetched: Fetched) -> None:
        before = self._position

        def ended(error: CoterieError | None) -> None:
            if error is not None:
                self._fail(error)
            elif self._is_loaded and self._dropped:
                self._check_dropped()
            elif self._is_loaded:
                self._activate()
            elif self._position > before:
                self._fetch(self._position)
            else:
                # The barrier is below the high watermark of a new leader only after
                # its followers have fetched it.
                self._retry(lambda: self._fetch(self._position))

        self._context.slices.add(self, self._steps(fetched.batches), ended)

    def _steps(self, data: bytes) -> Iterator[None]:
        """Replay the batches up to the own barrier, one a step. Raises LogError."""
        shard = self._partition.shard
        for header, batch in whole_batches(data):
            if header.last_offset < self._position:
                continue
            self._replay_batch(header, batch)
            self._position = header.last_offset + 1
            if self._is_loaded:
                return
            yield
            if self._partition.shard is not shard:
                raise LogError("the shard was replaced")

    def _replay_batch(self, header: BatchHeader, batch: bytes) -> None:
        is_owners = not (header.is_transactional or header.is_control)
        barrier = read_barrier(batch, header) if is_owners else None
        if barrier is not None:
            self._observe(header, barrier)
        elif is_owners and not self._lineage.accepts(header):
            if self._dropped_after < 0:
                self._dropped_after = self._owners_barrier
            self._dropped += header.record_count
        elif header.record_count:
            replay_batch(self._partition, self._partition.shard, batch, self._position)

    def _observe(self, header: BatchHeader, barrier: Barrier) -> None:
        topic = self._context.topic
        if barrier.cluster_id != topic.cluster_id:
            raise LogError(
                f"{topic.name} was written by a gateway of the cluster "
                f"{barrier.cluster_id}, and this one is {topic.cluster_id}: the topic "
                "is a copy, or two gateways have one name; choose another --name"
            )
        if barrier.partition_count != topic.partition_count:
            raise LogError(
                f"{topic.name} had {barrier.partition_count} partitions, and has "
                f"{topic.partition_count} now: groups would be in other shards; "
                "partitions of this topic must not be added"
            )
        is_owner = self._lineage.observe(header, barrier)
        if is_owner:
            self._owners_barrier = header.base_offset
        own = self._producer
        if (header.producer_id, header.producer_epoch) == own[:2]:
            if not is_owner:
                raise LogError(
                    "another node takes the shard over, or the clock of this node is "
                    "behind that of the last owner: synchronize the clocks of the nodes"
                )
            self._is_loaded = True

    def _check_dropped(self) -> None:
        """Activate the shard, or load it again if a dropped batch may belong to it.

        The cleaner may have removed the barrier of the batch's owner after the earlier
        owner's barrier was read. It removes that one as well, because both have one
        key: while that one is in the log, no later barrier was missed.
        """

        def fetched(result: Fetched | CoterieError) -> None:
            if self._is_closed:
                return
            if _is_retriable(result):
                self._retry(self._check_dropped)
            elif isinstance(result, CoterieError):
                self._fail(result)
            else:
                self._decide_on_dropped(result)

        self._context.upstream.fetch(self._index, self._dropped_after, fetched)

    def _decide_on_dropped(self, fetched: Fetched) -> None:
        try:
            first = next(iter(whole_batches(fetched.batches)), None)
            barrier = None if first is None else read_barrier(first[1], first[0])
        except CoterieError as error:
            self._fail(error)
            return
        if first is None:  # the response had no space for this partition
            self._retry(self._check_dropped)
        elif barrier is not None and first[0].base_offset == self._dropped_after:
            self._activate()
        else:
            self._fail(LogError("the log was compacted while it was read"))

    def _activate(self) -> None:
        if self._dropped:
            _LOGGER.warning(
                "shard %d: %d records of earlier owners were written after a later "
                "owner's barrier, and are ignored",
                self._index,
                self._dropped,
            )
        self.writer.open(self._producer._replace(base_sequence=1), self._position)
        self._schedule_barrier()
        # Not all shards at the same time.
        age_s = RENEW_S * (1 - self._index % 16 / 32)
        self._renew_at_ms = self._context.steady() + int(age_s * 1000)
        self._loaded(self._partition)
        self.tail.start(self._position)

    # Owning.

    def _has_transactions(self) -> bool:
        return bool(self._partition.shard.state.offsets.pending.transactions)

    def _replay_marker(
        self, header: BatchHeader, marker: Marker, offset: LogOffset
    ) -> None:
        producer = header.producer_id, header.producer_epoch
        self._context.runtime.replay_marker(
            self._index, *producer, marker.commit, offset
        )

    def _writer_failed(self, _: LogError) -> None:
        """Load the shard again, also when the runtime did not wait for the write: after
        a repeated barrier or an application's batch."""
        self._context.scheduler.call_soon(self._reload)

    def _reload(self, error: CoterieError | None = None) -> None:
        """Take the shard over again, if it is still served after a failure."""
        if self._is_closed:
            return
        if error is not None:
            _LOGGER.error("shard %d is loaded again: %s", self._index, error)
        self._context.runtime.reload_shard(self._index)

    def _schedule_barrier(self) -> None:
        scheduler = self._context.scheduler
        self._timer = scheduler.call_later(REPEAT_S, self._repeat_barrier)

    def _repeat_barrier(self) -> None:
        if self._is_closed or self.writer.producer is NO_PRODUCER:
            return
        self._schedule_barrier()
        if self._context.steady() >= self._renew_at_ms:
            lease = self._context.runtime.lease
            # Without the lease it would fence the shard's next owner.
            if lease is None or lease():
                self._reload()
            return
        offset = self.log.next_offset(self.log.log_partition)
        batch = self._encode_barrier(is_repeated=True)
        header = read_header(batch)._replace(base_offset=offset)
        self.log.append(self.log.log_partition, batch, header)
        self.writer.wake()

    def _retry(self, job: Callable[[], None]) -> None:
        """Do it again after a pause; ownership ends the tries with the lease."""
        delay_s = self._retry_s
        self._retry_s = min(2 * delay_s, RETRY_MAX_S)

        def run() -> None:
            if not self._is_closed:
                job()

        self._timer = self._context.scheduler.call_later(delay_s, run)

    def _fail(self, error: CoterieError) -> None:
        if self._is_closed:
            return
        code = code_of(error)
        if code in FENCED:
            _LOGGER.warning("shard %d: another node takes it over", self._index)
        else:
            self._log_failure(str(error) if code is None else code.name, error)
        self.close()
        self._failed(self._partition)

    def _log_failure(self, reason: str, error: CoterieError) -> None:
        """Log a failure once for all shards that have it at about the same time."""
        logged, now_ms = self._context.logged, self._context.steady()
        if now_ms - logged.get(reason, -LOG_INTERVAL_MS) < LOG_INTERVAL_MS:
            _LOGGER.debug("shard %d cannot be loaded: %s", self._index, error)
            return
        if len(logged) >= _REASONS_MAX:
            logged.clear()
        logged[reason] = now_ms
        _LOGGER.error(
            "shard %d cannot be loaded: %s; tried again (further shards with this "
            "error are not logged for %d s)",
            self._index,
            error,
            LOG_INTERVAL_MS // 1000,
        )


def _is_retriable(result: object) -> bool:
    if isinstance(result, ApiError):
        return result.code in RETRIED
    return isinstance(result, ConnectionLost | RequestTimedOut)
