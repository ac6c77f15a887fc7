"""The log of one shard: staged batches of one partition of the upstream topic.

Offsets are assigned when a batch is staged, before the upstream cluster has appended
it. Others write into the partition too: transaction coordinators append markers. So an
assigned offset may be lower than the real one, never higher, and both orders are the
same. This suffices: state only compares offsets. `correct` and `align` raise the next
offset when acknowledged batches show that it is too low.
"""

from __future__ import annotations

from coterie.broker.log.log import (
    Append,
    BatchInfo,
    LogPartition,
    Operation,
    StagedWrite,
    StagingLog,
    StoredPartition,
)
from coterie.types import LogOffset


class ShardLog(StagingLog):
    """The log of one shard, written by a `ShardWriter`. It holds nothing that is
    durable: loading fetches from the upstream cluster."""

    def __init__(self, where: LogPartition) -> None:
        super().__init__()
        self.where = where
        self.upstream_end: LogOffset = 0
        """The real offset after the newest batch that upstream has acknowledged."""
        self.mismatches = 0
        """The number of batches that did not get the offset that was assigned."""
        self._behind = 0
        """By how much the next assigned offset is known to be too low."""
        self._load_part(StoredPartition(where, 0))
        self._part = self._parts[where]
        self._part.size_bytes = 0

    def reset(self, end: LogOffset) -> None:
        """Start at the end of the loaded log, with nothing staged."""
        self._operations.clear()
        self._opened.clear()
        self._staged_bytes = 0
        self.upstream_end = end
        self._behind = 0
        part = self._part
        part.open_batch = None
        part.flushed_offset = part.next_offset = end

    def append(self, partition: LogPartition, batch: bytes, info: BatchInfo) -> None:
        # Transactions have the producer of their application: see
        # `ShardWriter.produce_transactional`.
        assert info.producer_id < 0
        super().append(partition, batch, info)

    def settle(self, staged: StagedWrite) -> None:
        for operation in staged.operations:
            assert isinstance(operation, Append)
            info = operation.info
            assert info.base_offset >= self._part.flushed_offset
            self._part.flushed_offset = info.last_offset + 1
            assert self._part.size_bytes is not None
            self._part.size_bytes += info.size_bytes

    def reserve(self, count: int) -> LogOffset:
        """Assign offsets to a batch that is not staged here; return the first."""
        assert count > 0
        assert not self.has_staged(), "staged batches come first"
        first = self._part.next_offset
        self._part.next_offset += count
        return first

    def settle_reserved(self, first: LogOffset, count: int) -> None:
        """Count a reserved batch as durable; everything before it is."""
        assert self._part.flushed_offset <= first
        self._part.flushed_offset = first + count

    def release(self, first: LogOffset, count: int) -> None:
        """Return the reserved offsets of a batch that was refused, unless later ones
        have been assigned."""
        assert self._part.flushed_offset <= first
        if self._part.next_offset == first + count:
            self._part.next_offset = first
        else:
            self._part.flushed_offset = first + count

    def acknowledged(
        self, first: LogOffset, base: LogOffset, count: int, corrected: int
    ) -> None:
        """Register an acknowledged batch with its assigned and its real first offset.

        A base of -1 is unknown, and is at least the end of the one before. `corrected`
        is the sum of the corrections since the batch was staged.
        """
        base = max(base, self.upstream_end)
        self.upstream_end = base + count
        if base != first:
            self.mismatches += 1
            self._behind = max(base - first - corrected, self._behind)

    def correct(self) -> int:
        """Raise the next offset by what acknowledged batches have shown; return the
        difference. Nothing may be staged."""
        assert not self.has_staged()
        raised, self._behind = self._behind, 0
        self._part.next_offset += raised
        return raised

    def align(self) -> None:
        """Raise the next offset to the real end; nothing may be staged or in flight."""
        part = self._part
        assert not self.has_staged()
        self._behind = 0
        part.flushed_offset = part.next_offset = max(
            part.next_offset, self.upstream_end
        )

    def _staged_write(
        self, operations: list[Operation], size_bytes: int
    ) -> StagedWrite:
        return StagedWrite(operations, size_bytes)
