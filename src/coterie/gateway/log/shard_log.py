"""The log of one shard: staged batches of one partition of the upstream topic.

Its offsets are places in the order of the batches that the owner of the shard writes.
They begin at the end of the loaded log, so they are above the offset of everything that
was loaded, and they are not upstream's: transaction coordinators write markers between
the batches. State compares the places of two commits, and needs nothing else of them.
"""

from __future__ import annotations

from coterie.broker import (
    Append,
    Log,
    LogPartition,
    StagedWrite,
    StoredPartition,
)
from coterie.types import LogOffset
from coterie.wire.record_batch import BatchHeader


class ShardLog(Log):
    """The log of one shard, written by a `ShardWriter`. It holds nothing that is
    durable: loading fetches from the upstream cluster."""

    def __init__(self, log_partition: LogPartition) -> None:
        super().__init__()
        self.log_partition = log_partition
        self._load_part(StoredPartition(log_partition, 0))
        self._part = self._parts[log_partition]
        self._part.size_bytes = 0

    def reset(self, end: LogOffset) -> None:
        """Start at the end of the loaded log, with nothing staged."""
        self._operations.clear()
        self._opened.clear()
        self._staged_bytes = 0
        part = self._part
        part.open_batch = None
        part.flushed_offset = part.next_offset = end

    def append(
        self, partition: LogPartition, batch: bytes, header: BatchHeader | None = None
    ) -> None:
        # Transactions have the producer of their application: see
        # `ShardWriter.produce_transactional`.
        assert header is None or header.producer_id < 0
        super().append(partition, batch, header)

    def settle(self, staged: StagedWrite) -> None:
        for operation in staged.operations:
            assert isinstance(operation, Append)
            header = operation.header
            assert header.base_offset >= self._part.flushed_offset
            self._part.flushed_offset = header.last_offset + 1
            assert self._part.size_bytes is not None
            self._part.size_bytes += header.size_bytes

    def place(self, count: int) -> LogOffset:
        """Give places to the records of a batch that is not staged here, after all that
        is staged; return the first."""
        assert count > 0
        assert not self.has_staged(), "staged batches come first"
        first = self._part.next_offset
        self._part.next_offset += count
        return first
