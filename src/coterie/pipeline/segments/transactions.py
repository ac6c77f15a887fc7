"""The outcomes of transactions: committed and aborted batches, and the last stable
offset, up to which all outcomes are known (K-08, KIP-98).

A batch is committed when the next marker of its producer is a COMMIT. Headers are
sufficient, except for control batches, whose markers are decoded.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from coterie.client.admin.fetch import AbortedTxn
from coterie.errors import LogError, MalformedFrame
from coterie.pipeline.segments.batches import Ints
from coterie.wire.record_batch import (
    BatchHeader,
    LogRecord,
    crc_matches,
    decode_marker,
    decode_records,
    read_header,
)

TransactionBatch = tuple[BatchHeader, LogRecord | None]
"""The header of a transactional batch, and the record of a control batch; None when it
is not a control batch, or compaction left no record in it."""


def read_transaction_batch(batch: bytes | memoryview) -> TransactionBatch | None:
    """Read a transactional batch; None when its checksum is wrong, as the header may be
    corrupt.
    """
    if not crc_matches(batch):
        return None
    header = read_header(batch)
    if not header.is_control:
        return header, None
    try:
        return header, next(iter(decode_records(bytes(batch), header)), None)
    except MalformedFrame:
        return header, None


class EndedTransaction(NamedTuple):
    """A transaction that ended: the producer's batches from `first_offset` to the
    marker are committed or aborted."""

    producer_id: int
    first_offset: int
    marker_offset: int
    is_committed: bool


@dataclass(frozen=True, slots=True)
class OpenTransactions:
    """The open transactions, by producer: the base offset of the first batch of
    each.
    """

    first_offsets: Mapping[int, int] = field(default_factory=dict)

    def apply(
        self, batches: Iterable[TransactionBatch]
    ) -> tuple[OpenTransactions, tuple[EndedTransaction, ...]]:
        """Apply more batches in log order; return the new state, and the transactions
        that ended in these batches. A malformed marker, or one of an unknown kind, ends
        no transaction.
        """
        still_open, ended = dict(self.first_offsets), []
        for header, record in batches:
            if not header.is_transactional:
                continue
            producer = header.producer_id
            if not header.is_control:
                still_open.setdefault(producer, header.base_offset)
                continue
            is_committed = _is_commit(record)
            if is_committed is not None and producer in still_open:
                first = still_open.pop(producer)
                ended.append(
                    EndedTransaction(producer, first, header.base_offset, is_committed)
                )
        return OpenTransactions(still_open), tuple(ended)


def _is_commit(record: LogRecord | None) -> bool | None:
    if record is None:
        return None
    try:
        marker = decode_marker(record)
    except MalformedFrame:
        return None
    return None if marker is None else marker.commit


class StableOffset:
    """The last stable offset of a log partition, updated chunk by chunk: the end of the
    batch before the first open transaction."""

    def __init__(self) -> None:
        self._open = OpenTransactions()
        self._ends_before: dict[int, int] = {}
        """The end of the previous batch, by the first offset of each open transaction.
        """

    def add(
        self, batches: Sequence[TransactionBatch], bases: Ints, ends: Ints, begin: int
    ) -> None:
        """Apply the transactional batches among batches with these base offsets and
        ends; `begin` is the end of the batch before them."""
        if not batches:
            return
        self._open, _ = self._open.apply(batches)
        known, self._ends_before = self._ends_before, {}
        for first in self._open.first_offsets.values():
            index = int(np.searchsorted(bases, first))
            before = int(ends[index - 1]) if index else begin
            self._ends_before[first] = known.get(first, before)

    def get(self, end_offset: int) -> int:
        """Return the last stable offset; `end_offset` when no transaction is open."""
        return min(self._ends_before.values(), default=end_offset)


class MarkerOutcomes:
    """The outcomes of transactional batches by the markers that follow them in the log.
    Later batches are read ahead as far as necessary, each batch once.
    """

    def __init__(self, ahead: Iterator[list[TransactionBatch]]) -> None:
        """Take `ahead`, the transactional batches from the first requested one on."""
        self._ahead = ahead
        self._open = OpenTransactions()
        self._ended: dict[int, deque[EndedTransaction]] = {}

    def outcome(self, header: BatchHeader) -> str | None:
        """Return "committed" or "aborted"; None for a marker, or outside transactions.

        Must be called in log order. Raises LogError when the transaction is open.
        """
        if header.is_control or not header.is_transactional:
            return None
        ended = self._ended.setdefault(header.producer_id, deque())
        while True:
            while ended and ended[0].marker_offset < header.base_offset:
                ended.popleft()
            if ended:
                return "committed" if ended[0].is_committed else "aborted"
            if (batches := next(self._ahead, None)) is None:
                raise LogError(
                    f"the transaction of producer {header.producer_id} at offset"
                    f" {header.base_offset} has not ended: read up to the stable offset"
                )
            self._open, more = self._open.apply(batches)
            for each in more:
                self._ended.setdefault(each.producer_id, deque()).append(each)


class FetchedOutcomes:
    """The outcomes of transactional batches by the aborted transactions that a broker
    lists in its Fetch response. All others are committed, because only batches below
    the last stable offset are fetched.
    """

    def __init__(self) -> None:
        self._coming: deque[AbortedTxn] = deque()
        self._aborting: set[int] = set()

    def set_aborted(self, aborted: Iterable[AbortedTxn]) -> None:
        """Set the aborted transactions of the next response's batches."""
        self._coming = deque(sorted(aborted, key=lambda each: each.first_offset))
        self._aborting = set()

    def outcome(self, header: BatchHeader) -> str | None:
        """Return "committed" or "aborted"; None for a marker, or outside transactions.

        Must be called in log order.
        """
        while self._coming and self._coming[0].first_offset <= header.last_offset:
            self._aborting.add(self._coming.popleft().producer_id)
        if not header.is_transactional:
            return None
        if header.is_control:
            self._aborting.discard(header.producer_id)
            return None
        return "aborted" if header.producer_id in self._aborting else "committed"
