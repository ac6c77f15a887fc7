"""Log segments in Kafka's layout: a folder for each partition, a file for each segment,
named after its first offset. No indexes are written: a broker rebuilds them, and
readers of dumps do not need them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, BinaryIO, Final

from coterie.broker.log.compaction import Steps, compact
from coterie.broker.log.log import LogPartition
from coterie.broker.log.memory import MemoryLog
from coterie.types import OFFSETS_TOPIC
from coterie.wire.record_batch import split_batches

_DELETE_RETENTION_MS: Final = 24 * 3_600_000
"""The time for which compaction keeps tombstones: Kafka's default of
`delete.retention.ms`.
"""
_READ_BYTES_MAX: Final = 2**62


class SegmentFiles:
    """The segments of one partition, opened for appending."""

    def __init__(self, folder: Path, partition: int, segment_bytes: int) -> None:
        self._folder = folder / f"{OFFSETS_TOPIC}-{partition}"
        self._folder.mkdir(parents=True, exist_ok=True)
        self._segment_bytes = segment_bytes
        self._file: BinaryIO | None = None
        self._written = 0

    def append(self, base_offset: int, batch: bytes) -> None:
        is_full = self._written + len(batch) > self._segment_bytes
        if self._file is None or is_full:
            self.close()
            self._file = (self._folder / f"{base_offset:020d}.log").open("wb")
            self._written = 0
        self._file.write(batch)
        self._written += len(batch)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


def compacted_batches(source: Path, now_ms: int) -> list[tuple[int, bytes]]:
    """Compact a log partition as the server does; return the base offset and the bytes
    of each remaining batch.
    """
    log, partition = MemoryLog(), LogPartition(bytes(16), 0)
    log.create(partition)
    for path in sorted(source.glob("*.log")):
        for header, batch in split_batches(path.read_bytes()):
            log.append(partition, batch, header)
    log.flush()
    end = log.bounds(partition).flushed_offset
    before_ms = now_ms - _DELETE_RETENTION_MS
    _run(compact(log, partition, start=0, end=end, tombstones_before_ms=before_ms))
    log.flush()
    batches = log.read(partition, 0, _READ_BYTES_MAX) if end else []
    return [
        (header.base_offset, each)
        for batch in batches
        for header, each in split_batches(batch)
    ]


def _run(steps: Steps[Any]) -> None:
    """Run all steps of a compaction in this thread."""
    result: Any = None
    try:
        while True:
            work = steps.send(result)
            result = None if work is None else work()
    except StopIteration:
        return
