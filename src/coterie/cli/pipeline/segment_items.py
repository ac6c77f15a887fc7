"""What segment files hold, as items for output: batches, or their records."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, Final, TextIO

from coterie.cli.output.progress import Bar
from coterie.cli.output.values import Failure, Item
from coterie.errors import LogError
from coterie.pipeline.codec.words import Words, words_of, words_of_marker
from coterie.pipeline.segments.reader import Chunk, Place, read_segment
from coterie.pipeline.segments.walk import ZEROS, Fault
from coterie.wire.compression import Codec
from coterie.wire.record_batch import CODEC_BITS, BatchHeader, LogRecord

_UNKNOWN_TYPE: Final = "unknown_type"
_COLUMNS: Final = ("record_offset", "timestamp_ms", "key", "value", "headers")


class Reading:
    """Reads files one after the other. When that is done, `failures` has what did not
    read and has no item, and there are notes and a summary."""

    def __init__(self, options: argparse.Namespace, stderr: TextIO) -> None:
        self._options = options
        self._left: int | None = options.limit
        self._bar = Bar(stderr)
        self._filled: list[Fault] = []
        self._counts: Counter[str] = Counter()
        self.failures: list[Failure] = []
        self.is_done = False

    def blocks(self) -> Iterator[list[Item]]:
        """Some items at a time."""
        files: list[Path] = self._options.file
        sizes = [path.stat().st_size if path.is_file() else 0 for path in files]
        for number, path in enumerate(files):
            try:
                for block, position in self._read(path):
                    yield block
                    self._bar(sum(sizes[:number]) + position, sum(sizes))
            except LogError as error:
                self.failures.append(Failure.of("file", path, error))
        self._bar.clear()
        self.is_done = True

    @property
    def has_unread(self) -> bool:
        """Whether some item has an error."""
        return self._counts["unread"] > 0

    @property
    def summary(self) -> dict[str, int]:
        """How much there was."""
        return {"files": len(self._options.file), **self._counts}

    @property
    def notes(self) -> tuple[str, ...]:
        """What people should know besides."""
        notes = []
        if others := self._counts["unknown_type"]:
            notes.append(
                "records of types that are of share or streams groups, or unknown,"
                f" so not of consumer groups, and shown in hex: {others}"
            )
        notes += [str(each) for each in self._filled]
        return tuple(notes)

    def _read(self, path: Path) -> Iterator[tuple[list[Item], int]]:
        """The items of a file, and how far it was read."""
        begin = Place(0, self._options.from_offset)
        make = _batch_items if self._options.batches else self._record_items
        for chunk in read_segment(path, begin):
            if self._left == 0:
                return
            self._note(chunk.faults)
            items = list(islice(make(path, chunk), self._left))
            if self._left is not None:
                self._left -= len(items)
            self._counts["batches" if self._options.batches else "records"] += len(
                items
            )
            yield items, chunk.place.position

    def _note(self, faults: Iterable[Fault]) -> None:
        for each in faults:
            if each.reason == ZEROS:
                self._filled.append(each)
                continue
            where = f"{each.source} at byte {each.position}"
            message = f"{each.size_bytes} bytes left out: {each.reason}"
            self.failures.append(Failure("bytes", where, "BAD_BATCH", message))

    def _record_items(self, path: Path, chunk: Chunk) -> Iterator[Item]:
        positions = chunk.batches.position.tolist()
        where = {
            each.base_offset: (each, position)
            for each, position in zip(chunk.headers, positions, strict=True)
        }
        for table in chunk.tables:
            bases = table["base_offset"].to_pylist()
            columns = (table[name].to_pylist() for name in _COLUMNS)
            for base, *fields in zip(bases, *columns, strict=True):
                header, position = where[base]
                record = LogRecord(*fields)
                yield {
                    "file": str(path),
                    "position": position,
                    **_batch_facts(header),
                    "offset": record.offset,
                    "timestamp_ms": _told(record.timestamp_ms),
                    **self._said(header, record),
                    "headers": _headers(record.headers),
                }

    def _said(self, header: BatchHeader, record: LogRecord) -> dict[str, Any]:
        """Key and value; why they do not read, if so."""
        words = _NO_WORDS
        if not self._options.raw:
            key, value = record.key, record.value
            is_marker = header.is_control
            words = words_of_marker(record) if is_marker else words_of(key, value)
        error, unread = None, words.unread
        if unread is not None and unread.reason == _UNKNOWN_TYPE:
            self._counts[_UNKNOWN_TYPE] += 1
        elif unread is not None:
            self._counts["unread"] += 1
            error = {"code": unread.reason.upper(), "message": unread.message}
        known = words.key is not None
        return {
            "record_type": words.record_type,
            "kind": words.kind,
            "key": words.key if known else _in_hex(record.key),
            "value_version": words.value_version,
            "value": words.value if known else _in_hex(record.value),
            "error": error,
        }


_NO_WORDS: Final = Words(None, None, None, None, None)


def _batch_items(path: Path, chunk: Chunk) -> Iterator[Item]:
    positions = chunk.batches.position.tolist()
    for header, position in zip(chunk.headers, positions, strict=True):
        codec = header.attributes & CODEC_BITS
        yield {
            "file": str(path),
            "position": position,
            "size_bytes": header.size_bytes,
            **_batch_facts(header),
            "last_offset": header.last_offset,
            "records": header.record_count,
            "codec": Codec(codec).name.lower() if codec in _CODECS else str(codec),
            "crc": header.crc,
            "base_timestamp_ms": _told(header.base_timestamp_ms),
            "max_timestamp_ms": _told(header.max_timestamp_ms),
            "base_sequence": header.base_sequence,
            "last_sequence": header.last_sequence,
            "error": None,
        }


_CODECS: Final = frozenset(Codec)


def _batch_facts(header: BatchHeader) -> dict[str, Any]:
    return {
        "base_offset": header.base_offset,
        "leader_epoch": header.leader_epoch,
        "producer_id": header.producer_id,
        "producer_epoch": header.producer_epoch,
        "is_transactional": header.is_transactional,
        "is_control": header.is_control,
        "is_append_time": header.is_log_append_time,
    }


def _headers(headers: Any) -> list[Item]:
    """As Arrow gives them."""
    return [{"name": each["name"], "value": _hex(each["value"])} for each in headers]


def _told(timestamp_ms: int) -> int | None:
    return None if timestamp_ms == -1 else timestamp_ms


def _hex(data: bytes | None) -> str | None:
    return None if data is None else data.hex()


def _in_hex(data: bytes | None) -> dict[str, str] | None:
    return None if data is None else {"hex": data.hex()}
