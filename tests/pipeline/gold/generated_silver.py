"""A generated log as silver tables, decoded by the slow reference decoder."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa

from coterie.pipeline.codec.decode import decode
from coterie.pipeline.codec.row_decoder import SILVER_TABLES
from coterie.pipeline.tables.ingested import RECORDS
from coterie.wire.record_batch import BatchHeader, LogRecord, decode_marker
from tests.pipeline.gold.memory_lake import parts_of
from tests.testing.log_generator.generated_log import (
    Entry,
    partition_folders,
    read_records,
    read_truth,
)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class GeneratedSilver:
    """A generated log: its silver tables, and the truth about the records that were
    read."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.bronze = bronze_of(folder)
        self.silver = {"records": self.bronze, **silver_of(self.bronze)}
        self._ends: dict[int, int] = {}
        for row in self.bronze.select(["log_partition", "log_offset"]).to_pylist():
            self._ends[row["log_partition"]] = row["log_offset"] + 1

    def truth(self, name: str) -> list[dict[str, Any]]:
        """Return the lines of one file of the truth."""
        return read_truth(self._folder, name)

    def read_lines(self, name: str) -> list[dict[str, Any]]:
        """Return the truth about the read records, which precede the first open
        transaction."""
        return [
            each
            for each in self.truth(name)
            if each["log_offset"] < self._ends.get(each["log_partition"], 0)
        ]

    def counted(self, name: str) -> list[dict[str, Any]]:
        """Return the truth about the read records, without aborted transactions."""
        lines = self.read_lines(name)
        return [each for each in lines if each.get("outcome") != "aborted"]

    def parts(self, *shares: float) -> list[dict[str, Any]]:
        """Split the silver tables at the given shares of the log, one part for each
        run."""
        cuts = [cut_of(self.bronze, share) for share in shares]
        return parts_of(self.silver, cuts)


def bronze_of(folder: Path) -> Any:
    """Return the table `records`, each log partition up to its last stable offset."""
    rows = [
        row
        for path in partition_folders(folder)
        for row in _rows(int(path.name.rpartition("-")[2]), list(read_records(path)))
    ]
    return pa.Table.from_pylist(rows, schema=RECORDS.schema)


def silver_of(bronze: Any) -> dict[str, Any]:
    """Return the silver tables by name."""
    [batch] = bronze.combine_chunks().to_batches()
    rows = decode(batch)
    return {
        each.name: pa.Table.from_batches([rows[each.name]]) for each in SILVER_TABLES
    }


def timestamp(at_ms: int) -> datetime:
    """Return a time of the truth as a timestamp of the tables."""
    return _EPOCH + timedelta(milliseconds=at_ms)


def _rows(log_partition: int, entries: list[Entry]) -> Iterator[dict[str, Any]]:
    outcomes = _outcomes(entries)
    for header, record in entries:
        is_part = header.is_transactional and not header.is_control
        outcome = outcomes.get((header.base_offset, header.producer_id))
        if is_part and outcome is None:
            return  # the last stable offset: an open transaction begins here
        yield _row(log_partition, header, record, outcome if is_part else None)


def _outcomes(entries: list[Entry]) -> dict[tuple[int, int], str]:
    """Return the outcome of each batch, from the next marker of its producer."""
    waiting: dict[int, set[int]] = {}
    outcomes: dict[tuple[int, int], str] = {}
    for header, record in entries:
        if header.is_control:
            marker = decode_marker(record)
            assert marker is not None
            for base in waiting.pop(header.producer_id, ()):
                outcome = "committed" if marker.commit else "aborted"
                outcomes[base, header.producer_id] = outcome
        elif header.is_transactional:
            waiting.setdefault(header.producer_id, set()).add(header.base_offset)
    return outcomes


def _row(
    log_partition: int, header: BatchHeader, record: LogRecord, outcome: str | None
) -> dict[str, Any]:
    return {
        "log_partition": log_partition,
        "log_offset": record.offset,
        "append_ts": timestamp(record.timestamp_ms),
        "base_offset": header.base_offset,
        "size_bytes": len(record.key or b"") + len(record.value or b""),
        "is_append_time": False,
        "key": record.key,
        "value": record.value,
        "headers": [],
        "leader_epoch": header.leader_epoch,
        "producer_id": header.producer_id,
        "producer_epoch": header.producer_epoch,
        "is_transactional": header.is_transactional,
        "is_control": header.is_control,
        "outcome": outcome,
    }


def cut_of(bronze: Any, share: float) -> dict[int, int]:
    """Return an offset between two batches at the given share of each log partition."""
    ends: dict[int, list[int]] = {}
    for row in bronze.select(
        ["log_partition", "log_offset", "base_offset"]
    ).to_pylist():
        of = ends.setdefault(row["log_partition"], [])
        if row["log_offset"] == row["base_offset"]:
            of.append(row["log_offset"])
    return {each: of[int(share * len(of))] for each, of in ends.items()}
