"""The producers of a partition: sequences, epochs and open transactions.

`ProducerState` decides whether a batch of an idempotent or transactional producer is
new, a duplicate or invalid, and computes the last stable offset (Kafka's
ProducerStateManager). It is rebuilt from the batches of the log after a restart:
`record_append` and `record_marker` are always called in log order.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from coterie.errors import ApiError
from coterie.types import LogOffset, ProducerId
from coterie.wire.error_codes import ErrorCode

CACHED_BATCHES: Final = 5
"""Duplicates of that many batches are recognized: a producer has at most five requests
in flight."""
PRODUCERS_MAX: Final = 100_000
"""The number of producers from which on a partition removes the oldest tenth. A removed
producer may continue with any sequence, as after `producer.id.expiration.ms`."""
NO_EPOCH: Final = -1
"""The epoch of a producer id without an entry. Batches may have it, and after them no
sequence is checked, as in Kafka."""
_SEQUENCE_MAX: Final = 2**31 - 1


class ProducerBatch(NamedTuple):
    """The producer fields of a batch. The sequences are -1 in batches that the broker
    writes for a producer: transactional offset commits."""

    producer_id: ProducerId
    producer_epoch: int
    first_sequence: int
    last_sequence: int
    is_transactional: bool


class BatchLocation(NamedTuple):
    """The offsets of a batch in the log, and the greatest timestamp of its records."""

    base_offset: LogOffset
    last_offset: LogOffset
    timestamp_ms: int


class _CachedBatch(NamedTuple):
    first_sequence: int
    last_sequence: int
    location: BatchLocation


@dataclass(slots=True)
class ProducerStateEntry:
    """The state of one producer in one partition. `open_offset` is the first offset of
    its open transaction, or None."""

    epoch: int
    timestamp_ms: int
    batches: deque[_CachedBatch] = field(
        default_factory=lambda: deque(maxlen=CACHED_BATCHES)
    )
    open_offset: LogOffset | None = None


class AbortedTransaction(NamedTuple):
    """An aborted transaction: a producer's batches from `first_offset` to its ABORT
    marker."""

    producer_id: ProducerId
    first_offset: LogOffset
    marker_offset: LogOffset


class ProducerState:
    """The producers of one partition."""

    def __init__(self) -> None:
        self._by_id: dict[ProducerId, ProducerStateEntry] = {}
        self._removal_size = PRODUCERS_MAX
        self._open: dict[ProducerId, LogOffset] = {}
        self._ended: deque[AbortedTransaction] = deque()
        self._aborted: list[AbortedTransaction] = []

    def __iter__(self) -> Iterator[tuple[ProducerId, ProducerStateEntry]]:
        return iter(self._by_id.items())

    # Snapshots.

    def to_value(self) -> dict[str, Any]:
        """Return the state as a JSON value, for a snapshot."""
        return {
            "producers": [
                [
                    producer_id,
                    entry.epoch,
                    entry.timestamp_ms,
                    entry.open_offset,
                    [(*batch[:2], *batch.location) for batch in entry.batches],
                ]
                for producer_id, entry in self._by_id.items()
            ],
            "aborted": self._aborted,
        }

    @classmethod
    def from_value(cls, value: Mapping[str, Any]) -> ProducerState:
        """Decode a state from a snapshot's value; all of its batches count as
        flushed."""
        made = cls()
        for producer_id, epoch, timestamp_ms, open_offset, batches in value[
            "producers"
        ]:
            entry = ProducerStateEntry(epoch, timestamp_ms, open_offset=open_offset)
            entry.batches.extend(
                _CachedBatch(first, last, BatchLocation(*location))
                for first, last, *location in batches
            )
            made._by_id[producer_id] = entry
        still_open = [
            (entry.open_offset, producer_id)
            for producer_id, entry in made._by_id.items()
            if entry.open_offset is not None
        ]
        made._open = {producer_id: offset for offset, producer_id in sorted(still_open)}
        made._aborted = [AbortedTransaction(*each) for each in value["aborted"]]
        return made

    # Writing.

    def check_append(self, batch: ProducerBatch) -> BatchLocation | None:
        """Return None for a new batch, or the location of the batch that it duplicates.

        Raises ApiError INVALID_PRODUCER_EPOCH, OUT_OF_ORDER_SEQUENCE_NUMBER or
        INVALID_TXN_STATE. A producer without an entry may begin with any sequence,
        since retention may have dropped its earlier batches.
        """
        entry = self._by_id.get(batch.producer_id)
        epoch = NO_EPOCH if entry is None else entry.epoch
        if batch.producer_epoch < epoch:
            raise ApiError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"Epoch of producer {batch.producer_id} is {batch.producer_epoch}, "
                f"which is smaller than the last seen epoch {epoch}",
            )
        if entry is None:
            return None
        if batch.first_sequence >= 0:
            duplicate = _find_duplicate(entry, batch)
            if duplicate is not None:
                return duplicate
            if epoch != NO_EPOCH:
                _check_sequence(entry, batch)
        if entry.open_offset is not None and not batch.is_transactional:
            raise ApiError(
                ErrorCode.INVALID_TXN_STATE,
                f"Expected transactional write from producer {batch.producer_id}",
            )
        return None

    def record_append(self, batch: ProducerBatch, location: BatchLocation) -> None:
        """Update the producer's entry after an append of its batch."""
        entry = self._by_id.get(batch.producer_id)
        if entry is None:
            if len(self._by_id) >= self._removal_size:
                self._remove_oldest()
            entry = ProducerStateEntry(batch.producer_epoch, location.timestamp_ms)
            self._by_id[batch.producer_id] = entry
        if batch.producer_epoch != entry.epoch:
            entry.epoch = batch.producer_epoch
            entry.batches.clear()
        entry.timestamp_ms = location.timestamp_ms
        if batch.first_sequence >= 0:
            entry.batches.append(
                _CachedBatch(batch.first_sequence, batch.last_sequence, location)
            )
        if batch.is_transactional and entry.open_offset is None:
            entry.open_offset = location.base_offset
            self._open[batch.producer_id] = location.base_offset

    def record_marker(
        self,
        producer_id: ProducerId,
        epoch: int,
        *,
        committed: bool,
        location: BatchLocation,
    ) -> None:
        """Update the producer's entry after an append of a transaction marker."""
        entry = self._by_id.get(producer_id)
        if entry is None:
            entry = self._by_id[producer_id] = ProducerStateEntry(
                epoch, location.timestamp_ms
            )
        if epoch != entry.epoch:
            entry.epoch = epoch
            entry.batches.clear()
        entry.timestamp_ms = location.timestamp_ms
        entry.open_offset = None
        first_offset = self._open.pop(producer_id, None)
        if first_offset is None:
            return
        ended = AbortedTransaction(producer_id, first_offset, location.base_offset)
        self._ended.append(ended)
        if not committed:
            self._aborted.append(ended)

    def remove_expired(self, before_ms: int) -> None:
        """Remove producers without an open transaction whose last append was before
        `before_ms`."""
        for producer_id, entry in list(self._by_id.items()):
            if entry.open_offset is None and entry.timestamp_ms < before_ms:
                del self._by_id[producer_id]

    def _remove_oldest(self) -> None:
        """Remove a tenth of the producers: those with the oldest appends, except those
        with an open transaction."""
        idle = [
            (entry.timestamp_ms, producer_id)
            for producer_id, entry in self._by_id.items()
            if entry.open_offset is None
        ]
        for _, producer_id in sorted(idle)[: len(self._by_id) // 10]:
            del self._by_id[producer_id]
        # The producers with open transactions may be more than the limit.
        self._removal_size = max(PRODUCERS_MAX, len(self._by_id) * 11 // 10)

    # Reading.

    def last_stable_offset(self, flushed_offset: LogOffset) -> LogOffset:
        """Return the first offset of the earliest open transaction, or
        `flushed_offset`.

        A transaction whose marker is not flushed yet counts as open.
        """
        while self._ended and self._ended[0].marker_offset < flushed_offset:
            self._ended.popleft()
        stable = flushed_offset
        if self._open:
            stable = min(stable, next(iter(self._open.values())))
        for ended in self._ended:
            stable = min(stable, ended.first_offset)
        return stable

    def aborted_transactions(
        self, offset: LogOffset, before: LogOffset
    ) -> tuple[AbortedTransaction, ...]:
        """Return the aborted transactions that overlap [`offset`, `before`), in order
        of their markers."""
        at = bisect_left(
            self._aborted, offset, key=lambda transaction: transaction.marker_offset
        )
        return tuple(
            transaction
            for transaction in self._aborted[at:]
            if transaction.first_offset < before
        )

    def truncate(self, before: LogOffset) -> None:
        """Drop aborted transactions below the log start offset `before`."""
        at = bisect_left(
            self._aborted, before, key=lambda transaction: transaction.marker_offset
        )
        del self._aborted[:at]


def _find_duplicate(
    entry: ProducerStateEntry, batch: ProducerBatch
) -> BatchLocation | None:
    if batch.producer_epoch != entry.epoch:
        return None
    for cached in entry.batches:
        if (
            cached.first_sequence == batch.first_sequence
            and cached.last_sequence == batch.last_sequence
        ):
            return cached.location
    return None


def _check_sequence(entry: ProducerStateEntry, batch: ProducerBatch) -> None:
    if batch.producer_epoch != entry.epoch:
        expected = 0
    elif entry.batches:
        last = entry.batches[-1].last_sequence
        expected = 0 if last == _SEQUENCE_MAX else last + 1
    else:
        # This epoch has only markers or batches written by the broker: as in Kafka, the
        # last sequence then counts as -1.
        expected = 0
    if batch.first_sequence != expected:
        raise ApiError(
            ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
            f"Out of order sequence number for producer {batch.producer_id}: "
            f"{batch.first_sequence} (incoming seq. number), {expected} expected",
        )
