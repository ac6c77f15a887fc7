"""One partition of the upstream cluster: a replicated log with producer state, as in
Kafka's `UnifiedLog` and `ProducerStateManager`. A batch that the leader has appended
becomes durable when it is replicated; until then a failover may lose it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from copy import deepcopy
from random import Random
from typing import Final, NamedTuple

from coterie.errors import ApiError
from coterie.types import LogOffset, ProducerId
from coterie.wire.error_codes import ErrorCode
from coterie.wire.record_batch import (
    HEADER_BYTES,
    INT32_MAX,
    BatchHeader,
    Producer,
    encode_marker,
    read_header,
    with_base_offset,
)
from sim.broken import Broken
from sim.gateway.cleaner import CleanerRun, LastRecord, Stored, clean

_DUPLICATES_KNOWN: Final = 5
"""Kafka's `ProducerStateEntry.NUM_BATCHES_TO_RETAIN`."""


class _Identity(NamedTuple):
    """A producer and its first sequence of a batch."""

    producer_id: ProducerId
    epoch: int
    sequence: int


def _identity(header: BatchHeader) -> _Identity:
    return _Identity(header.producer_id, header.producer_epoch, header.base_sequence)


class _Sequences(NamedTuple):
    first: int
    last: int
    base_offset: LogOffset


class _ProducerEntry:
    """What the partition knows about one producer id."""

    __slots__ = ("epoch", "last_ms", "recent", "transaction_start")

    def __init__(self, epoch: int, now_ms: int) -> None:
        self.epoch = epoch
        self.last_ms = now_ms
        self.recent: deque[_Sequences] = deque(maxlen=_DUPLICATES_KNOWN)
        self.transaction_start: LogOffset | None = None

    def last_record(self) -> LastRecord:
        """Return the end of its last batch, for the log cleaner."""
        if not self.recent:
            return LastRecord(None, self.epoch)
        first, last, base_offset = self.recent[-1]
        return LastRecord(base_offset + (last - first & INT32_MAX), self.epoch)


class Producers:
    """The producer state of one replica."""

    def __init__(self) -> None:
        self.entries: dict[ProducerId, _ProducerEntry] = {}

    def check(self, header: BatchHeader) -> LogOffset | None:
        """Check a client's batch; return the base offset of an earlier append of the
        same batch. Raise ApiError as `ProducerAppendInfo` does.
        """
        entry = self.entries.get(header.producer_id)
        if entry is None:
            return None  # without an entry any sequence is accepted
        sequences = header.base_sequence, header.last_sequence
        if header.producer_epoch == entry.epoch:
            for each in entry.recent:
                if (each.first, each.last) == sequences:
                    return each.base_offset
        if header.producer_epoch < entry.epoch:
            raise ApiError(ErrorCode.INVALID_PRODUCER_EPOCH)
        expected = 0
        if header.producer_epoch == entry.epoch and entry.recent:
            expected = (entry.recent[-1].last + 1) & INT32_MAX
        if header.base_sequence != expected:
            raise ApiError(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
        return None

    def apply(self, header: BatchHeader, now_ms: int) -> None:
        """Update the state after an append."""
        if header.producer_id < 0:
            return
        entry = self.entries.get(header.producer_id)
        if entry is None or entry.epoch != header.producer_epoch:
            start = None if entry is None else entry.transaction_start
            entry = _ProducerEntry(header.producer_epoch, now_ms)
            entry.transaction_start = start
            self.entries[header.producer_id] = entry
        entry.last_ms = now_ms
        if header.is_control:
            entry.transaction_start = None
            return
        sequences = (header.base_sequence, header.last_sequence, header.base_offset)
        entry.recent.append(_Sequences(*sequences))
        if header.is_transactional and entry.transaction_start is None:
            entry.transaction_start = header.base_offset

    def expire(self, before_ms: int) -> None:
        """Forget the producers that have not written since then."""
        for producer_id, entry in [*self.entries.items()]:
            if entry.last_ms < before_ms and entry.transaction_start is None:
                del self.entries[producer_id]


OrderOf = Callable[[BatchHeader], int | None]
"""A function from a batch to the order of the shard's owner that wrote it; None for
other producers."""


class UpstreamPartition:
    """The log of one partition; the leader's, as far as clients can tell."""

    def __init__(self, order_of: OrderOf = lambda header: None) -> None:
        self._order_of = order_of
        self.newest_durable = -1
        """The order of the newest owner of the shard that has a durable batch."""
        self.stored: list[Stored] = []
        self.end: LogOffset = 0
        self.high_watermark: LogOffset = 0
        self.fetch_limit: LogOffset = 0
        """The high watermark that a new leader knows: it may lag behind at first."""
        self.producers = Producers()
        self._durable_producers = Producers()
        self._appended_ms: dict[LogOffset, int] = {}
        self._growth_listeners: list[Callable[[], None]] = []
        self._contents: dict[tuple[int, int, int, bytes], _Identity] = {}
        """All batches of owners, by producer, time and records."""
        self._failed: dict[_Identity, int] = {}
        """The batches that were not acknowledged, with their order."""
        self._sent_after: dict[_Identity, int] = {}
        """The number of such batches when a batch was sent for the first time."""

    def append(self, batch: bytes, now_ms: int) -> LogOffset:
        """Append a client's batch; return its base offset, or that of its first append.

        Raise ApiError for a refusal by producer state.
        """
        header = read_header(batch)
        if header.producer_id >= 0:
            known = self.producers.check(header)
            if known is not None:
                return known
            if not header.is_transactional:
                self._check_repetition(header, batch)
        return self._store(batch, now_ms)

    def sent(self, batch: bytes) -> None:
        """Note that a client sends a batch."""
        self._sent_after.setdefault(_identity(read_header(batch)), len(self._failed))

    def failed(self, batch: bytes) -> None:
        """Note that a client got no acknowledgement of a batch."""
        self._failed.setdefault(_identity(read_header(batch)), len(self._failed))

    def _check_repetition(self, header: BatchHeader, batch: bytes) -> None:
        """Raise Broken when a producer writes records with other sequences after it got
        no acknowledgement of them. Repeated requests of clients can write the same
        records twice, but not for that reason.
        """
        identity = _identity(header)
        content = *identity[:2], header.base_timestamp_ms, batch[HEADER_BYTES:]
        first = self._contents.setdefault(content, identity)
        failed_at = self._failed.get(first)
        if first == identity or failed_at is None:
            return
        if failed_at < self._sent_after.get(identity, 0):
            raise Broken(f"{first} is written again as {identity}")

    def append_marker(self, producer: Producer, now_ms: int, *, commit: bool) -> None:
        """Append the marker that ends a producer's transaction."""
        marker = encode_marker(
            self.end,
            now_ms,
            producer.producer_id,
            producer.producer_epoch,
            commit=commit,
        )
        self._store(marker, now_ms)

    def has_marker(self, offset: LogOffset, producer: Producer) -> bool:
        """Return whether a producer's marker is at an offset."""
        return any(
            header.is_control
            and header.base_offset == offset
            and header.producer_id == producer.producer_id
            and header.producer_epoch == producer.producer_epoch
            for header, _ in self._range(offset, self.end)
        )

    def has_transaction(self, producer_id: ProducerId, producer_epoch: int) -> bool:
        """Return whether a producer's transaction is open in the partition."""
        entry = self.producers.entries.get(producer_id)
        return (
            entry is not None
            and entry.epoch == producer_epoch
            and entry.transaction_start is not None
        )

    def _store(self, batch: bytes, now_ms: int) -> LogOffset:
        base_offset = self.end
        batch = with_base_offset(batch, base_offset)
        header = read_header(batch)
        self.stored.append(Stored(header, batch))
        self.end = header.last_offset + 1
        self.producers.apply(header, now_ms)
        self._appended_ms[base_offset] = now_ms
        return base_offset

    def replicate(self, end: LogOffset) -> None:
        """Advance the high watermark to `end`, as far as the log still reaches."""
        end = min(end, self.end)
        if end <= self.high_watermark:
            return
        for header, _ in self._range(self.high_watermark, end):
            self._durable_producers.apply(header, self._appended_ms[header.base_offset])
            order = self._order_of(header)
            if order is not None:
                self.newest_durable = max(self.newest_durable, order)
        self.high_watermark = end
        self.fetch_limit = end
        listeners, self._growth_listeners = self._growth_listeners, []
        for listener in listeners:
            listener()

    def when_grown(self, listener: Callable[[], None]) -> None:
        """Call `listener` once, when the high watermark advances."""
        self._growth_listeners.append(listener)

    def fail_over(self, rng: Random) -> None:
        """Elect another leader. It has every durable batch, some of the others, and may
        know an older high watermark at first.
        """
        ends = [self.high_watermark]
        ends += [
            header.last_offset + 1
            for header, _ in self._range(self.high_watermark, self.end)
        ]
        self.end = rng.choice(ends)
        self.stored = [
            each for each in self.stored if each.header.last_offset < self.end
        ]
        self.producers = deepcopy(self._durable_producers)
        for header, _ in self._range(self.high_watermark, self.end):
            self.producers.apply(header, self._appended_ms[header.base_offset])
        starts = [header.base_offset for header, _ in self.stored[-4:]]
        self.fetch_limit = rng.choice([self.high_watermark, *starts])
        self.fetch_limit = min(self.fetch_limit, self.high_watermark)

    def catch_up(self) -> None:
        """Learn the high watermark after a failover."""
        self.fetch_limit = self.high_watermark

    def expire_producers(self, before_ms: int) -> None:
        """Forget the producers that have not written since then."""
        self.producers.expire(before_ms)
        self._durable_producers.expire(before_ms)

    def read(self, offset: LogOffset, bytes_max: int) -> bytes:
        """Return whole batches from `offset` on: at least one, if there is any."""
        parts: list[bytes] = []
        size = 0
        for _, batch in self._range(offset, self.fetch_limit):
            if parts and size + len(batch) > bytes_max:
                break
            parts.append(batch)
            size += len(batch)
        return b"".join(parts)

    def durable(self) -> Iterator[Stored]:
        """Yield the batches that no failover can lose."""
        return self._range(0, self.high_watermark)

    def _range(self, start: LogOffset, end: LogOffset) -> Iterator[Stored]:
        at = len(self.stored)
        while at and self.stored[at - 1].header.last_offset >= start:
            at -= 1
        for each in self.stored[at:]:
            if each.header.last_offset >= end:
                return
            yield each

    # Compaction.

    @property
    def stable_end(self) -> LogOffset:
        """The last stable offset: the first open transaction's, or the high watermark.
        The cleaner stops there."""
        starts = [
            entry.transaction_start
            for entry in self._durable_producers.entries.values()
            if entry.transaction_start is not None
        ]
        return min([self.high_watermark, *starts])

    def last_records(self) -> dict[ProducerId, LastRecord]:
        """Return the last record of each active producer."""
        return {
            producer_id: entry.last_record()
            for producer_id, entry in self.producers.entries.items()
        }

    def compact(self, run: CleanerRun) -> None:
        """Run the log cleaner, as far as the last stable offset."""
        durable = [*self.durable()]
        run = run._replace(until=min(run.until, self.stable_end))
        left = clean(durable, run, self.last_records())
        self.stored = left + self.stored[len(durable) :]
