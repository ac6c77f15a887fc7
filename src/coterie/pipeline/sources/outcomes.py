"""What became of transactions: which batches of them count, and up to where that is
decided.

Headers tell nearly all of it. A batch of a transaction whose checksum is wrong is
passed over, as its header may be what is wrong.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from coterie.errors import LogError, MalformedFrame
from coterie.pipeline.segments.transactions import Ended, Transactions
from coterie.wire.record_batch import (
    BatchHeader,
    LogRecord,
    crc_matches,
    decode_records,
    read_header,
)

Followed = tuple[BatchHeader, LogRecord | None]


def follow_one(batch: bytes | memoryview) -> Followed | None:
    """What `Transactions` wants to know of a transactional batch; None when its
    checksum is wrong."""
    if not crc_matches(batch):
        return None
    header = read_header(batch)
    if not header.is_control:
        return header, None
    try:
        return header, next(iter(decode_records(bytes(batch), header)), None)
    except MalformedFrame:
        return header, None


def stable_offset(transactions: Transactions, end_offset: int) -> int:
    """Up to where the log is decided: Kafka's last stable offset."""
    return min(transactions.open.values(), default=end_offset)


class Outcomes:
    """Answers for transactional batches, asked in log order. Looks ahead for markers
    as far as it must, and no batch is looked at twice."""

    def __init__(self, ahead: Iterator[list[Followed]]) -> None:
        """`ahead`: transactional batches, from the first that is asked about on."""
        self._ahead = ahead
        self._transactions = Transactions()
        self._ended: dict[int, deque[Ended]] = {}

    def of(self, header: BatchHeader) -> str | None:
        """What became of it: "committed" or "aborted"; None for a marker, or a batch of
        no transaction.

        Raises LogError when the transaction has not ended.
        """
        if header.is_control or not header.is_transactional:
            return None
        ended = self._ended.setdefault(header.producer_id, deque())
        while True:
            while ended and ended[0].marker_offset < header.base_offset:
                ended.popleft()
            if ended:
                return "committed" if ended[0].is_committed else "aborted"
            self._look_ahead(header)

    def _look_ahead(self, header: BatchHeader) -> None:
        batches = next(self._ahead, None)
        if batches is None:
            raise LogError(
                f"the transaction of producer {header.producer_id} at offset"
                f" {header.base_offset} has not ended: read up to the stable offset"
            )
        self._transactions, ended = self._transactions.follow(batches)
        for each in ended:
            self._ended.setdefault(each.producer_id, deque()).append(each)
