"""Reads segment files and blobs in chunks of some MiB, each of them Arrow rows, faults
and the place to go on from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow.compute as pc

from coterie.errors import LogError, MalformedFrame
from coterie.pipeline.segments.rows import decode_batches
from coterie.pipeline.segments.transactions import Ended, Transactions
from coterie.pipeline.segments.walk import Fault, check_blob, walk
from coterie.wire.record_batch import BatchHeader, LogRecord, decode_records

CHUNK_BYTES: Final = 8 * 1024 * 1024
"""Larger chunks fall out of the processor's cache (spark.md 2.1)."""


class Place(NamedTuple):
    """Where to go on: at which byte of the file, and from which offset of the log."""

    position: int = 0
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Chunk:
    """What a part of a file or some blobs hold, in log order."""

    tables: tuple[Any, ...]
    """Arrow record batches of the schema BRONZE."""
    headers: tuple[BatchHeader, ...]
    faults: tuple[Fault, ...]
    transactions: Transactions
    ended: tuple[Ended, ...]
    """Transactions that ended in this chunk; their batches may be in earlier ones."""
    place: Place


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
        with path.open("rb") as file:
            size = file.seek(0, 2)
            at = place.position if _still_there(file, place, size) else 0
            offset, wanted = place.offset, 0
            while at < size:
                file.seek(at)
                data = file.read(max(chunk_bytes, wanted))
                found = walk(data, size - at)
                if not found.end:
                    wanted = max(found.wanted, 2 * len(data))
                    continue
                wanted = 0
                batches = [
                    (header, data[begin : begin + header.size_bytes])
                    for header, begin in zip(
                        found.headers, found.positions, strict=True
                    )
                ]
                faults = [
                    Fault(str(path), at + begin, length, reason)
                    for begin, length, reason in found.faults
                ]
                positions = [at + begin for begin in found.positions]
                at += found.end
                after = max([offset, *(each.last_offset + 1 for each in found.headers)])
                source = _Source(str(path), positions, faults)
                chunk = _chunk(batches, source, transactions, Place(at, after), offset)
                yield _from_offset(chunk, offset)
                offset, transactions = after, chunk.transactions
    except OSError as error:
        raise LogError(f"{path}: {error.strerror or error}") from None


def read_blobs(
    source: str,
    blobs: Iterable[bytes],
    transactions: Transactions = Transactions(),  # noqa: B008 - a value
    chunk_bytes: int = CHUNK_BYTES,
) -> Iterator[Chunk]:
    """Read blobs of one batch each, as a store keeps them. A fault's position, and that
    of a place, counts blobs."""
    pending: list[tuple[int, bytes]] = []
    size, count, offset = 0, 0, 0
    for count, blob in enumerate(blobs, 1):
        pending.append((count - 1, blob))
        size += len(blob)
        if size >= chunk_bytes:
            chunk = _blob_chunk(source, pending, transactions, Place(count, offset))
            transactions, offset = chunk.transactions, chunk.place.offset
            yield chunk
            pending, size = [], 0
    if pending:
        yield _blob_chunk(source, pending, transactions, Place(count, offset))


class _Source(NamedTuple):
    name: str
    positions: list[int]
    faults: list[Fault]


def _blob_chunk(
    name: str,
    blobs: list[tuple[int, bytes]],
    transactions: Transactions,
    place: Place,
) -> Chunk:
    batches, source = [], _Source(name, [], [])
    for number, blob in blobs:
        try:
            batches.append((check_blob(blob), blob))
            source.positions.append(number)
        except MalformedFrame as error:
            source.faults.append(Fault(name, number, len(blob), str(error)))
    after = max([place.offset, *(header.last_offset + 1 for header, _ in batches)])
    return _chunk(batches, source, transactions, Place(place.position, after))


def _chunk(
    batches: list[tuple[BatchHeader, bytes]],
    source: _Source,
    transactions: Transactions,
    place: Place,
    since: int = 0,
) -> Chunk:
    """Batches below the offset `since` were read, and their transactions followed,
    before."""
    rows = decode_batches(batches)
    faults = source.faults + [
        Fault(source.name, source.positions[index], len(batches[index][1]), reason)
        for index, reason in rows.faults
    ]
    after, ended = transactions.follow(
        (header, _marker(header, batch))
        for header, batch in batches
        if header.base_offset >= since
    )
    return Chunk(
        tables=tuple(rows.tables),
        headers=tuple(header for header, _ in batches),
        faults=tuple(sorted(faults, key=lambda each: each.position)),
        transactions=after,
        ended=ended,
        place=place,
    )


def _marker(header: BatchHeader, batch: bytes) -> LogRecord | None:
    if not header.is_control:
        return None
    try:
        return next(iter(decode_records(batch, header)), None)
    except MalformedFrame:
        return None


def _still_there(file: Any, place: Place, size: int) -> bool:
    """Whether the batch with the next offset may begin at the place's position."""
    if not 0 < place.position < size:
        return place.position in {0, size}
    file.seek(place.position)
    found = walk(file.read(CHUNK_BYTES), size - place.position)
    if found.wanted and not found.end:
        return True
    return (
        bool(found.positions)
        and found.positions[0] == 0
        and (found.headers[0].base_offset >= place.offset)
    )


def _from_offset(chunk: Chunk, offset: int) -> Chunk:
    """The chunk without rows below an offset, which were read before."""
    if all(header.base_offset >= offset for header in chunk.headers):
        return chunk
    tables = tuple(
        table.filter(pc.greater_equal(table["record_offset"], offset))
        for table in chunk.tables
    )
    return Chunk(
        tables=tuple(each for each in tables if len(each)),
        headers=tuple(each for each in chunk.headers if each.last_offset >= offset),
        faults=chunk.faults,
        transactions=chunk.transactions,
        ended=chunk.ended,
        place=chunk.place,
    )
