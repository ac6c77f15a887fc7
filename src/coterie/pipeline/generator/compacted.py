"""What compaction leaves of a generated log: the same current state, with gaps."""

from __future__ import annotations

from pathlib import Path

from coterie.log.compaction import compact
from coterie.log.log import BatchInfo, LogPartition
from coterie.log.memory import MemoryLog
from coterie.pipeline.generator.segment_files import TOPIC, SegmentFiles
from coterie.pipeline.generator.world import World
from coterie.wire.record_batch import BatchHeader, split_batches

_TOMBSTONES_STAY_MS = 24 * 3_600_000
"""Kafka's `delete.retention.ms`."""
_SEGMENT_BYTES = 16 * 1024 * 1024
_ALL = 2**62


def write_compacted(world: World, folder: Path) -> None:
    """Compact each partition of the world's log, as the server does, into a folder."""
    before_ms = world.now_ms - _TOMBSTONES_STAY_MS
    for part in world.parts:
        source = world.where.folder / f"{TOPIC}-{part.index}"
        files = SegmentFiles(folder, part.index, _SEGMENT_BYTES)
        for base_offset, batch in _compacted(source, before_ms):
            files.append(base_offset, batch)
        files.close()


def _compacted(source: Path, tombstones_before_ms: int) -> list[tuple[int, bytes]]:
    log, where = MemoryLog(), LogPartition(bytes(16), 0)
    log.create(where)
    for path in sorted(source.glob("*.log")):
        for header, batch in split_batches(path.read_bytes()):
            log.append(where, batch, _info(header))
    log.flush()
    end = log.bounds(where).flushed_offset
    for _ in compact(
        log, where, start=0, end=end, tombstones_before_ms=tombstones_before_ms
    ):
        pass
    log.flush()
    batches = log.read(where, 0, _ALL) if end else []
    return [
        (header.base_offset, each)
        for batch in batches
        for header, each in split_batches(batch)
    ]


def _info(header: BatchHeader) -> BatchInfo:
    return BatchInfo(
        header.base_offset,
        header.last_offset,
        header.max_timestamp_ms,
        header.size_bytes,
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
        header.last_sequence,
        header.is_transactional,
        header.is_control,
    )
