"""What every log does alike: staging, offsets, and the tail of recent batches.

A `StagingLog` keeps two views. The flushed one is what is durable and readable. Over it
lie the offsets that staged appends have been given. `abandon` throws the overlay away,
so a failed flush needs no undo (design: no undo code exists).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple, TypeAlias

from coterie.log.log import BatchInfo, Bounds, LogPartition, Staged
from coterie.types import LogOffset

TAIL_BYTES_MAX: Final = 64 * 1024 * 1024
"""How much of what was flushed last stays in memory, over all partitions."""

DROP_BYTES: Final = 1 << 20
"""What dropping batches counts as: they may be many."""


class Create(NamedTuple):
    """A partition begins."""

    partition: LogPartition


class Delete(NamedTuple):
    """A partition ends."""

    partition: LogPartition


class Append(NamedTuple):
    """A batch at the end of a partition."""

    partition: LogPartition
    batch: bytes
    info: BatchInfo


class Truncate(NamedTuple):
    """A partition's start moves up."""

    partition: LogPartition
    before: LogOffset


class Replace(NamedTuple):
    """A compacted batch in the place of another; None takes the place away."""

    partition: LogPartition
    base_offset: LogOffset
    batch: bytes | None


class Put(NamedTuple):
    """A small value beside the log; None takes it away."""

    space: str
    key: bytes
    value: bytes | None


Operation: TypeAlias = Create | Delete | Append | Truncate | Replace | Put


class FlushedPartition:
    """A partition as it is on disk, with its recent batches by base offset."""

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
    """Bounds the memory of all partitions' tails together, oldest batch out first."""

    def __init__(self, bytes_max: int = TAIL_BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._bytes = 0
        self._order: deque[tuple[FlushedPartition, LogOffset, int]] = deque()

    def add(self, part: FlushedPartition, batch: bytes, info: BatchInfo) -> None:
        """Keep a batch that was just flushed."""
        assert info.base_offset not in part.tail
        part.tail[info.base_offset] = (batch, info)
        self._order.append((part, info.base_offset, len(batch)))
        self._bytes += len(batch)
        while self._bytes > self._bytes_max:
            owner, base_offset, size = self._order.popleft()
            owner.tail.pop(base_offset, None)
            self._bytes -= size
        assert self._bytes >= 0


class StagingLog:
    """Staging and bounds; a store completes it. See log.py for what each call means."""

    def __init__(self) -> None:
        self._flushed: dict[LogPartition, FlushedPartition] = {}
        self._next: dict[LogPartition, LogOffset] = {}
        self._deleted: set[LogPartition] = set()
        self._operations: list[Operation] = []
        self._tail = Tail()

    def partitions(self) -> Sequence[LogPartition]:
        """All partitions, those staged to begin included."""
        known = [each for each in self._flushed if each not in self._deleted]
        return known + [each for each in self._next if each not in self._flushed]

    def bounds(self, partition: LogPartition) -> Bounds:
        """The partition's offsets. Raises KeyError when there is no such partition."""
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
        """Begin an empty partition."""
        assert partition not in self._flushed
        assert partition not in self._next
        self._next[partition] = 0
        self._operations.append(Create(partition))

    def delete(self, partition: LogPartition) -> None:
        """Forget a partition and its batches."""
        self.bounds(partition)
        self._next.pop(partition, None)
        self._deleted.add(partition)
        self._operations.append(Delete(partition))

    def append(self, partition: LogPartition, batch: bytes, info: BatchInfo) -> None:
        """Stage a batch at the partition's next offset."""
        expected = self._next.get(partition)
        if expected is None:
            expected = self.bounds(partition).next_offset
        assert info.base_offset == expected, (info.base_offset, expected)
        assert info.last_offset >= info.base_offset
        assert info.size_bytes == len(batch)
        self._next[partition] = info.last_offset + 1
        self._operations.append(Append(partition, batch, info))

    def truncate(self, partition: LogPartition, before: LogOffset) -> None:
        """Move the log start up to `before`."""
        assert 0 <= before <= self.bounds(partition).flushed_offset
        self._operations.append(Truncate(partition, before))

    def replace(
        self, partition: LogPartition, base_offset: LogOffset, batch: bytes | None
    ) -> None:
        """Put a compacted batch in the place of another."""
        assert 0 <= base_offset < self.bounds(partition).flushed_offset
        self._operations.append(Replace(partition, base_offset, batch))

    def put(self, space: str, key: bytes, value: bytes | None) -> None:
        """Keep a small value beside the log."""
        assert space
        self._operations.append(Put(space, key, value))

    def staged(self) -> bool:
        """Whether anything waits to be flushed."""
        return bool(self._operations)

    def take(self) -> Staged:
        """Hand over what is staged."""
        operations, self._operations = self._operations, []
        return self._writer(operations)

    def settle(self, staged: Staged) -> None:
        """Make what was written visible."""
        for operation in _operations_of(staged):
            self._make_visible(operation)

    def abandon(self, staged: Staged) -> None:
        """Forget what was not written, and everything staged after it."""
        assert _operations_of(staged) is not None
        self._operations.clear()
        self._next.clear()
        self._deleted.clear()

    def flush(self) -> None:
        """take, write and settle in one call. Raises LogError, with nothing kept."""
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
        """Flushed batches from the one that holds `offset` on."""
        assert offset >= 0
        assert bytes_max >= 0
        part = self._flushed.get(partition)
        if part is None or offset >= part.flushed_offset:
            return []
        if offset in part.tail:
            return _read_tail(part, offset, bytes_max)
        return self._read_store(part, offset, bytes_max)

    def size_bytes(self, partition: LogPartition) -> int:
        """The flushed size of a partition."""
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

    def _writer(self, operations: list[Operation]) -> Staged:
        raise NotImplementedError

    def _created(self, partition: LogPartition) -> FlushedPartition:
        raise NotImplementedError

    def _read_store(
        self, part: FlushedPartition, offset: LogOffset, bytes_max: int
    ) -> Sequence[bytes]:
        raise NotImplementedError

    def _measure(self, part: FlushedPartition) -> int:
        raise NotImplementedError


class Write:
    """Operations on their way to a store."""

    def __init__(self, operations: list[Operation]) -> None:
        self.operations = operations

    @property
    def size_bytes(self) -> int:
        """Of the batches and values together; what drops batches counts as much."""
        return sum(map(_size_of, self.operations))

    def write(self) -> None:
        """Make them durable."""
        raise NotImplementedError


def _size_of(operation: Operation) -> int:
    match operation:
        case Append(_, data, _) | Replace(_, _, data) | Put(_, _, data):
            return 0 if data is None else len(data)
        case Delete() | Truncate():
            return DROP_BYTES
        case Create():
            return 0


def _operations_of(staged: Staged) -> list[Operation]:
    assert isinstance(staged, Write)
    return staged.operations


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
