"""The writer of one shard: what is staged becomes idempotent batches upstream.

It has the interface of `broker.runtime.flusher.Flusher`. Batches that are staged
together are merged into one, and up to `IN_FLIGHT_MAX` are in flight, as brokers
remember that many batches of a producer to recognize repetitions (KIP-98).

After a retriable error or an unknown outcome nothing new is sent. Once no batch is in
flight, all that are not acknowledged are sent again, in order, with the same bytes.
When upstream's answer shows that this cannot work, or a batch is older than
`deadline_ms`, the writer fails: everything that waits gets the error, listeners reload
the shard, and only `open` with a new producer epoch starts it again. A producer that
has been fenced fails too, but calls `on_fenced` instead of the listeners: the shard has
another owner.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from coterie.broker import Append, Done, Durability, Scheduler, StagedWrite
from coterie.errors import (
    ConnectionLost,
    CoterieError,
    LogError,
    RequestTimedOut,
    code_of,
)
from coterie.gateway.counts import GatewayCounts
from coterie.gateway.log.shard_log import ShardLog
from coterie.gateway.upstream.upstream import Fetched, Upstream
from coterie.types import LogOffset, ProducerId
from coterie.wire.error_codes import ErrorCode
from coterie.wire.record_batch import (
    HEADER_BYTES,
    INT32_MAX,
    NO_PRODUCER,
    BatchHeader,
    Producer,
    decode_records,
    encode_batch,
    read_header,
    stamped,
    whole_batches,
)

_LOGGER = logging.getLogger(__name__)

IN_FLIGHT_MAX: Final = 5
DEADLINE_MS: Final = 30_000
BACKOFF_MIN_S: Final = 0.02
BACKOFF_MAX_S: Final = 1.0
RECORDS_MAX: Final = 4_000
"""Loading replays a batch in one step, which must not block the event loop for long."""
_GROWTH_BYTES: Final = 5
"""The most that a record's offset delta and length grow by when batches are merged."""
BATCH_BYTES_MAX: Final = 256 * 1024
"""The size up to which batches are merged; a batch that is larger is written alone."""

FENCED: Final = frozenset({ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED})
"""The errors of a producer with an old epoch."""
RETRIED: Final = frozenset(
    {
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.THROTTLING_QUOTA_EXCEEDED,
    }
)
"""The errors after which the same batch is sent again; it may have been appended."""
NOT_VERIFIED: Final = frozenset({ErrorCode.NOT_ENOUGH_REPLICAS})
"""The errors of a batch that was not appended because, among other reasons, the
coordinator of its transaction is unavailable: other applications should not wait."""


@dataclass(slots=True, eq=False)
class _Write:
    """Everything that was staged when it was taken, and its callbacks."""

    number: int
    staged: StagedWrite
    waiting: list[Done]


@dataclass(slots=True, eq=False)
class _Batch:
    """A batch of the shard's producer that is not acknowledged, or of an application's.

    `first` and `count` are the place (see `ShardLog`) and the number of its records.
    """

    data: bytes
    first: LogOffset
    count: int
    deadline_ms: int
    completes: _Write | None = None
    """The write whose last batch this is."""
    transactional_id: str | None = None
    done: Callable[[LogOffset | CoterieError], None] | None = None
    """The callback of an application's batch; None for the shard's own."""
    is_in_flight: bool = False
    was_sent: bool = False
    is_acknowledged: bool = False
    is_uncertain: bool = False
    """Whether upstream may have appended it without an acknowledgement."""
    base: LogOffset = -1
    """The real offset of the first record; -1 if upstream did not return it."""


class ShardWriter(Durability):
    """The writer of one shard's partition; see the module's docstring.

    `clock` returns ms and never steps back. `partition` is the shard's index.
    """

    def __init__(
        self,
        log: ShardLog,
        upstream: Upstream,
        scheduler: Scheduler,
        clock: Callable[[], int],
        *,
        on_fenced: Callable[[], None],
        batch_bytes_max: int = BATCH_BYTES_MAX,
    ) -> None:
        super().__init__()
        self._log = log
        self._upstream = upstream
        self._scheduler = scheduler
        self._clock = clock
        self._on_fenced = on_fenced
        self._batch_bytes_max = batch_bytes_max
        self._partition = log.log_partition.partition
        self._listeners: list[Callable[[LogError], None]] = []
        self.upstream_end: LogOffset = 0
        """The offset in upstream's partition after the newest acknowledged batch, or a
        lower one when upstream did not say where that is."""
        self.counts = GatewayCounts()
        """The counts of retries; a node sets its own."""
        self._producer = NO_PRODUCER
        self._era = 0
        """Incremented by `open` and by each failure: outcomes of an earlier era are
        ignored."""
        self._pending: deque[_Batch] = deque()
        """Batches that were taken, in order, until they and all before them are
        acknowledged."""
        self._in_flight = 0
        self._proven: set[ProducerId] = set()
        """The applications' producers with a batch that was read back; see
        `_read_back`."""
        self._is_recovering = False
        self._backoff_s = BACKOFF_MIN_S
        self._waiting: list[Done] = []
        self._scheduled = False
        self.before_replay: Callable[[LogOffset, Callable[[], None]], None]
        """A function that calls its second argument once all markers below an offset
        have been replayed; the callbacks of applications' batches are called by it."""
        self.before_replay = lambda _, replay: replay()
        self.deadline_ms = DEADLINE_MS
        self.failures = 0
        self.last_error: LogError | None = None

    # The interface of Flusher.

    @property
    def is_writing(self) -> bool:
        """Whether batches are in flight or wait for it."""
        return bool(self._pending)

    def on_failure(self, listener: Callable[[LogError], None]) -> None:
        """Call `listener` after a failure other than fencing, once the log has dropped
        what was staged and before the callbacks that wait for it."""
        self._listeners.append(listener)

    def when_durable(self, done: Done) -> None:
        """Call `done(None)` once everything staged so far is durable, or `done(error)`.
        Without staged appends it is called at once."""
        if self._log.has_staged():
            self._waiting.append(done)
            self.wake()
            return
        for batch in reversed(self._pending):
            if batch.completes is not None:
                batch.completes.waiting.append(done)
                return
        done(None)

    def wake(self) -> None:
        """Write all staged appends after the callbacks of this loop iteration."""
        if not self._scheduled:
            self._scheduled = True
            self._scheduler.call_soon(lambda: self._guard(self._start))

    # Ownership.

    @property
    def producer(self) -> Producer:
        """The producer of the shard's batches, with the next sequence number;
        NO_PRODUCER while the writer is not open."""
        return self._producer

    @property
    def is_idle(self) -> bool:
        """Whether nothing is staged or in flight."""
        return not (self._pending or self._waiting or self._log.has_staged())

    def open(self, producer: Producer, end: LogOffset) -> None:
        """Write as `producer`, whose next sequence is `base_sequence`, from the loaded
        log's end on.

        A batch of this producer must be in the partition: a broker that does not know a
        producer accepts any sequence, so a later batch could overtake the first.
        """
        assert not self._pending
        assert not self._waiting
        assert producer.producer_id >= 0
        self._era += 1
        self._producer = producer
        self.upstream_end = end
        self._proven.clear()
        self._log.reset(end)

    def close(self, error: LogError) -> None:
        """Fail everything that waits, and write nothing until `open`. Listeners are not
        called."""
        _run(self._stop(error))

    def produce_transactional(
        self,
        batch: bytes,
        record_count: int,
        transactional_id: str,
        done: Callable[[LogOffset | CoterieError], None],
    ) -> None:
        """Write a batch of an application's transaction, after everything that is
        staged and before everything staged later.

        `done` gets the place of its first record in the shard's log, once it is durable
        and may be replayed, or upstream's refusal, which leaves the shard as it was.
        While the outcome is unknown, the batch is sent again; LogError after
        `deadline_ms`, or a refusal of what may have been appended: the shard is then
        loaded again.
        """
        if self._producer is NO_PRODUCER:
            done(LogError("the shard has no owner here"))
            return
        if self._log.has_staged():
            self._take()
        self._pending.append(
            _Batch(
                batch,
                self._log.place(record_count),
                record_count,
                self._clock() + self.deadline_ms,
                transactional_id=transactional_id,
                done=done,
            )
        )
        self.wake()

    def is_unacknowledged(self, header: BatchHeader) -> bool:
        """Return whether a batch in the log is an application's that was sent here, and
        whose outcome is not known."""
        first = self._pending[0] if self._pending else None
        if first is None or first.done is None or not header.is_transactional:
            return False
        sent = read_header(first.data)
        return (
            sent.producer_id == header.producer_id
            and sent.producer_epoch == header.producer_epoch
            and sent.base_sequence == header.base_sequence
            and not header.is_control
        )

    # Sending.

    def _start(self) -> None:
        self._scheduled = False
        if self._producer is NO_PRODUCER:
            if self._log.has_staged() or self._waiting:
                self._fail(LogError("the shard has no owner here"))
            return
        if self._can_take():
            self._take()
        self._send()

    def _can_take(self) -> bool:
        """Return whether staged appends would be sent at once. Until then they are
        collected for one batch."""
        if self._is_recovering or len(self._pending) >= IN_FLIGHT_MAX:
            return False
        is_sent = all(
            batch.done is None and (batch.is_in_flight or batch.is_acknowledged)
            for batch in self._pending
        )
        return is_sent and self._log.has_staged()

    def _take(self) -> None:
        """Make batches of everything that is staged."""
        staged = self._log.take()
        write = _Write(self.next_sequence, staged, self._waiting)
        self._waiting = []
        self.next_sequence += 1
        appends = [each for each in staged.operations if isinstance(each, Append)]
        assert len(appends) == len(staged.operations)
        assert appends
        sizes = [
            (
                each.header.size_bytes,
                each.header.last_offset - each.header.base_offset + 1,
            )
            for each in appends
        ]
        deadline_ms = self._clock() + self.deadline_ms
        at = 0
        for count in runs(sizes, self._batch_bytes_max):
            self._append(appends[at : at + count], deadline_ms)
            at += count
        self._pending[-1].completes = write

    def _append(self, appends: Sequence[Append], deadline_ms: int) -> None:
        first = appends[0].header.base_offset
        count = appends[-1].header.last_offset + 1 - first
        data = merged([each.batch for each in appends], self._producer)
        producer_id, epoch, sequence = self._producer
        self._producer = Producer(producer_id, epoch, (sequence + count) & INT32_MAX)
        self._pending.append(_Batch(data, first, count, deadline_ms))

    def _send(self) -> None:
        """Send pending batches in order. An application's batch is alone in flight, so
        that its place among the shard's batches is known."""
        era = self._era
        for batch in list(self._pending):
            if self._era != era or self._is_recovering:
                return
            if batch.is_in_flight or batch.is_acknowledged:
                if batch.done is not None:
                    return
                continue
            if self._in_flight >= IN_FLIGHT_MAX:
                return
            if batch.done is not None and batch is not self._pending[0]:
                return
            self._send_one(batch)
            if batch.done is not None:
                return

    def _send_one(self, batch: _Batch) -> None:
        era = self._era
        self.counts.produce_retries += batch.was_sent
        batch.is_in_flight = batch.was_sent = True
        self._in_flight += 1

        def answered(result: LogOffset | CoterieError) -> None:
            if self._era == era:
                self._guard(lambda: self._answered(batch, result))

        self._upstream.produce(
            self._partition,
            batch.data,
            answered,
            transactional_id=batch.transactional_id,
        )

    # Outcomes.

    def _answered(self, batch: _Batch, result: LogOffset | CoterieError) -> None:
        assert batch.is_in_flight
        batch.is_in_flight = False
        self._in_flight -= 1
        if code_of(result) is ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
            result = -1
        if isinstance(result, CoterieError):
            self._refused(batch, result)
        elif result < 0 and batch.done is not None:
            # Whether a marker precedes it can then only be told from the log.
            error = f"shard {self._partition}: no offset of a transactional batch"
            self._fail(LogError(error))
        elif batch.done is not None and not self._is_proven(batch):
            self._read_back(batch, result)
        else:
            self._acknowledged(batch, result)
        self._resume_when_drained()

    def _acknowledged(self, batch: _Batch, base: LogOffset) -> None:
        batch.is_acknowledged, batch.base = True, base
        self._backoff_s = BACKOFF_MIN_S
        self._complete()

    def _is_proven(self, batch: _Batch) -> bool:
        return read_header(batch.data).producer_id in self._proven

    def _read_back(self, batch: _Batch, base: LogOffset) -> None:
        """Fetch the first batch of an application's producer since `open`.

        A batch of the shard's previous owner may have arrived after this one asked for
        the sequences of its producer. Upstream then takes the first batch with the same
        sequences for a repetition of that one, and acknowledges it without writing it.
        The producer's next batches follow one that is known to be in the log.
        """
        era = self._era
        batch.is_in_flight = True
        self._in_flight += 1

        def fetched(result: Fetched | CoterieError) -> None:
            if self._era == era:
                self._guard(lambda: self._compare(batch, base, result))

        self._upstream.fetch(self._partition, base, fetched)

    def _compare(
        self, batch: _Batch, base: LogOffset, result: Fetched | CoterieError
    ) -> None:
        batch.is_in_flight = False
        self._in_flight -= 1
        if isinstance(result, Fetched):
            stored = batch_at(result.batches, base)
            result = ConnectionLost(f"offset {base} cannot be fetched yet")
            if stored is not None and has_records_of(stored, batch.data):
                self._proven.add(read_header(batch.data).producer_id)
                self._acknowledged(batch, base)
                return
            if stored is not None:
                error = "an earlier owner's batch has the sequences of a new one"
                self._fail(LogError(f"shard {self._partition}: {error}"))
                return
        batch.is_uncertain = True  # sent again, it gets the same offset
        self._recover(result)
        self._resume_when_drained()

    def _refused(self, batch: _Batch, error: CoterieError) -> None:
        code = code_of(error)
        is_first = all(
            each.is_acknowledged or each is batch for each in self._until(batch)
        )
        if batch.done is not None and not batch.is_uncertain and code in NOT_VERIFIED:
            self._refuse_application(batch, error)
        elif isinstance(error, ConnectionLost | RequestTimedOut) or code in RETRIED:
            batch.is_uncertain = True
            self._recover(error)
        elif batch.done is not None and batch.is_uncertain:
            # Upstream may have appended it, and even have ended its transaction.
            self._fail(_log_error(self._partition, error))
        elif batch.done is not None:
            self._refuse_application(batch, error)
        elif code in FENCED:
            self._fence(error)
        elif code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and not is_first:
            # An earlier batch was not appended, and is sent again before this one.
            self._recover(error)
        else:
            self._fail(_log_error(self._partition, error))

    def _until(self, last: _Batch) -> list[_Batch]:
        pending = list(self._pending)
        return pending[: pending.index(last) + 1]

    def _refuse_application(self, batch: _Batch, error: CoterieError) -> None:
        """Drop an application's batch that upstream refuses: the shard goes on."""
        assert batch is self._pending[0]
        assert batch.done is not None
        self._pending.popleft()
        _run([partial(batch.done, error)])
        if self._producer is not NO_PRODUCER:
            self.wake()

    def _complete(self) -> None:
        """Complete the acknowledged batches that no earlier one keeps waiting."""
        calls: list[Callable[[], None]] = []
        try:
            while self._pending and self._pending[0].is_acknowledged:
                batch = self._pending[0]
                self.upstream_end = max(batch.base, self.upstream_end) + batch.count
                if batch.done is not None:
                    replay = partial(batch.done, batch.first)
                    calls.append(partial(self.before_replay, self.upstream_end, replay))
                write = batch.completes
                if write is not None:
                    self._log.settle(write.staged)
                    self.durable_sequence = write.number
                    self.last_error = None
                    calls += [partial(done, None) for done in write.waiting]
                self._pending.popleft()
        finally:
            _run(calls)
        if not self.is_idle:
            self.wake()

    def _recover(self, error: CoterieError) -> None:
        if not self._is_recovering and self._backoff_s == BACKOFF_MIN_S:
            _LOGGER.warning(
                "shard %d: a write is sent again: %s", self._partition, error
            )
        self._is_recovering = True
        self.last_error = _log_error(self._partition, error)

    def _resume_when_drained(self) -> None:
        """Send again after a pause, once every outcome of the first try is known."""
        if not self._is_recovering or self._in_flight:
            return
        era, delay_s = self._era, self._backoff_s
        self._backoff_s = min(2 * delay_s, BACKOFF_MAX_S)

        def resume() -> None:
            if self._era != era or not self._pending:
                return
            if self._clock() >= self._pending[0].deadline_ms:
                assert self.last_error is not None
                self._fail(self.last_error)
                return
            self._is_recovering = False
            self._send()

        self._scheduler.call_later(delay_s, lambda: self._guard(resume))

    def _fence(self, error: CoterieError) -> None:
        _LOGGER.error("shard %d has another owner: %s", self._partition, error)
        calls = self._stop(_log_error(self._partition, error))
        _run([self._on_fenced, *calls])

    def _guard(self, step: Callable[[], None]) -> None:
        """Make a step. After a bug the writer fails: its state is not reliable."""
        try:
            step()
        except Exception as bug:
            _LOGGER.exception("shard %d: a bug in writing", self._partition)
            reason = f"a bug: {type(bug).__name__}: {bug}"
            self._fail(LogError(f"shard {self._partition} cannot write: {reason}"))

    def _fail(self, error: LogError) -> None:
        self.failures += 1
        _LOGGER.error("%s; all staged records are dropped", error)
        calls = self._stop(error)
        _run([*(partial(each, error) for each in self._listeners), *calls])

    def _stop(self, error: LogError) -> list[Callable[[], None]]:
        """Drop everything; return the callbacks to call with the error."""
        calls: list[Callable[[], None]] = []
        for batch in self._pending:
            if batch.done is not None:
                calls.append(partial(batch.done, error))
            if batch.completes is not None:
                calls += [partial(done, error) for done in batch.completes.waiting]
        calls += [partial(done, error) for done in self._waiting]
        self._era += 1
        self._pending.clear()
        self._waiting = []
        self._in_flight = 0
        self._is_recovering = False
        self._backoff_s = BACKOFF_MIN_S
        self._producer = NO_PRODUCER
        self.last_error = error
        self.next_sequence += 1
        self._log.abandon(StagedWrite([], 0))
        return calls


def _run(calls: Iterable[Callable[[], None]]) -> None:
    """Call callbacks, once the state of the writer is consistent."""
    for call in calls:
        try:
            call()
        except Exception:
            _LOGGER.exception("a bug in a callback after a write")


def _log_error(partition: int, error: CoterieError) -> LogError:
    return LogError(f"shard {partition} cannot write upstream: {error}")


# Batches.


def merged(batches: Sequence[bytes], producer: Producer) -> bytes:
    """Return one batch with the records of several, which are not transactional.

    All records get the timestamp of the first one, as those that are added to an open
    batch do: `read_commits` is fast where timestamps do not differ.
    """
    if len(batches) == 1:
        return stamped(batches[0], producer)
    records = [record for batch in batches for record in decode_records(batch)]
    time_ms = records[0].timestamp_ms
    return encode_batch(
        [
            record._replace(offset=offset, timestamp_ms=time_ms)
            for offset, record in enumerate(records)
        ],
        producer=producer,
    )


def runs(batches: Sequence[tuple[int, int]], bytes_max: int) -> list[int]:
    """Return how many consecutive batches to merge each time, so that no merged batch
    has more than `bytes_max` or `RECORDS_MAX`, from the size in bytes and the record
    count of each."""
    counts: list[int] = []
    size = records = 0
    for size_bytes, record_count in batches:
        added = size_bytes - HEADER_BYTES + _GROWTH_BYTES * record_count
        fits = size + added <= bytes_max and records + record_count <= RECORDS_MAX
        if counts and fits:
            counts[-1] += 1
            size += added
            records += record_count
        else:
            counts.append(1)
            size, records = size_bytes, record_count
    return counts


def batch_at(fetched: bytes, offset: LogOffset) -> bytes | None:
    """Return the fetched batch that begins at an offset, if there is one."""
    for header, batch in whole_batches(fetched):
        if header.base_offset == offset:
            return batch
    return None


def has_records_of(stored: bytes, batch: bytes) -> bool:
    """Return whether a stored batch, which upstream may have compressed or given other
    timestamps, has the keys and values of a batch."""
    ours, theirs = (
        [(record.key, record.value) for record in decode_records(each)]
        for each in (batch, stored)
    )
    return ours == theirs
