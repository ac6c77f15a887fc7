"""Readers of a generated log that share no code with its writer."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from coterie.broker.coordinator.record_serde import decode_record
from coterie.broker.coordinator.result import Origin, Record
from coterie.broker.coordinator.shard import Shard
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


def read_records(folder: Path) -> Iterator[Entry]:
    """Yield the records of one log partition in order; assert all checksums."""
    for path in sorted(folder.glob("*.log")):
        data = path.read_bytes()
        assert int(path.stem) == next(split_batches(data))[0].base_offset
        for header, batch in split_batches(data):
            assert crc_matches(batch)
            for record in decode_records(batch, header):
                yield header, record


def decode_entry(entry: LogRecord) -> Record:
    record = decode_record(entry.key, entry.value)
    assert record is not None
    return record


def replay_partition(folder: Path) -> Shard:
    """Return a shard that replayed a log partition."""
    shard = Shard(Settings())
    for header, entry in read_records(folder):
        who = header.producer_id, header.producer_epoch
        if header.is_control:
            marker = decode_marker(entry)
            assert marker is not None
            shard.replay_marker(*who, commit=marker.commit, log_offset=entry.offset)
        else:
            origin = Origin(entry.offset, entry.timestamp_ms, *who)
            shard.replay(decode_entry(entry), origin)
    return shard


def partition_folders(folder: Path) -> list[Path]:
    return sorted(folder.glob("__consumer_offsets-*"))


def read_truth(folder: Path, name: str) -> list[dict[str, Any]]:
    """Return the lines of one truth file."""
    text = (folder / "truth" / f"{name}.jsonl").read_text()
    return [json.loads(line) for line in text.splitlines()]


def all_bytes(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}
