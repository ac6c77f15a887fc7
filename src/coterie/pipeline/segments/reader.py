"""Read a segment file in chunks of some MiB, as Arrow rows and faults."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow.compute as pc

from coterie.errors import LogError
from coterie.pipeline.segments.batch_headers import BatchHeaders
from coterie.pipeline.segments.record_rows import DecodedBatches, decode_batches
from coterie.pipeline.segments.scan import CHUNK_BYTES, Fault, ScannedChunk, scan


@dataclass(frozen=True, slots=True)
class SegmentChunk:
    """The content of a part of a segment file, in log order."""

    tables: tuple[Any, ...]
    """Arrow record batches of the schema BRONZE."""
    headers: BatchHeaders
    """Positions are those in the file."""
    faults: tuple[Fault, ...]
    end: int
    """The position in the file up to which it was read."""


def read_segment(
    path: Path, *, from_offset: int = 0, chunk_bytes: int = CHUNK_BYTES
) -> Iterator[SegmentChunk]:
    """Read a segment file; records below `from_offset` are left out.

    Raises LogError when the file cannot be read.
    """
    try:
        with path.open("rb", buffering=0) as file:
            chunks = scan(
                _LocalFile(file), str(path), verify=True, chunk_bytes=chunk_bytes
            )
            for chunk in chunks:
                begin = 0
                for rows in decode_batches(chunk.data, chunk.headers):
                    yield _group(path, chunk, begin, rows, from_offset)
                    begin = rows.end
    except OSError as error:
        raise LogError(f"{path}: {error.strerror or error}") from None


def _group(
    path: Path, chunk: ScannedChunk, begin: int, rows: DecodedBatches, from_offset: int
) -> SegmentChunk:
    """Return the content of the batches of a chunk from index `begin` on."""
    is_last = rows.end == len(chunk.headers)
    position = chunk.headers.position + chunk.at
    sizes = chunk.headers.size_bytes
    bases = chunk.headers.base_offset
    faults = [
        fault
        for before, fault in chunk.faults
        if begin <= before < rows.end or (is_last and before == rows.end)
    ]
    faults += [
        Fault(
            str(path), int(position[i]), int(sizes[i]), f"{reason} (offset {bases[i]})"
        )
        for i, reason in rows.faults
    ]
    headers = BatchHeaders(position, chunk.headers.fields)
    headers = headers.select(np.arange(begin, rows.end))
    tables = rows.tables
    if (headers.base_offset < from_offset).any():
        headers = headers.select(headers.last_offset >= from_offset)
        is_wanted = pc.field("record_offset") >= from_offset
        tables = [table.filter(is_wanted) for table in tables]
    end = chunk.end if is_last else int(position[rows.end])
    return SegmentChunk(
        tables=tuple(table for table in tables if len(table)),
        headers=headers,
        faults=tuple(sorted(faults, key=lambda each: each.position)),
        end=end,
    )


class _LocalFile:
    """A `scan.SegmentFile` over an open local file."""

    def __init__(self, file: BinaryIO) -> None:
        self._descriptor = file.fileno()

    def size(self) -> int:
        # Seeking fails for a pipe, whose size fstat would give as 0.
        return os.lseek(self._descriptor, 0, os.SEEK_END)

    def read_at(self, nbytes: int, offset: int) -> bytes:
        return os.pread(self._descriptor, nbytes, offset)
