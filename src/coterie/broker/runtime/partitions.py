"""A partition of the data plane: appends, reads and waiting fetches.

The state of a partition's producers is read from the log when it is first needed, so
that a server with many partitions starts at once. It is also saved beside the log every
`SAVE_EVERY_BATCHES` batches, which bounds how much has to be read.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Final, NamedTuple

from coterie.broker.catalog.batch_validation import IncomingBatch, assign_offsets
from coterie.broker.catalog.configs import TopicSettings
from coterie.broker.catalog.producer_state import (
    AbortedTransaction,
    BatchLocation,
    ProducerBatch,
    ProducerState,
)
from coterie.broker.log.log import Bounds, Log, LogPartition
from coterie.broker.runtime.system import Scheduler
from coterie.errors import ApiError, LogCorrupt, MalformedFrame
from coterie.types import LogOffset, ProducerId, TopicPartition
from coterie.wire.error_codes import ErrorCode
from coterie.wire.record_batch import (
    BatchHeader,
    Marker,
    decode_marker,
    decode_records,
    encode_marker,
    read_header,
)

COMPACTED_SPACE: Final = "compacted"
"""The log's space for the offset up to which each partition has been compacted."""
PRODUCERS_SPACE: Final = "producers"
"""The log's space for the producer state of each partition."""
SAVE_EVERY_BATCHES: Final = 5_000
BATCHES_PER_STEP: Final = 500


def partition_key(log_partition: LogPartition) -> bytes:
    """Return the key of a partition in the spaces beside the log."""
    assert len(log_partition.topic_id) == 16
    return log_partition.topic_id + log_partition.partition.to_bytes(4, "big")


class ReadResult(NamedTuple):
    """The result of a read. `aborted` is None for read_uncommitted."""

    batches: Sequence[bytes]
    bounds: Bounds
    last_stable_offset: LogOffset
    aborted: tuple[AbortedTransaction, ...] | None


class Partition:
    """A partition and the state of its producers.

    `log_partition` identifies it in the log. `version` changes whenever a read may have
    another result.

    The coordinator's runtime appends to `__consumer_offsets` directly, so the producer
    state may be older than the log: it covers the batches before `_next_offset`.
    """

    __slots__ = (
        "_log",
        "_next_offset",
        "_producers",
        "_unsaved_batches",
        "log_partition",
        "name",
        "polls",
        "version",
    )

    def __init__(
        self, name: TopicPartition, log_partition: LogPartition, log: Log
    ) -> None:
        self.name = name
        self.log_partition = log_partition
        self.version = 0
        self.polls: set[Poll] = set()
        self._log = log
        self._producers: ProducerState | None = None
        self._next_offset: LogOffset = 0
        self._unsaved_batches = 0

    def bounds(self) -> Bounds:
        """Return the offsets of the partition."""
        return self._log.bounds(self.log_partition)

    def reset(self) -> None:
        """Drop the producer state; it is read from the log when next needed."""
        self.version += 1
        self._producers = None

    # Writing.

    def find_duplicate(self, producer: ProducerBatch) -> BatchLocation | None:
        """Return the location of an earlier duplicate of a batch.

        Raises ApiError as `ProducerState.check_append` does.
        """
        return self.current_producers().check_append(producer)

    def append(
        self, batch: IncomingBatch, settings: TopicSettings, now_ms: int
    ) -> BatchHeader:
        """Stage a validated batch; return its header with the assigned offsets."""
        producers = self.current_producers()
        offset = self.bounds().next_offset
        stored = assign_offsets(batch, offset, settings, now_ms)
        header = stored.header
        assert header.base_offset == offset
        assert header.size_bytes == len(stored.data)
        self._log.append(self.log_partition, stored.data, header)
        producer = stored.producer
        if producer is not None:
            producers.record_append(producer, _location(header))
        self._advance(header)
        return header

    def append_marker(
        self, producer_id: ProducerId, epoch: int, *, committed: bool, now_ms: int
    ) -> int:
        """Stage an end-of-transaction marker; return its size in bytes."""
        assert producer_id >= 0
        assert epoch >= 0
        producers = self.current_producers()
        data = encode_marker(
            self.bounds().next_offset, now_ms, producer_id, epoch, commit=committed
        )
        header = read_header(data)
        self._log.append(self.log_partition, data, header)
        producers.record_marker(
            producer_id, epoch, committed=committed, location=_location(header)
        )
        self._advance(header)
        return header.size_bytes

    def notify_growth(self, size_bytes: int) -> None:
        """Notify waiting fetches that bytes have become durable."""
        assert size_bytes > 0
        self.version += 1
        if self.polls:
            for poll in tuple(self.polls):
                poll.add_bytes(self, size_bytes)

    def close(self) -> None:
        """Finish the waiting fetches: the partition was deleted."""
        self.version += 1
        for poll in tuple(self.polls):
            poll.finish()
        assert not self.polls

    # Reading.

    def read(
        self, offset: LogOffset, bytes_max: int, *, committed: bool, at_least_one: bool
    ) -> ReadResult:
        """Read batches from the one that contains `offset` on, up to `bytes_max`.

        With `at_least_one` the first batch may be larger. With `committed` batches end
        at the last stable offset.

        Raises ApiError OFFSET_OUT_OF_RANGE, or UNKNOWN_SERVER_ERROR for a negative
        size, and LogError.
        """
        bounds = self.bounds()
        if not bounds.log_start_offset <= offset <= bounds.flushed_offset:
            raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE)
        stable = self.last_stable_offset()
        before = stable if committed else bounds.flushed_offset
        assert bounds.log_start_offset <= bounds.flushed_offset <= bounds.next_offset
        assert stable <= bounds.flushed_offset
        empty = ReadResult((), bounds, stable, () if committed else None)
        if offset >= before:
            return empty
        if bytes_max < 0:
            # Kafka's LogSegment.read has no other error for it.
            raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR)
        if not (bytes_max or at_least_one):
            return empty
        batches = self._log.read(self.log_partition, offset, bytes_max)
        if batches and len(batches[0]) > bytes_max and not at_least_one:
            return empty
        if not committed:
            return ReadResult(batches, bounds, stable, None)
        decided = [batch for batch in batches if base_offset_of(batch) < before]
        if not decided:
            return empty
        last = decided[-1]
        end = base_offset_of(last) + int.from_bytes(last[23:27], "big") + 1
        return ReadResult(
            decided, bounds, stable, self.aborted(offset, min(end, before))
        )

    def last_stable_offset(self) -> LogOffset:
        """Return the first offset of an open transaction, or the log's end."""
        producers = self.current_producers()
        return producers.last_stable_offset(self.bounds().flushed_offset)

    def aborted(
        self, offset: LogOffset, before: LogOffset
    ) -> tuple[AbortedTransaction, ...]:
        """Return the aborted transactions with records in a range of offsets."""
        assert offset <= before
        return self.current_producers().aborted_transactions(offset, before)

    def truncate_producers(self, before: LogOffset) -> None:
        """Drop the producer state from before the new, durable log start offset."""
        assert before <= self.bounds().flushed_offset
        self.version += 1
        if self._producers is not None:
            self._producers.truncate(before)

    def expire_producers(self, before_ms: int) -> None:
        """Remove producers without a batch since that time."""
        if self._producers is not None:
            self._producers.remove_expired(before_ms)

    def catch_up(self) -> Iterator[None]:
        """Read new batches into the producer state, `BATCHES_PER_STEP` a step.

        Other methods read all of them at once, which takes seconds for a million.
        """
        while True:
            producers, start = self._loaded_producers(), self._next_offset
            if start >= self.bounds().flushed_offset:
                return
            headers = self._log.headers(self.log_partition, start)
            self._read_headers(producers, islice(headers, BATCHES_PER_STEP))
            if self._next_offset == start:
                return  # compaction removed the others
            yield

    def current_producers(self) -> ProducerState:
        """Return the producer state after all batches, those not flushed included."""
        producers = self._loaded_producers()
        if self._next_offset < self.bounds().flushed_offset:
            headers = self._log.headers(self.log_partition, self._next_offset)
            self._read_headers(producers, headers)
        return producers

    def _loaded_producers(self) -> ProducerState:
        if self._producers is None:
            self._producers = self._saved_producers(self.bounds().log_start_offset)
        return self._producers

    def _saved_producers(self, log_start_offset: LogOffset) -> ProducerState:
        saved = self._log.get(PRODUCERS_SPACE, partition_key(self.log_partition))
        if saved is None:
            self._next_offset = log_start_offset
            return ProducerState()
        try:
            value = json.loads(saved)
            self._next_offset = max(value["seen_offset"], log_start_offset)
            producers = ProducerState.from_value(value)
        except (ValueError, LookupError, TypeError) as error:
            raise LogCorrupt(
                f"{self.name.topic}-{self.name.partition}: the saved producer state "
                f"cannot be decoded: {error}"
            ) from None
        if self._next_offset > self.bounds().next_offset:
            raise LogCorrupt(
                f"{self.name.topic}-{self.name.partition}: the log ends before the "
                f"saved producer state, which is of offset {self._next_offset}"
            )
        producers.truncate(log_start_offset)
        return producers

    def _advance(self, header: BatchHeader) -> None:
        """Move past a batch; save the producer state every `SAVE_EVERY_BATCHES`."""
        assert header.last_offset >= self._next_offset, "a batch counts once"
        self._next_offset = header.last_offset + 1
        self._unsaved_batches += 1
        if self._unsaved_batches >= SAVE_EVERY_BATCHES and self._producers is not None:
            self._unsaved_batches = 0
            value = self._producers.to_value() | {"seen_offset": self._next_offset}
            text = json.dumps(value, separators=(",", ":"))
            self._log.put(
                PRODUCERS_SPACE, partition_key(self.log_partition), text.encode()
            )

    def _read_marker(self, offset: LogOffset) -> Marker | None:
        try:
            [data, *_] = self._log.read(self.log_partition, offset, 1)
            return decode_marker(decode_records(data)[0])
        except (MalformedFrame, LookupError, ValueError) as error:
            raise LogCorrupt(
                f"{self.name.topic}-{self.name.partition}: the transaction marker at "
                f"offset {offset} cannot be decoded: {error}"
            ) from None

    def _read_headers(
        self, producers: ProducerState, headers: Iterable[BatchHeader]
    ) -> None:
        for header in headers:
            if header.producer_id >= 0 and header.is_control:
                marker = self._read_marker(header.base_offset)
                producers.record_marker(
                    header.producer_id,
                    header.producer_epoch,
                    committed=marker is not None and marker.commit,
                    location=_location(header),
                )
            elif header.producer_id >= 0:
                batch = ProducerBatch(
                    header.producer_id,
                    header.producer_epoch,
                    header.base_sequence,
                    header.last_sequence,
                    header.is_transactional,
                )
                producers.record_append(batch, _location(header))
            self._advance(header)


def base_offset_of(batch: bytes) -> LogOffset:
    """Return a batch's base offset without decoding its header."""
    return int.from_bytes(batch[:8], "big")


def _location(header: BatchHeader) -> BatchLocation:
    return BatchLocation(
        header.base_offset, header.last_offset, header.max_timestamp_ms
    )


class Poll:
    """A fetch that waits for bytes; `finished` is called once."""

    def __init__(
        self,
        partitions: Sequence[Partition],
        *,
        missing_bytes: int,
        committed: bool,
        finished: Callable[[], None],
    ) -> None:
        self._partitions = partitions
        self._missing_bytes = missing_bytes
        self._finished = finished
        self._stable_offsets = (
            {partition: partition.last_stable_offset() for partition in partitions}
            if committed
            else None
        )
        self._is_finished = False

    def start(self, scheduler: Scheduler, wait_ms: int) -> None:
        """Wait for new bytes in the partitions, for at most `wait_ms`."""
        assert self._missing_bytes > 0
        assert not self._is_finished
        for partition in self._partitions:
            partition.polls.add(self)
        self._timer = scheduler.call_later(wait_ms / 1000, self.finish)

    def add_bytes(self, partition: Partition, size_bytes: int) -> None:
        """Count bytes that became durable; finish when `missing_bytes` have arrived.

        With read_committed the last stable offset has to advance too, as no record
        after it can be returned.
        """
        assert size_bytes > 0
        self._missing_bytes -= size_bytes
        if self._missing_bytes > 0:
            return
        if self._stable_offsets is None or (
            partition.last_stable_offset() > self._stable_offsets[partition]
        ):
            self.finish()

    def finish(self) -> None:
        """Stop waiting and complete the fetch."""
        if self._is_finished:
            return
        self._is_finished = True
        self._timer.cancel()
        for partition in self._partitions:
            partition.polls.discard(self)
        self._finished()
