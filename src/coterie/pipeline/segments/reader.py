"""Reads segment files in chunks of some MiB, each of them Arrow rows, faults and the
place to go on from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow.compute as pc

from coterie.errors import LogError, MalformedFrame
from coterie.pipeline.segments.batches import Batches
from coterie.pipeline.segments.rows import decode_batches
from coterie.pipeline.segments.transactions import Ended, Transactions
from coterie.pipeline.segments.walk import Fault, walk
from coterie.wire.record_batch import (
    TRANSACTIONAL,
    BatchHeader,
    LogRecord,
    decode_records,
)

CHUNK_BYTES: Final = 8 * 1024 * 1024
"""Larger chunks fall out of the processor's cache (spark.md 2.1)."""


class Place(NamedTuple):
    """Where to go on: at which byte of the file, and from which offset of the log."""

    position: int = 0
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Chunk:
    """What a part of a file holds, in log order."""

    tables: tuple[Any, ...]
    """Arrow record batches of the schema BRONZE."""
    batches: Batches
    """Their headers; positions are bytes of the file."""
    faults: tuple[Fault, ...]
    transactions: Transactions
    ended: tuple[Ended, ...]
    """Transactions that ended in this chunk; their batches may be in earlier ones."""
    place: Place

    @property
    def headers(self) -> tuple[BatchHeader, ...]:
        """The headers as objects, made anew each time."""
        return tuple(map(self.batches.header, range(len(self.batches))))


def read_segment(
    path: Path,
    place: Place = Place(),  # noqa: B008 - a value
    transactions: Transactions = Transactions(),  # noqa: B008 - a value
    chunk_bytes: int = CHUNK_BYTES,
) -> Iterator[Chunk]:
    """Read a segment from a place on.

    When the file was compacted since and no batch begins at that position any more, it
    is read from its beginning; rows below the offset are left out either way. Raises
    LogError when the file cannot be read.
    """
    try:
        with path.open("rb", buffering=0) as file:
            size = file.seek(0, 2)
            at = place.position if _still_there(file, place, size) else 0
            offset, wanted = place.offset, 0
            while at < size:
                file.seek(at)
                asked = min(max(chunk_bytes, wanted), size - at)
                data = file.read(asked)
                if len(data) < asked:  # it was cut since
                    size = at + len(data)
                found = walk(data, size - at)
                if not found.end:
                    wanted = max(found.wanted, 2 * len(data))
                    continue
                wanted = 0
                batches = Batches.read(data, found.positions)
                faults = [
                    Fault(str(path), at + begin, length, reason)
                    for begin, length, reason in found.faults
                ]
                after = _after(batches, offset)
                place = Place(at + found.end, after)
                source = _Source(str(path), batches.moved(at), faults)
                chunk = _chunk(data, batches, source, transactions, place, offset)
                yield _from_offset(chunk, offset)
                at, offset, transactions = *place, chunk.transactions
    except OSError as error:
        raise LogError(f"{path}: {error.strerror or error}") from None


class _Source(NamedTuple):
    name: str
    batches: Batches
    """Where they are in the source."""
    faults: list[Fault]


def _after(batches: Batches, offset: int) -> int:
    """The offset after all of these, which is not below `offset`."""
    return int((batches.last_offset + 1).max(initial=offset))


def _chunk(
    data: bytes,
    batches: Batches,
    source: _Source,
    transactions: Transactions,
    place: Place,
    since: int = 0,
) -> Chunk:
    """Batches below the offset `since` were read, and their transactions followed,
    before."""
    rows = decode_batches(data, batches)
    where, sizes = source.batches.position, batches.size_bytes
    faults = source.faults + [
        Fault(source.name, int(where[index]), int(sizes[index]), reason)
        for index, reason in rows.faults
    ]
    of_transactions = batches.has(TRANSACTIONAL) & (batches.base_offset >= since)
    after, ended = transactions.follow(
        _with_marker(data, batches, index)
        for index in np.flatnonzero(of_transactions).tolist()
    )
    return Chunk(
        tables=tuple(rows.tables),
        batches=source.batches,
        faults=tuple(sorted(faults, key=lambda each: each.position)),
        transactions=after,
        ended=ended,
        place=place,
    )


def _with_marker(
    data: bytes, batches: Batches, index: int
) -> tuple[BatchHeader, LogRecord | None]:
    """A batch's header, and its marker if it has one."""
    header, begin = batches.header(index), int(batches.position[index])
    if not header.is_control:
        return header, None
    try:
        records = decode_records(data[begin : begin + header.size_bytes], header)
        return header, next(iter(records), None)
    except MalformedFrame:
        return header, None


def _still_there(file: Any, place: Place, size: int) -> bool:
    """Whether the batch with the next offset may begin at the place's position."""
    if not 0 < place.position < size:
        return place.position in {0, size}
    file.seek(place.position)
    data = file.read(CHUNK_BYTES)
    found = walk(data, size - place.position)
    if found.wanted and not found.end:
        return True
    if not found.positions or found.positions[0] != 0:
        return False
    return int(Batches.read(data, [0]).base_offset[0]) >= place.offset


def _from_offset(chunk: Chunk, offset: int) -> Chunk:
    """The chunk without rows below an offset, which were read before."""
    if (chunk.batches.base_offset >= offset).all():
        return chunk
    tables = tuple(
        table.filter(pc.greater_equal(table["record_offset"], offset))
        for table in chunk.tables
    )
    return replace(
        chunk,
        tables=tuple(each for each in tables if len(each)),
        batches=chunk.batches.some(chunk.batches.last_offset >= offset),
    )
