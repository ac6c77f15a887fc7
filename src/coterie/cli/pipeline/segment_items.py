"""Segment files as output items: their batches, or their records."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, Final, TextIO

from coterie.cli.output.emit import ProgressBar
from coterie.cli.output.outcome import Failure, Item
from coterie.errors import LogError
from coterie.pipeline.segments.batches import ZEROS, Fault
from coterie.pipeline.segments.records import SegmentChunk, read_segment
from coterie.records import UNKNOWN_TYPE, JsonRecord, marker_to_json, to_json
from coterie.wire.compression import Codec
from coterie.wire.record_batch import CODEC_BITS, BatchHeader, LogRecord

_COLUMNS: Final = ("record_offset", "timestamp_ms", "key", "value", "headers")
_BLOCK_ITEMS: Final = 10_000
"""Items in memory at a time: a small batch can have millions of records."""
_NOT_DECODED: Final = JsonRecord(None, None, None, None, None)


class SegmentItems:
    """The items of files, read one after the other. When `is_done`, `failures` lists
    the parts that could not be read, and the notes and the summary are complete.
    """

    def __init__(self, options: argparse.Namespace, stderr: TextIO) -> None:
        self._options = options
        self._left: int | None = options.limit
        self._bar = ProgressBar(stderr)
        self._preallocated: list[Fault] = []
        self._counts: Counter[str] = Counter()
        self.failures: list[Failure] = []
        self.is_done = False

    def blocks(self) -> Iterator[list[Item]]:
        """Yield the items of each chunk of each file as a list."""
        files: list[Path] = self._options.file
        sizes = [path.stat().st_size if path.is_file() else 0 for path in files]
        for number, path in enumerate(files):
            try:
                for block, position in self._read(path):
                    # The rows may go to the same terminal.
                    self._bar.clear()
                    yield block
                    self._bar(sum(sizes[:number]) + position, sum(sizes))
            except LogError as error:
                self.failures.append(Failure.of("file", path, error))
        self._bar.clear()
        self.is_done = True

    @property
    def has_unreadable(self) -> bool:
        """Whether any item has an error."""
        return self._counts["unread"] > 0

    @property
    def summary(self) -> dict[str, int]:
        """The numbers of files, items and errors."""
        return {"files": len(self._options.file), **self._counts}

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes that do not count as failures."""
        notes = []
        if others := self._counts[UNKNOWN_TYPE]:
            notes.append(
                f"records of streams groups or unknown types, shown in hex: {others}"
            )
        notes += [str(each) for each in self._preallocated]
        return tuple(notes)

    def _read(self, path: Path) -> Iterator[tuple[list[Item], int]]:
        """Yield the items of a file, and the position up to which it was read."""
        is_batches = self._options.batches
        make_items = _batch_items if is_batches else self._record_items
        for chunk in read_segment(path, from_offset=self._options.from_offset):
            if self._left == 0:
                return
            self._add_faults(chunk.faults)
            made = make_items(path, chunk)
            while items := list(islice(made, self._block_size())):
                if self._left is not None:
                    self._left -= len(items)
                self._counts["batches" if is_batches else "records"] += len(items)
                yield items, chunk.end

    def _block_size(self) -> int:
        return _BLOCK_ITEMS if self._left is None else min(self._left, _BLOCK_ITEMS)

    def _add_faults(self, faults: Iterable[Fault]) -> None:
        for each in faults:
            if each.reason == ZEROS:
                self._preallocated.append(each)
                continue
            where = f"{each.source} at byte {each.position}"
            message = f"{each.size_bytes} bytes left out: {each.reason}"
            self.failures.append(Failure("bytes", where, "BAD_BATCH", message))

    def _record_items(self, path: Path, chunk: SegmentChunk) -> Iterator[Item]:
        batches = {header.base_offset: (header, at) for header, at in _batches(chunk)}
        for begin in range(0, len(chunk.rows), _BLOCK_ITEMS):
            table = chunk.rows.slice(begin, _BLOCK_ITEMS)
            bases = table["base_offset"].to_pylist()
            columns = (table[name].to_pylist() for name in _COLUMNS)
            for base, *fields in zip(bases, *columns, strict=True):
                header, position = batches[base]
                record = LogRecord(*fields)
                yield {
                    "file": str(path),
                    "position": position,
                    **_batch_fields(header),
                    "offset": record.offset,
                    "timestamp_ms": _time(record.timestamp_ms),
                    **self._content(header, record),
                    "headers": [
                        {"name": each["name"], "value": _hex(each["value"])}
                        for each in fields[-1]
                    ],
                }

    def _content(self, header: BatchHeader, record: LogRecord) -> dict[str, Any]:
        """Return key and value, decoded or in hex, and the error."""
        decoded = _NOT_DECODED
        if not self._options.raw:
            decoded = (
                marker_to_json(record)
                if header.is_control
                else to_json(record.key, record.value)
            )
        error, unreadable = None, decoded.unreadable
        if unreadable is not None and unreadable.reason == UNKNOWN_TYPE:
            self._counts[UNKNOWN_TYPE] += 1
        elif unreadable is not None:
            self._counts["unread"] += 1
            error = {"code": unreadable.reason.upper(), "message": unreadable.message}
        is_decoded = decoded.key is not None
        return {
            "record_type": decoded.record_type,
            "kind": decoded.kind,
            "key": decoded.key if is_decoded else _hex_object(record.key),
            "value_version": decoded.value_version,
            "value": decoded.value if is_decoded else _hex_object(record.value),
            "error": error,
        }


def _batches(chunk: SegmentChunk) -> Iterator[tuple[BatchHeader, int]]:
    """Yield the header of each batch, and its position in the file."""
    for index, position in enumerate(chunk.headers.position.tolist()):
        yield chunk.headers.header(index), position


def _batch_items(path: Path, chunk: SegmentChunk) -> Iterator[Item]:
    for header, position in _batches(chunk):
        codec = header.attributes & CODEC_BITS
        yield {
            "file": str(path),
            "position": position,
            "size_bytes": header.size_bytes,
            **_batch_fields(header),
            "last_offset": header.last_offset,
            "records": header.record_count,
            "codec": Codec(codec).name.lower() if codec in _CODECS else str(codec),
            "crc": header.crc,
            "base_timestamp_ms": _time(header.base_timestamp_ms),
            "max_timestamp_ms": _time(header.max_timestamp_ms),
            "base_sequence": header.base_sequence,
            "last_sequence": header.last_sequence,
            "error": None,
        }


_CODECS: Final = frozenset(Codec)


def _batch_fields(header: BatchHeader) -> dict[str, Any]:
    return {
        "base_offset": header.base_offset,
        "leader_epoch": header.leader_epoch,
        "producer_id": header.producer_id,
        "producer_epoch": header.producer_epoch,
        "is_transactional": header.is_transactional,
        "is_control": header.is_control,
        "is_append_time": header.is_log_append_time,
    }


def _time(timestamp_ms: int) -> int | None:
    return None if timestamp_ms == -1 else timestamp_ms


def _hex(data: bytes | None) -> str | None:
    return None if data is None else data.hex()


def _hex_object(data: bytes | None) -> dict[str, str] | None:
    return None if data is None else {"hex": data.hex()}
