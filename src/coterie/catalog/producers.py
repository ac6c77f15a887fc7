"""What a partition remembers of its producers: sequences, epochs, open transactions.

It decides whether a batch of an idempotent or transactional producer is new, repeated
or wrong, and how far readers of committed records may read. Rebuilt from the batches of
the log after a restart: `written` and `ended` are called in log order, always.
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

REMEMBERED_BATCHES: Final = 5
"""A producer may have that many requests in flight and repeat any of them."""
_SEQUENCE_MAX: Final = 2**31 - 1


class ProducerBatch(NamedTuple):
    """A batch by what its producer says of it. A sequence is -1 where the broker itself
    writes on a producer's behalf, as it does with transactional offset commits."""

    producer_id: ProducerId
    producer_epoch: int
    first_sequence: int
    last_sequence: int
    is_transactional: bool


class Written(NamedTuple):
    """Where a batch lies in the log and when it came."""

    base_offset: LogOffset
    last_offset: LogOffset
    timestamp_ms: int


class _Remembered(NamedTuple):
    first_sequence: int
    last_sequence: int
    where: Written


@dataclass(slots=True)
class Producer:
    """One producer in one partition. `open_offset` is where its open transaction
    begins, None when it has none here."""

    epoch: int
    timestamp_ms: int
    batches: deque[_Remembered] = field(
        default_factory=lambda: deque(maxlen=REMEMBERED_BATCHES)
    )
    open_offset: LogOffset | None = None


class AbortedTransaction(NamedTuple):
    """A producer's batches from `first_offset` to its ABORT marker do not count."""

    producer_id: ProducerId
    first_offset: LogOffset
    marker_offset: LogOffset


class Producers:
    """The producers of one partition."""

    def __init__(self) -> None:
        self._by_id: dict[ProducerId, Producer] = {}
        self._open: dict[ProducerId, LogOffset] = {}
        self._ended: deque[AbortedTransaction] = deque()
        self._aborted: list[AbortedTransaction] = []

    def __iter__(self) -> Iterator[tuple[ProducerId, Producer]]:
        return iter(self._by_id.items())

    # Snapshots.

    def to_value(self) -> dict[str, Any]:
        """All of it, as JSON can hold it."""
        return {
            "producers": [
                [
                    producer_id,
                    known.epoch,
                    known.timestamp_ms,
                    known.open_offset,
                    [(*batch[:2], *batch.where) for batch in known.batches],
                ]
                for producer_id, known in self._by_id.items()
            ],
            "aborted": self._aborted,
        }

    @classmethod
    def from_value(cls, value: Mapping[str, Any]) -> Producers:
        """What `to_value` gave; all of it counts as flushed."""
        made = cls()
        for producer_id, epoch, timestamp_ms, open_offset, batches in value[
            "producers"
        ]:
            known = Producer(epoch, timestamp_ms, open_offset=open_offset)
            known.batches.extend(
                _Remembered(first, last, Written(*where))
                for first, last, *where in batches
            )
            made._by_id[producer_id] = known
        still_open = [
            (known.open_offset, producer_id)
            for producer_id, known in made._by_id.items()
            if known.open_offset is not None
        ]
        made._open = {producer_id: offset for offset, producer_id in sorted(still_open)}
        made._aborted = [AbortedTransaction(*found) for found in value["aborted"]]
        return made

    def has_open(self, producer_id: ProducerId) -> bool:
        """Whether the producer has a transaction open in this partition."""
        return producer_id in self._open

    # Writing.

    def check(self, batch: ProducerBatch) -> Written | None:
        """Whether a batch may be written now: None if so; where it already lies if it
        is a repetition.

        Raises ApiError INVALID_PRODUCER_EPOCH, OUT_OF_ORDER_SEQUENCE_NUMBER or
        INVALID_TXN_STATE. A producer this partition does not know may begin with any
        sequence, since retention may have dropped what it wrote before.
        """
        known = self._by_id.get(batch.producer_id)
        if known is None:
            return None
        if batch.producer_epoch < known.epoch:
            raise ApiError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"Epoch of producer {batch.producer_id} is {batch.producer_epoch}, "
                f"which is smaller than the last seen epoch {known.epoch}",
            )
        if batch.first_sequence >= 0:
            repeated = _find_repeated(known, batch)
            if repeated is not None:
                return repeated
            _check_sequence(known, batch)
        if known.open_offset is not None and not batch.is_transactional:
            raise ApiError(
                ErrorCode.INVALID_TXN_STATE,
                f"Expected transactional write from producer {batch.producer_id}",
            )
        return None

    def written(self, batch: ProducerBatch, where: Written) -> None:
        """A batch has been appended."""
        known = self._by_id.get(batch.producer_id)
        if known is None:
            known = Producer(batch.producer_epoch, where.timestamp_ms)
            self._by_id[batch.producer_id] = known
        if batch.producer_epoch != known.epoch:
            known.epoch = batch.producer_epoch
            known.batches.clear()
        known.timestamp_ms = where.timestamp_ms
        if batch.first_sequence >= 0:
            known.batches.append(
                _Remembered(batch.first_sequence, batch.last_sequence, where)
            )
        if batch.is_transactional and known.open_offset is None:
            known.open_offset = where.base_offset
            self._open[batch.producer_id] = where.base_offset

    def ended(
        self, producer_id: ProducerId, epoch: int, *, committed: bool, where: Written
    ) -> None:
        """An end-of-transaction marker has been appended."""
        known = self._by_id.get(producer_id)
        if known is None:
            known = self._by_id[producer_id] = Producer(epoch, where.timestamp_ms)
        if epoch != known.epoch:
            known.epoch = epoch
            known.batches.clear()
        known.timestamp_ms = where.timestamp_ms
        known.open_offset = None
        first_offset = self._open.pop(producer_id, None)
        if first_offset is None:
            return
        ended = AbortedTransaction(producer_id, first_offset, where.base_offset)
        self._ended.append(ended)
        if not committed:
            self._aborted.append(ended)

    def expire(self, before_ms: int) -> None:
        """Forget the producers without an open transaction and silent since then."""
        for producer_id, known in list(self._by_id.items()):
            if known.open_offset is None and known.timestamp_ms < before_ms:
                del self._by_id[producer_id]

    # Reading.

    def last_stable_offset(self, flushed_offset: LogOffset) -> LogOffset:
        """The first offset whose fate is open, at most `flushed_offset`.

        A transaction whose marker is not flushed yet is still open to readers.
        """
        while self._ended and self._ended[0].marker_offset < flushed_offset:
            self._ended.popleft()
        stable = flushed_offset
        if self._open:
            stable = min(stable, next(iter(self._open.values())))
        for ended in self._ended:
            stable = min(stable, ended.first_offset)
        return stable

    def aborted(
        self, offset: LogOffset, before: LogOffset
    ) -> tuple[AbortedTransaction, ...]:
        """The aborted transactions with batches from `offset` on and before `before`,
        by the offset of their markers."""
        at = bisect_left(self._aborted, offset, key=lambda found: found.marker_offset)
        return tuple(
            found for found in self._aborted[at:] if found.first_offset < before
        )

    def truncate(self, before: LogOffset) -> None:
        """The log now starts at `before`."""
        at = bisect_left(self._aborted, before, key=lambda found: found.marker_offset)
        del self._aborted[:at]


def _find_repeated(known: Producer, batch: ProducerBatch) -> Written | None:
    if batch.producer_epoch != known.epoch:
        return None
    for remembered in known.batches:
        if (
            remembered.first_sequence == batch.first_sequence
            and remembered.last_sequence == batch.last_sequence
        ):
            return remembered.where
    return None


def _check_sequence(known: Producer, batch: ProducerBatch) -> None:
    if batch.producer_epoch != known.epoch:
        expected = 0
    elif known.batches:
        last = known.batches[-1].last_sequence
        expected = 0 if last == _SEQUENCE_MAX else last + 1
    else:
        # Only a marker, or the broker's own writes, are known of this epoch: Kafka
        # takes the last sequence for -1 then.
        expected = 0
    if batch.first_sequence != expected:
        raise ApiError(
            ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
            f"Out of order sequence number for producer {batch.producer_id}: "
            f"{batch.first_sequence} (incoming seq. number), {expected} expected",
        )
