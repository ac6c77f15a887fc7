"""A log in memory: for tests, the simulation and `coterie serve --memory`."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence

from coterie.broker.log.log import (
    Append,
    Create,
    Delete,
    Log,
    LogPartition,
    Operation,
    Put,
    Replace,
    StagedWrite,
    StoredPartition,
    Truncate,
)
from coterie.errors import LogError
from coterie.types import LogOffset
from coterie.wire.record_batch import BatchHeader, read_header


class _Batches:
    """The batches of one partition, by base offset."""

    __slots__ = ("bases", "kept")

    def __init__(self) -> None:
        self.bases: list[LogOffset] = []
        self.kept: dict[LogOffset, tuple[bytes, BatchHeader]] = {}

    def index_of(self, offset: LogOffset) -> int:
        """Return the index of the batch that contains `offset`, or of the next one."""
        assert len(self.bases) == len(self.kept)
        at = bisect_left(self.bases, offset)
        if at > 0 and self.kept[self.bases[at - 1]][1].last_offset >= offset:
            return at - 1
        return at


class MemoryLog(Log):
    """A log that is lost when its process ends.

    `before_write` is called before every write. Tests let it raise LogError or LogFull
    to inject a failure.
    """

    def __init__(self, before_write: Callable[[], None] | None = None) -> None:
        super().__init__()
        self.before_write = before_write
        self._batches: dict[int, _Batches] = {}
        self._values: dict[str, dict[bytes, bytes]] = {}

    def reopen(self) -> MemoryLog:
        """Return a log with the flushed state only, as after a restart."""
        reopened = MemoryLog(self.before_write)
        reopened._batches = self._batches
        reopened._values = self._values
        for part in self._parts.values():
            if part.is_created:
                reopened._load_part(
                    StoredPartition(
                        part.partition,
                        part.number,
                        part.log_start_offset,
                        part.flushed_offset,
                    )
                )
        return reopened

    def headers(
        self, partition: LogPartition, offset: LogOffset = 0
    ) -> Iterator[BatchHeader]:
        part = self._parts.get(partition)
        if part is not None and part.is_created:
            batches = self._batches[part.number]
            for base in batches.bases[batches.index_of(offset) :]:
                yield batches.kept[base][1]

    def find_timestamp(
        self, partition: LogPartition, timestamp_ms: int, offset: LogOffset = 0
    ) -> BatchHeader | None:
        for header in self.headers(partition, offset):
            if header.max_timestamp_ms >= timestamp_ms:
                return header
        return None

    def get(self, space: str, key: bytes) -> bytes | None:
        return self._values.get(space, {}).get(key)

    def items(self, space: str) -> Iterator[tuple[bytes, bytes]]:
        yield from sorted(self._values.get(space, {}).items())

    def close(self) -> None:
        """Flush; the contents remain for `reopen`."""
        self.flush()

    def _staged_write(
        self, operations: list[Operation], size_bytes: int
    ) -> StagedWrite:
        return _MemoryWrite(self, operations, size_bytes)

    def store(self, operations: list[Operation]) -> None:
        """Apply the operations of a write. Raises the errors of `before_write`."""
        if self.before_write is not None:
            self.before_write()
        for operation in operations:
            self._store_one(operation)

    def _store_one(self, operation: Operation) -> None:
        match operation:
            case Create(part):
                assert part.number not in self._batches
                self._batches[part.number] = _Batches()
            case Delete(part):
                self._batches.pop(part.number, None)
            case Append(part, batch, header):
                batches = self._batches[part.number]
                assert not batches.bases or batches.bases[-1] < header.base_offset
                batches.bases.append(header.base_offset)
                batches.kept[header.base_offset] = (batch, header)
            case Truncate(part, before):
                self._truncate(self._batches[part.number], before)
            case Replace(part, base_offset, replacement):
                batches = self._batches[part.number]
                self._replace(batches, base_offset, replacement)
            case Put(space, key, value):
                values = self._values.setdefault(space, {})
                if value is None:
                    values.pop(key, None)
                else:
                    values[key] = value

    @staticmethod
    def _truncate(batches: _Batches, before: LogOffset) -> None:
        keep = batches.index_of(before)
        for base in batches.bases[:keep]:
            del batches.kept[base]
        del batches.bases[:keep]
        assert len(batches.bases) == len(batches.kept)

    @staticmethod
    def _replace(
        batches: _Batches, base_offset: LogOffset, replacement: bytes | None
    ) -> None:
        if base_offset not in batches.kept:
            return  # the batch was truncated after compaction read it
        _, header = batches.kept.pop(base_offset)
        assert header.base_offset == base_offset
        if replacement is None:
            batches.bases.remove(base_offset)
        else:
            batches.kept[base_offset] = (replacement, read_header(replacement))

    def _read_part(
        self, part: StoredPartition, offset: LogOffset, bytes_max: int
    ) -> Sequence[bytes]:
        batches = self._batches[part.number]
        found: list[bytes] = []
        size = 0
        for base in batches.bases[batches.index_of(offset) :]:
            batch = batches.kept[base][0]
            if found and size + len(batch) > bytes_max:
                break
            found.append(batch)
            size += len(batch)
        return found

    def _measure(self, part: StoredPartition) -> int:
        kept = self._batches[part.number].kept
        return sum(header.size_bytes for _, header in kept.values())


class _MemoryWrite(StagedWrite):
    def __init__(
        self, log: MemoryLog, operations: list[Operation], size_bytes: int
    ) -> None:
        super().__init__(operations, size_bytes)
        self._log = log

    def write(self) -> None:
        try:
            self._log.store(self.operations)
        except KeyError as error:
            raise LogError(
                f"operation on a partition that does not exist: {error}"
            ) from None
