"""The log: record batches by partition, durable after a flush.

A `Log` holds many partitions in one store. Appending stages a batch and assigns its
offsets at once; `flush` makes everything staged so far durable, atomically, across all
partitions. Reads return flushed batches only. Batches are Kafka's own v2 bytes.

It has two views: the flushed one is durable and readable; above it are the offsets
assigned to staged appends. `abandon` discards that overlay, so a failed flush needs no
undo.

Everything is called from one thread, except `StagedWrite.write`, which a runtime may
run in another thread while the first one continues to stage.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

from coterie.types import LogOffset, TopicId
from coterie.wire.record_batch import (
    HEADER_BYTES,
    BatchHeader,
    batch_of,
    read_header,
)


class LogPartition(NamedTuple):
    """A partition, identified by topic id: a recreated topic does not contain the old
    batches."""

    topic_id: TopicId
    partition: int


class Bounds(NamedTuple):
    """The offsets of a partition: log start, end of the flushed batches, and the next
    offset to assign."""

    log_start_offset: LogOffset
    flushed_offset: LogOffset
    next_offset: LogOffset


DROP_BYTES: Final = 1 << 20
"""The size that an operation which drops batches counts as, since they may be many."""


class OpenBatch:
    """A staged batch to which records are added until the next write is taken."""

    __slots__ = ("base_offset", "parts", "record_count", "size_bytes", "timestamp_ms")

    def __init__(self, base_offset: LogOffset, timestamp_ms: int) -> None:
        self.base_offset = base_offset
        self.timestamp_ms = timestamp_ms
        self.parts: list[bytes] = []
        self.record_count = 0
        self.size_bytes = HEADER_BYTES

    def add(self, records: bytes, count: int) -> None:
        """Add encoded records."""
        assert count > 0
        self.parts.append(records)
        self.record_count += count
        self.size_bytes += len(records)


class StoredPartition:
    """The offsets of a partition, flushed and staged."""

    __slots__ = (
        "flushed_offset",
        "is_created",
        "is_deleted",
        "is_gone",
        "log_start_offset",
        "next_offset",
        "number",
        "open_batch",
        "partition",
        "size_bytes",
    )

    def __init__(
        self,
        partition: LogPartition,
        number: int,
        log_start_offset: LogOffset = 0,
        flushed_offset: LogOffset = 0,
    ) -> None:
        assert 0 <= log_start_offset <= flushed_offset
        self.partition = partition
        self.number = number
        self.log_start_offset = log_start_offset
        self.flushed_offset = flushed_offset
        self.next_offset = flushed_offset
        """The next offset to assign: above `flushed_offset` by the staged batches."""
        self.is_created = False
        """Whether the creation is flushed."""
        self.is_deleted = False
        """Whether a deletion is staged."""
        self.is_gone = False
        """Whether the deletion is flushed."""
        self.size_bytes: int | None = None
        """The flushed size; None until it is measured."""
        self.open_batch: OpenBatch | None = None
        """The staged batch that further records may be added to."""


@dataclass(slots=True, eq=False)
class Create:
    """Creation of a partition."""

    part: StoredPartition


@dataclass(slots=True, eq=False)
class Delete:
    """Deletion of a partition."""

    part: StoredPartition


@dataclass(slots=True, eq=False)
class Append:
    """Append of a batch."""

    part: StoredPartition
    batch: bytes
    header: BatchHeader


@dataclass(slots=True, eq=False)
class Truncate:
    """Advance of a partition's log start offset."""

    part: StoredPartition
    before: LogOffset


@dataclass(slots=True, eq=False)
class Replace:
    """Replacement of a batch by its compacted form; its removal when that is None."""

    part: StoredPartition
    base_offset: LogOffset
    batch: bytes | None


@dataclass(slots=True, eq=False)
class Put:
    """A change of the log's key-value store; None deletes the key."""

    space: str
    key: bytes
    value: bytes | None


Operation: TypeAlias = Create | Delete | Append | Truncate | Replace | Put


class StagedWrite:
    """The operations that `Log.take` returns, to be made durable by one sync.

    `size_bytes` is the size of all batches and values; `DROP_BYTES` for each operation
    that drops batches.
    """

    def __init__(self, operations: list[Operation], size_bytes: int) -> None:
        self.operations = operations
        self.size_bytes = size_bytes

    def write(self) -> None:
        """Write and sync. May run in another thread.

        Raises LogFull or LogError; then nothing of it is durable or visible.
        """
        raise NotImplementedError


class Log:
    """The base class of logs, with staging and offsets; subclasses add the store.

    `directory` is None for a log that is in no directory.
    """

    def __init__(self) -> None:
        self._parts: dict[LogPartition, StoredPartition] = {}
        self._last_number = 0
        self._operations: list[Operation] = []
        self._staged_bytes = 0
        self._opened: list[StoredPartition] = []
        """The partitions whose open batch was begun since the last `take`."""
        self.directory: Path | None = None

    def partitions(self) -> Sequence[LogPartition]:
        """Return all partitions, those with a staged creation included."""
        return [each for each, part in self._parts.items() if not part.is_deleted]

    def bounds(self, partition: LogPartition) -> Bounds:
        """Return the partition's offsets. Raises KeyError for an unknown partition."""
        part = self._parts[partition]
        if part.is_deleted:
            raise KeyError(partition)
        assert part.log_start_offset <= part.flushed_offset <= part.next_offset
        return Bounds(part.log_start_offset, part.flushed_offset, part.next_offset)

    def next_offset(self, partition: LogPartition) -> LogOffset:
        """Return the next offset to assign. Raises KeyError as `bounds` does."""
        part = self._parts[partition]
        if part.is_deleted:
            raise KeyError(partition)
        assert part.flushed_offset <= part.next_offset
        return part.next_offset

    def create(self, partition: LogPartition) -> None:
        """Create an empty partition (staged)."""
        assert partition not in self._parts
        self._last_number += 1
        part = self._new_part(partition, self._last_number)
        assert part.next_offset == 0
        self._parts[partition] = part
        self._operations.append(Create(part))

    def delete(self, partition: LogPartition) -> None:
        """Delete a partition and its batches (staged)."""
        part = self._parts[partition]
        if part.is_deleted:
            raise KeyError(partition)
        self._close_batch(part)
        part.is_deleted = True
        self._stage(Delete(part), DROP_BYTES)

    def append(
        self, partition: LogPartition, batch: bytes, header: BatchHeader | None = None
    ) -> None:
        """Stage a batch. The base offset of its header is the partition's next one.

        Without `header` that of the batch is read, which raises MalformedFrame.
        """
        if header is None:
            header = read_header(batch)
        part = self._parts[partition]
        last_offset = header.last_offset
        self._close_batch(part)
        assert not part.is_deleted
        assert header.base_offset == part.next_offset, (header, part.next_offset)
        assert last_offset >= header.base_offset
        assert header.size_bytes == len(batch)
        part.next_offset = last_offset + 1
        self._staged_bytes += len(batch)
        self._operations.append(Append(part, batch, header))

    def open_batch(self, partition: LogPartition, bytes_max: int) -> OpenBatch | None:
        """Return the staged batch that `append_records` adds to; None if it would begin
        one. A batch of `bytes_max` or more is closed first."""
        part = self._parts[partition]
        batch = part.open_batch
        if batch is not None and batch.size_bytes >= bytes_max:
            self._close_batch(part)
        return part.open_batch

    def append_records(
        self, partition: LogPartition, records: bytes, count: int, timestamp_ms: int
    ) -> None:
        """Stage encoded records, as part of the open batch if there is one.

        Their offset deltas follow those of that batch; their timestamp deltas are 0, so
        they get the timestamp with which the batch began.
        """
        part = self._parts[partition]
        assert not part.is_deleted
        batch = part.open_batch
        if batch is None:
            batch = part.open_batch = OpenBatch(part.next_offset, timestamp_ms)
            self._opened.append(part)
        batch.add(records, count)
        part.next_offset += count

    def _close_batch(self, part: StoredPartition) -> None:
        """Stage the open batch of a partition as it is now."""
        closed, part.open_batch = part.open_batch, None
        if closed is None:
            return
        base_offset, count = closed.base_offset, closed.record_count
        assert base_offset + count == part.next_offset
        batch, header = batch_of(
            b"".join(closed.parts), base_offset, count, closed.timestamp_ms
        )
        assert len(batch) == closed.size_bytes
        self._staged_bytes += len(batch)
        self._operations.append(Append(part, batch, header))

    def truncate(self, partition: LogPartition, before: LogOffset) -> None:
        """Advance the log start offset to `before`; drop batches that end below it
        (staged)."""
        part = self._parts[partition]
        assert not part.is_deleted
        assert 0 <= before <= part.flushed_offset
        self._stage(Truncate(part, before), DROP_BYTES)

    def replace(
        self, partition: LogPartition, base_offset: LogOffset, batch: bytes | None
    ) -> None:
        """Replace the batch at `base_offset` by its compacted form, or drop it when
        that is None (staged). The offsets of the remaining records do not change."""
        part = self._parts[partition]
        assert not part.is_deleted
        assert 0 <= base_offset < part.flushed_offset
        self._stage(Replace(part, base_offset, batch), len(batch or b""))

    def put(self, space: str, key: bytes, value: bytes | None) -> None:
        """Set a value of the log's key-value store; None deletes it.

        It is staged and becomes durable in the same flush as the batches. `space` is
        the key's namespace.
        """
        assert space
        self._stage(Put(space, key, value), len(value or b""))

    def has_staged(self) -> bool:
        """Return whether anything is staged."""
        return bool(self._operations or self._opened)

    def take(self) -> StagedWrite:
        """Return all staged operations as one write; later operations belong to the
        next write."""
        opened, self._opened = self._opened, []
        for part in opened:
            self._close_batch(part)
        operations, self._operations = self._operations, []
        size_bytes, self._staged_bytes = self._staged_bytes, 0
        assert size_bytes >= 0
        return self._staged_write(operations, size_bytes)

    def settle(self, staged: StagedWrite) -> None:
        """Make the batches of a successful write visible to reads."""
        keep = self._keep
        for operation in staged.operations:
            if isinstance(operation, Append):
                part, header = operation.part, operation.header
                assert part.flushed_offset == header.base_offset
                part.flushed_offset = header.last_offset + 1
                if part.size_bytes is not None:
                    part.size_bytes += header.size_bytes
                keep(operation)
            else:
                self._make_visible(operation)

    def abandon(self, staged: StagedWrite) -> None:
        """Discard a failed write, and everything staged since."""
        self._operations = []
        self._staged_bytes = 0
        self._opened = []
        for partition, part in list(self._parts.items()):
            part.next_offset = part.flushed_offset
            part.open_batch = None
            part.is_deleted = False
            if not part.is_created:
                assert part.flushed_offset == 0
                del self._parts[partition]

    def flush(self) -> None:
        """Take, write and settle; when the write fails, abandon it and raise."""
        staged = self.take()
        try:
            staged.write()
        except BaseException:
            self.abandon(staged)
            raise
        self.settle(staged)

    def read(
        self, partition: LogPartition, offset: LogOffset, bytes_max: int
    ) -> Sequence[bytes]:
        """Return flushed batches, starting with the one that contains `offset` or,
        without one, with the next.

        Returns at least one batch if any exists, then as many as fit in `bytes_max`.
        """
        assert offset >= 0
        assert bytes_max >= 0
        part = self._parts.get(partition)
        if part is None or offset >= part.flushed_offset:
            return []
        return self._read_part(part, offset, bytes_max)

    def size_bytes(self, partition: LogPartition) -> int:
        """Return the flushed size of a partition."""
        part = self._parts.get(partition)
        if part is None:
            return 0
        if part.size_bytes is None:
            part.size_bytes = self._measure(part)
            assert part.size_bytes >= 0
        return part.size_bytes

    def _stage(self, operation: Operation, size_bytes: int) -> None:
        assert size_bytes >= 0
        self._staged_bytes += size_bytes
        self._operations.append(operation)

    def _make_visible(self, operation: Operation) -> None:
        """Apply a flushed operation other than an append."""
        match operation:
            case Create(part):
                part.is_created = True
            case Delete(part):
                part.is_gone = True
                del self._parts[part.partition]
            case Truncate(part, before):
                part.log_start_offset = max(before, part.log_start_offset)
                assert part.log_start_offset <= part.flushed_offset
                part.size_bytes = None
            case Replace(part, _, _):
                part.size_bytes = None

    def _load_part(self, part: StoredPartition) -> None:
        """Add a partition of an existing store."""
        assert part.partition not in self._parts
        part.is_created = True
        self._parts[part.partition] = part
        self._last_number = max(self._last_number, part.number)

    def _staged_write(
        self, operations: list[Operation], size_bytes: int
    ) -> StagedWrite:
        return StagedWrite(operations, size_bytes)

    # What subclasses add.

    def headers(
        self, partition: LogPartition, offset: LogOffset = 0
    ) -> Iterator[BatchHeader]:
        """Yield the headers of flushed batches, starting with the one that contains
        `offset`."""
        raise NotImplementedError

    def find_timestamp(
        self, partition: LogPartition, timestamp_ms: int, offset: LogOffset = 0
    ) -> BatchHeader | None:
        """Return the header of the first flushed batch whose max timestamp is at least
        `timestamp_ms`, from the batch that contains `offset` on."""
        raise NotImplementedError

    def get(self, space: str, key: bytes) -> bytes | None:
        """Return a flushed value of the key-value store."""
        raise NotImplementedError

    def items(self, space: str) -> Iterator[tuple[bytes, bytes]]:
        """Yield the flushed keys and values of a namespace, in order of keys."""
        raise NotImplementedError

    def close(self) -> None:
        """Flush and close."""
        raise NotImplementedError

    def _new_part(self, partition: LogPartition, number: int) -> StoredPartition:
        return StoredPartition(partition, number)

    def _keep(self, append: Append) -> None:
        """Make a flushed batch readable."""

    def _read_part(
        self, part: StoredPartition, offset: LogOffset, bytes_max: int
    ) -> Sequence[bytes]:
        raise NotImplementedError

    def _measure(self, part: StoredPartition) -> int:
        raise NotImplementedError
