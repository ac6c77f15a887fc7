"""Reads a generated log back, by other ways than those that wrote it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from coterie.coordinator.records.serde import decode_record
from coterie.coordinator.result import Origin, Record
from coterie.coordinator.shard import Shard
from coterie.settings import Settings
from coterie.wire.record_batch import (
    BatchHeader,
    LogRecord,
    crc_matches,
    decode_marker,
    decode_records,
    split_batches,
)

Entry = tuple[BatchHeader, LogRecord]


def log_of(folder: Path) -> Iterator[Entry]:
    """The records of one log partition in order; each checksum is right."""
    for path in sorted(folder.glob("*.log")):
        data = path.read_bytes()
        assert int(path.stem) == next(split_batches(data))[0].base_offset
        for header, batch in split_batches(data):
            assert crc_matches(batch)
            for record in decode_records(batch, header):
                yield header, record


def record_of(entry: LogRecord) -> Record:
    record = decode_record(entry.key, entry.value)
    assert record is not None
    return record


def replayed(folder: Path) -> Shard:
    """The shard that loads a log partition."""
    shard = Shard(Settings())
    for header, entry in log_of(folder):
        who = header.producer_id, header.producer_epoch
        if header.is_control:
            marker = decode_marker(entry)
            assert marker is not None
            shard.replay_marker(*who, commit=marker.commit, log_offset=entry.offset)
        else:
            origin = Origin(entry.offset, entry.timestamp_ms, *who)
            shard.replay(record_of(entry), origin)
    return shard


def partitions_of(folder: Path) -> list[Path]:
    return sorted(folder.glob("__consumer_offsets-*"))


def truth_of(folder: Path, name: str) -> list[dict[str, Any]]:
    """The lines of one file."""
    text = (folder / "truth" / f"{name}.jsonl").read_text()
    return [json.loads(line) for line in text.splitlines()]


def all_bytes(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}
