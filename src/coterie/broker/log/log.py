"""The log: record batches by partition, durable after a flush.

A `Log` holds many partitions in one store. Appending stages a batch and assigns its
offsets at once; `flush` makes everything staged so far durable, atomically, across all
partitions. Reads return flushed batches only. Batches are Kafka's own v2 bytes.

`StagingLog` is the base class of all stores. It has two views: the flushed one is
durable and readable; above it are the offsets assigned to staged appends. `abandon`
discards that overlay, so a failed flush needs no undo.

Everything is called from one thread, except `Staged.write`, which a runtime may run in
another thread while the first one continues to stage.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple, Protocol, TypeAlias

from coterie.errors import LogFull
from coterie.types import LogOffset, ProducerId, TopicId


class LogPartition(NamedTuple):
    """A partition, identified by topic id: a recreated topic does not contain the old
    batches."""

    topic_id: TopicId
    partition: int


class BatchInfo(NamedTuple):
    """The fields of a batch that are also stored separately, to be read without
    decoding."""

    base_offset: LogOffset
    last_offset: LogOffset
    max_timestamp_ms: int
    size_bytes: int
    producer_id: ProducerId = -1
    producer_epoch: int = -1
    base_sequence: int = -1
    last_sequence: int = -1
    is_transactional: bool = False
    is_control: bool = False


class Bounds(NamedTuple):
    """The offsets of a partition: log start, end of the flushed batches, and the next
    offset to assign."""

    log_start_offset: LogOffset
    flushed_offset: LogOffset
    next_offset: LogOffset


OFFSET_BITS: Final = 40
"""Bits of an offset in the store: 2^40 offsets in each of 2^23 partitions."""
OFFSET_MAX: Final = (1 << OFFSET_BITS) - 1

TAIL_BYTES_MAX: Final = 64 * 1024 * 1024
"""The size of recently flushed batches kept in memory, of all partitions together."""

DROP_BYTES: Final = 1 << 20
"""The size that an operation which drops batches counts as, since they may be many."""


class Create(NamedTuple):
    """Creation of a partition."""

    partition: LogPartition


class Delete(NamedTuple):
    """Deletion of a partition."""

    partition: LogPartition


class Append(NamedTuple):
    """Append of a batch."""

    partition: LogPartition
    batch: bytes
    info: BatchInfo


class Truncate(NamedTuple):
    """Advance of a partition's log start offset."""

    partition: LogPartition
    before: LogOffset


class Replace(NamedTuple):
    """Replacement of a batch by its compacted form; its removal when that is None."""

    partition: LogPartition
    base_offset: LogOffset
    batch: bytes | None


class Put(NamedTuple):
    """A change of the log's key-value store; None deletes the key."""

    space: str
    key: bytes
    value: bytes | None


Operation: TypeAlias = Create | Delete | Append | Truncate | Replace | Put


class StagedWrite:
    """The operations that `Log.take` returns, to be made durable by one sync."""

    def __init__(self, operations: list[Operation]) -> None:
        self.operations = operations

    @property
    def size_bytes(self) -> int:
        """The size of all batches and values; `DROP_BYTES` for each operation that
        drops batches."""
        return sum(map(_size_of, self.operations))

    def write(self) -> None:
        """Write and sync. May run in another thread.

        Raises LogFull or LogError; then nothing of it is durable or visible.
        """
        raise NotImplementedError


def _size_of(operation: Operation) -> int:
    match operation:
        case Append(_, data, _) | Replace(_, _, data) | Put(_, _, data):
            return 0 if data is None else len(data)
        case Delete() | Truncate():
            return DROP_BYTES
        case Create():
            return 0


class Log(Protocol):
    """The interface of a log; see the module's docstring.

    `directory` is None for a log in memory.
    """

    directory: Path | None

    def create(self, partition: LogPartition) -> None:
        """Create an empty partition (staged)."""

    def delete(self, partition: LogPartition) -> None:
        """Delete a partition and its batches (staged)."""

    def partitions(self) -> Sequence[LogPartition]:
        """Return all partitions, those with a staged creation included."""

    def bounds(self, partition: LogPartition) -> Bounds:
        """Return the partition's offsets. Raises KeyError for an unknown partition."""

    def append(self, partition: LogPartition, batch: bytes, info: BatchInfo) -> None:
        """Stage a batch.

        `info.base_offset` is the partition's next offset, and already in the batch.
        Raises LogFull for an offset above `OFFSET_MAX`; then nothing is staged.
        """

    def has_staged(self) -> bool:
        """Return whether anything is staged."""

    def take(self) -> StagedWrite:
        """Return all staged operations as one write; later operations belong to the
        next write."""

    def settle(self, staged: StagedWrite) -> None:
        """Make the batches of a successful write visible to reads."""

    def abandon(self, staged: StagedWrite) -> None:
        """Discard a failed write, and everything staged since."""

    def flush(self) -> None:
        """Take, write and settle; when the write fails, abandon it and raise."""

    def read(
        self, partition: LogPartition, offset: LogOffset, bytes_max: int
    ) -> Sequence[bytes]:
        """Return flushed batches, starting with the one that contains `offset` or,
        without one, with the next.

        Returns at least one batch if any exists, then as many as fit in `bytes_max`.
        """

    def batch_infos(
        self, partition: LogPartition, offset: LogOffset = 0
    ) -> Iterator[BatchInfo]:
        """Yield the fields of flushed batches, starting with the one that contains
        `offset`."""

    def find_timestamp(
        self, partition: LogPartition, timestamp_ms: int, offset: LogOffset = 0
    ) -> BatchInfo | None:
        """Return the first flushed batch whose max timestamp is at least
        `timestamp_ms`, from the batch that contains `offset` on."""

    def truncate(self, partition: LogPartition, before: LogOffset) -> None:
        """Advance the log start offset to `before`; drop batches that end below it
        (staged)."""

    def replace(
        self, partition: LogPartition, base_offset: LogOffset, batch: bytes | None
    ) -> None:
        """Replace the batch at `base_offset` by its compacted form, or drop it when
        that is None (staged). The offsets of the remaining records do not change."""

    def put(self, space: str, key: bytes, value: bytes | None) -> None:
        """Set a value of the log's key-value store; None deletes it.

        It is staged and becomes durable in the same flush as the batches. `space` is
        the key's namespace.
        """

    def get(self, space: str, key: bytes) -> bytes | None:
        """Return a flushed value of the key-value store."""

    def items(self, space: str) -> Iterator[tuple[bytes, bytes]]:
        """Yield the flushed keys and values of a namespace, in order of keys."""

    def size_bytes(self, partition: LogPartition) -> int:
        """Return the flushed size of a partition."""

    def close(self) -> None:
        """Flush and close."""


class FlushedPartition:
    """The flushed state of a partition, with its recent batches by base offset."""

    __slots__ = ("flushed_offset", "log_start_offset", "number", "size_bytes", "tail")

    def __init__(
        self, number: int, log_start_offset: LogOffset, flushed_offset: LogOffset
    ) -> None:
        assert 0 <= log_start_offset <= flushed_offset
        self.number = number
        self.log_start_offset = log_start_offset
        self.flushed_offset = flushed_offset
        self.size_bytes: int | None = None
        self.tail: dict[LogOffset, tuple[bytes, BatchInfo]] = {}


class Tail:
    """The memory limit of all partitions' recent batches; the oldest are evicted
    first."""

    def __init__(self, bytes_max: int = TAIL_BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._bytes = 0
        self._order: deque[tuple[FlushedPartition, LogOffset, int]] = deque()

    def add(self, part: FlushedPartition, batch: bytes, info: BatchInfo) -> None:
        """Add a flushed batch to the partition's recent batches, and evict the oldest
        ones."""
        assert info.base_offset not in part.tail
        part.tail[info.base_offset] = (batch, info)
        self._order.append((part, info.base_offset, len(batch)))
        self._bytes += len(batch)
        while self._bytes > self._bytes_max:
            owner, base_offset, size = self._order.popleft()
            owner.tail.pop(base_offset, None)
            self._bytes -= size
        assert self._bytes >= 0


class StagingLog(Log):
    """The base class of logs, with staging and offsets; subclasses add the store."""

    def __init__(self) -> None:
        self._flushed: dict[LogPartition, FlushedPartition] = {}
        self._next: dict[LogPartition, LogOffset] = {}
        self._deleted: set[LogPartition] = set()
        self._operations: list[Operation] = []
        self._tail = Tail()
        self.directory: Path | None = None

    def partitions(self) -> Sequence[LogPartition]:
        known = [each for each in self._flushed if each not in self._deleted]
        return known + [each for each in self._next if each not in self._flushed]

    def bounds(self, partition: LogPartition) -> Bounds:
        if partition in self._deleted:
            raise KeyError(partition)
        staged = self._next.get(partition)
        part = self._flushed.get(partition)
        if part is None:
            return Bounds(0, 0, self._next[partition])
        flushed = part.flushed_offset
        assert part.log_start_offset <= flushed
        assert staged is None or flushed <= staged
        return Bounds(
            part.log_start_offset, flushed, flushed if staged is None else staged
        )

    def create(self, partition: LogPartition) -> None:
        assert partition not in self._flushed
        assert partition not in self._next
        self._next[partition] = 0
        self._operations.append(Create(partition))

    def delete(self, partition: LogPartition) -> None:
        self.bounds(partition)
        self._next.pop(partition, None)
        self._deleted.add(partition)
        self._operations.append(Delete(partition))

    def append(self, partition: LogPartition, batch: bytes, info: BatchInfo) -> None:
        expected = self._next.get(partition)
        if expected is None:
            expected = self.bounds(partition).next_offset
        assert info.base_offset == expected, (info.base_offset, expected)
        assert info.last_offset >= info.base_offset
        assert info.size_bytes == len(batch)
        if info.last_offset > OFFSET_MAX:
            raise LogFull(
                f"the batch ends at offset {info.last_offset}, the largest offset of "
                f"a partition is {OFFSET_MAX}: create a topic and produce to it"
            )
        self._next[partition] = info.last_offset + 1
        self._operations.append(Append(partition, batch, info))

    def truncate(self, partition: LogPartition, before: LogOffset) -> None:
        assert 0 <= before <= self.bounds(partition).flushed_offset
        self._operations.append(Truncate(partition, before))

    def replace(
        self, partition: LogPartition, base_offset: LogOffset, batch: bytes | None
    ) -> None:
        assert 0 <= base_offset < self.bounds(partition).flushed_offset
        self._operations.append(Replace(partition, base_offset, batch))

    def put(self, space: str, key: bytes, value: bytes | None) -> None:
        assert space
        self._operations.append(Put(space, key, value))

    def has_staged(self) -> bool:
        return bool(self._operations)

    def take(self) -> StagedWrite:
        operations, self._operations = self._operations, []
        return self._staged_write(operations)

    def settle(self, staged: StagedWrite) -> None:
        for operation in staged.operations:
            self._make_visible(operation)

    def abandon(self, staged: StagedWrite) -> None:
        self._operations.clear()
        self._next.clear()
        self._deleted.clear()

    def flush(self) -> None:
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
        assert offset >= 0
        assert bytes_max >= 0
        part = self._flushed.get(partition)
        if part is None or offset >= part.flushed_offset:
            return []
        if offset in part.tail:
            return _read_tail(part, offset, bytes_max)
        return self._read_store(part, offset, bytes_max)

    def size_bytes(self, partition: LogPartition) -> int:
        part = self._flushed.get(partition)
        if part is None:
            return 0
        if part.size_bytes is None:
            part.size_bytes = self._measure(part)
            assert part.size_bytes >= 0
        return part.size_bytes

    def _make_visible(self, operation: Operation) -> None:
        match operation:
            case Append(partition, batch, info):
                part = self._flushed[partition]
                assert part.flushed_offset == info.base_offset
                part.flushed_offset = info.last_offset + 1
                if part.size_bytes is not None:
                    part.size_bytes += len(batch)
                self._tail.add(part, batch, info)
                self._drop_overlay(partition, part)
            case Create(partition):
                part = self._flushed[partition] = self._created(partition)
                self._drop_overlay(partition, part)
            case Delete(partition):
                self._flushed.pop(partition, None)
                self._deleted.discard(partition)
            case Truncate(partition, before):
                part = self._flushed[partition]
                part.log_start_offset = max(before, part.log_start_offset)
                assert part.log_start_offset <= part.flushed_offset
                part.size_bytes = None
                part.tail.clear()
            case Replace(partition, _, _):
                self._flushed[partition].size_bytes = None
                self._flushed[partition].tail.clear()
            case Put():
                pass

    def _drop_overlay(self, partition: LogPartition, part: FlushedPartition) -> None:
        if self._next.get(partition) == part.flushed_offset:
            del self._next[partition]

    def _staged_write(self, operations: list[Operation]) -> StagedWrite:
        raise NotImplementedError

    def _created(self, partition: LogPartition) -> FlushedPartition:
        raise NotImplementedError

    def _read_store(
        self, part: FlushedPartition, offset: LogOffset, bytes_max: int
    ) -> Sequence[bytes]:
        raise NotImplementedError

    def _measure(self, part: FlushedPartition) -> int:
        raise NotImplementedError


def _read_tail(
    part: FlushedPartition, offset: LogOffset, bytes_max: int
) -> Sequence[bytes]:
    found: list[bytes] = []
    size = 0
    for batch, info in _follow(part, offset):
        if found and size + len(batch) > bytes_max:
            break
        found.append(batch)
        size += info.size_bytes
    return found


def _follow(
    part: FlushedPartition, offset: LogOffset
) -> Iterator[tuple[bytes, BatchInfo]]:
    while (kept := part.tail.get(offset)) is not None:
        assert kept[1].base_offset == offset
        yield kept
        offset = kept[1].last_offset + 1
