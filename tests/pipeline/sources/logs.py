"""Logs made of batches, written to files, and read back through a source."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from crc32c import crc32c

from coterie.pipeline.sources.planning import plan
from coterie.pipeline.sources.source import OffsetRange, Source
from coterie.wire.record_batch import (
    TRANSACTIONAL,
    LogRecord,
    Producer,
    encode_batch,
    encode_marker,
)


def plain(offset: int, count: int = 1, *, time: int = 1_000, size: int = 1) -> bytes:
    """A batch of records at `offset` and after."""
    records = [
        LogRecord(at, time, b"k%d" % at, b"v" * size)
        for at in range(offset, offset + count)
    ]
    return encode_batch(records)


def of_transaction(offset: int, producer: int, count: int = 1) -> bytes:
    """A batch that counts when the producer's transaction commits."""
    records = [
        LogRecord(at, 1_000, b"k%d" % at, b"v") for at in range(offset, offset + count)
    ]
    return encode_batch(
        records, producer=Producer(producer, 0, 0), attributes=TRANSACTIONAL
    )


def marker(offset: int, producer: int, *, commit: bool) -> bytes:
    """The end of a transaction."""
    return encode_marker(offset, 1_000, producer, 0, commit=commit)


def with_holes(offsets: Sequence[int], base: int, last: int) -> bytes:
    """What compaction leaves of a batch; nothing of its records, with no offsets."""
    records = [LogRecord(at, 1_000, b"k%d" % at, b"v") for at in offsets]
    if records:
        return encode_batch(records, base_offset=base, last_offset=last)
    return emptied(base, last)


def emptied(base: int, last: int) -> bytes:
    """A batch without records, which compaction keeps for its producer's sake."""
    body = struct.pack(">hiqqqhii", 0, last - base, 1_000, 1_000, 5, 0, 0, 0)
    return struct.pack(">qiibI", base, len(body) + 9, 0, 2, crc32c(body)) + body


def write(
    folder: Path, files: Mapping[int, Iterable[bytes]], partition: int = 0
) -> Path:
    """Files by their first offset."""
    of_partition = folder / f"__consumer_offsets-{partition}"
    of_partition.mkdir(parents=True, exist_ok=True)
    for first, batches in files.items():
        (of_partition / f"{first:020d}.log").write_bytes(b"".join(batches))
    return folder


class Read(NamedTuple):
    """All that was read, as Python values."""

    records: list[dict[str, Any]]
    faults: list[dict[str, Any]]
    gaps: list[dict[str, Any]]
    positions: dict[int, int]

    @property
    def offsets(self) -> list[int]:
        """Offsets of the records."""
        return [each["log_offset"] for each in self.records]

    @property
    def outcomes(self) -> dict[int, str | None]:
        """What became of each record, by offset."""
        return {each["log_offset"]: each["outcome"] for each in self.records}

    @property
    def missing(self) -> list[tuple[int, int, str]]:
        """The gaps."""
        return [
            (each["from_offset"], each["until_offset"], each["reason"])
            for each in self.gaps
        ]


def read_ranges(source: Source, ranges: Iterable[OffsetRange]) -> Read:
    """Read some ranges one after the other; each ends where it should."""
    read = Read([], [], [], {})
    for part in ranges:
        found = list(source.read(part))
        assert found[-1].next_offset == part.until_offset
        for rows in found:
            read.records.extend(rows.records.to_pylist())
            read.faults.extend(rows.faults.to_pylist())
            read.gaps.extend(rows.gaps.to_pylist())
        read.positions[part.log_partition] = part.until_offset
    return read


def read_all(source: Source) -> Read:
    """Read what is stable, in the ranges that are planned."""
    return read_ranges(source, plan(source.heads(), {}))


def read_bit_by_bit(source: Source, max_records: int) -> Read:
    """The same in many runs, by log partition."""
    read = Read([], [], [], {})
    while True:
        ranges = plan(
            source.heads(read.positions), read.positions, max_records=max_records
        )
        if not ranges:
            for rows in read[:3]:
                rows.sort(key=lambda row: row["log_partition"])
            return read
        more = read_ranges(source, ranges)
        for mine, new in zip(read[:3], more[:3], strict=True):
            mine.extend(new)
        read.positions.update(more.positions)
