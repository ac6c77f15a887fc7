"""The outcomes of transactions: committed and aborted batches, and the last stable
offset, up to which all outcomes are known (K-08, KIP-98).

A batch is committed when the next marker of its producer is a COMMIT. Headers are
sufficient, except for control batches, whose markers are decoded: thousands at a time,
because each transaction of a log has one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from enum import IntEnum
from typing import Final, NamedTuple

import numpy as np

from coterie.client.admin.fetch import AbortedTxn
from coterie.errors import LogError, MalformedFrame
from coterie.pipeline.segments.batches import BatchHeaders, Ints
from coterie.wire.record_batch import (
    ABORT_TYPE,
    COMMIT_TYPE,
    CONTROL,
    HEADER_BYTES,
    TRANSACTIONAL,
    BatchHeader,
    decode_marker,
    decode_records,
)


class BatchKind(IntEnum):
    """The content of a transactional batch. OTHER_MARKER is a malformed marker, one of
    an unknown type, or a control batch without a record, which compaction removed.
    """

    RECORDS = 0
    OTHER_MARKER = 1
    COMMIT = 2
    ABORT = 3


class TransactionBatch(NamedTuple):
    """A transactional batch."""

    base_offset: int
    last_offset: int
    producer_id: int
    kind: int
    """One of BatchKind."""


_MARKER: Final = bytes.fromhex("20 00 00 00 08 0000 0000 0c 0000 00000000 00")
"""The record of a marker, as all brokers write it: its size and attributes, the deltas
of time and offset, the key's size, version and type, the value's size, version and
coordinator epoch, and the number of headers."""
_FIXED: Final = [0, 2, 3, 4, 7, 9, 16]
"""The bytes of it that are equal in all markers of the known types."""
_TYPE_AT: Final = 8


def transaction_batches(data: bytes, headers: BatchHeaders) -> list[TransactionBatch]:
    """Return the transactional batches among batches with valid checksums."""
    own = headers.select(headers.has(TRANSACTIONAL))
    if not len(own):
        return []
    kinds = np.full(len(own), BatchKind.RECORDS.value)
    is_control = own.has(CONTROL)
    kinds[is_control] = _marker_kinds(data, own.select(is_control))
    columns = (own.base_offset, own.last_offset, own.column("producer_id"), kinds)
    rows = zip(*(each.tolist() for each in columns), strict=True)
    return list(map(TransactionBatch._make, rows))


def _marker_kinds(data: bytes, headers: BatchHeaders) -> Ints:
    kinds = np.full(len(headers), BatchKind.OTHER_MARKER.value)
    is_usual = headers.size_bytes == HEADER_BYTES + len(_MARKER)
    is_usual &= (headers.codec == 0) & (headers.column("record_count") == 1)
    usual = np.flatnonzero(is_usual)
    places = headers.position[usual, None] + HEADER_BYTES + np.arange(len(_MARKER))
    markers = np.frombuffer(data, np.uint8)[places]
    is_equal = (markers == np.frombuffer(_MARKER, np.uint8))[:, _FIXED].all(1)
    kind = np.full(len(usual), BatchKind.OTHER_MARKER.value)
    kind[markers[:, _TYPE_AT] == COMMIT_TYPE] = BatchKind.COMMIT
    kind[markers[:, _TYPE_AT] == ABORT_TYPE] = BatchKind.ABORT
    kinds[usual] = kind
    is_usual[usual] = is_equal
    for index in np.flatnonzero(~is_usual).tolist():
        begin, size = int(headers.position[index]), int(headers.size_bytes[index])
        kinds[index] = _marker_kind(data[begin : begin + size], headers.header(index))
    return kinds


def _marker_kind(batch: bytes, header: BatchHeader) -> BatchKind:
    try:
        record = next(iter(decode_records(batch, header)), None)
        marker = None if record is None else decode_marker(record)
    except MalformedFrame:
        marker = None
    if marker is None:
        return BatchKind.OTHER_MARKER
    return BatchKind.COMMIT if marker.commit else BatchKind.ABORT


class EndedTransaction(NamedTuple):
    """A transaction that ended: the producer's batches from `first_offset` to the
    marker are committed or aborted."""

    producer_id: int
    first_offset: int
    marker_offset: int
    is_committed: bool


class OpenTransactions:
    """The open transactions of a log, chunk by chunk."""

    def __init__(self) -> None:
        self.first_offsets: dict[int, int] = {}
        """The base offset of the first batch of each, by producer."""

    def add(self, batches: Iterable[TransactionBatch]) -> list[EndedTransaction]:
        """Add more batches in log order; return the transactions that they end. A
        malformed marker, or one of an unknown kind, ends no transaction.
        """
        still_open, ended = self.first_offsets, []
        for base_offset, _, producer, kind in batches:
            if kind == BatchKind.RECORDS:
                still_open.setdefault(producer, base_offset)
            elif kind != BatchKind.OTHER_MARKER and producer in still_open:
                first, is_commit = still_open.pop(producer), kind == BatchKind.COMMIT
                ended.append(EndedTransaction(producer, first, base_offset, is_commit))
        return ended


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
        """Add the transactional batches among batches with these base offsets and ends;
        `begin` is the end of the batch before them."""
        if not batches:
            return
        self._open.add(batches)
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

    def outcome(self, batch: TransactionBatch) -> str | None:
        """Return "committed" or "aborted"; None for a marker.

        Must be called in log order. Raises LogError when the transaction is open.
        """
        if batch.kind != BatchKind.RECORDS:
            return None
        ended = self._ended.setdefault(batch.producer_id, deque())
        while True:
            while ended and ended[0].marker_offset < batch.base_offset:
                ended.popleft()
            if ended:
                return "committed" if ended[0].is_committed else "aborted"
            if (batches := next(self._ahead, None)) is None:
                raise LogError(
                    f"the transaction of producer {batch.producer_id} at offset"
                    f" {batch.base_offset} has not ended: read up to the stable offset"
                )
            for each in self._open.add(batches):
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

    def outcome(self, batch: TransactionBatch) -> str | None:
        """Return "committed" or "aborted"; None for a marker.

        Must be called in log order.
        """
        while self._coming and self._coming[0].first_offset <= batch.last_offset:
            self._aborting.add(self._coming.popleft().producer_id)
        if batch.kind != BatchKind.RECORDS:
            self._aborting.discard(batch.producer_id)
            return None
        return "aborted" if batch.producer_id in self._aborting else "committed"
