"""A generated log as silver tables, read by the slow ways that others are held to."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa

from coterie.pipeline.codec.oracle import SILVER, decode
from coterie.pipeline.tables.records import RECORDS
from coterie.wire.record_batch import BatchHeader, LogRecord, decode_marker
from tests.pipeline.generator.reading import (
    Entry,
    log_of,
    partitions_of,
    truth_of,
)
from tests.pipeline.gold.looks import parts_of

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Story:
    """A generated log, what was read of it, and what truly happened up to there."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.bronze = bronze_of(folder)
        self.silver = {"records": self.bronze, **silver_of(self.bronze)}
        self._ends: dict[int, int] = {}
        for row in self.bronze.select(["log_partition", "log_offset"]).to_pylist():
            self._ends[row["log_partition"]] = row["log_offset"] + 1

    def truth(self, name: str) -> list[dict[str, Any]]:
        """The lines of one file."""
        return truth_of(self._folder, name)

    def written(self, name: str) -> list[dict[str, Any]]:
        """The lines of what stands in the log as far as it was read: not behind a
        transaction that is open."""
        return [
            each
            for each in self.truth(name)
            if each["log_offset"] < self._ends.get(each["log_partition"], 0)
        ]

    def told(self, name: str) -> list[dict[str, Any]]:
        """Of these what counts: nothing that was aborted."""
        lines = self.written(name)
        return [each for each in lines if each.get("outcome") != "aborted"]

    def parts(self, *shares: float) -> list[dict[str, Any]]:
        """The silver tables in so many parts and one more, each for a run."""
        cuts = [cut_of(self.bronze, share) for share in shares]
        return parts_of(self.silver, cuts)


def bronze_of(folder: Path) -> Any:
    """The table `records`; each log partition up to where it is stable."""
    rows = [
        row
        for path in partitions_of(folder)
        for row in _rows(int(path.name.rpartition("-")[2]), list(log_of(path)))
    ]
    return pa.Table.from_pylist(rows, schema=RECORDS.schema)


def silver_of(bronze: Any) -> dict[str, Any]:
    """The silver tables by name."""
    [batch] = bronze.combine_chunks().to_batches()
    rows = decode(batch)
    return {each.name: pa.Table.from_batches([rows[each.name]]) for each in SILVER}


def time_of(at_ms: int) -> datetime:
    """A time of the truth's as one of the tables'."""
    return _EPOCH + timedelta(milliseconds=at_ms)


def _rows(log_partition: int, entries: list[Entry]) -> Iterator[dict[str, Any]]:
    outcomes = _outcomes(entries)
    for header, record in entries:
        is_part = header.is_transactional and not header.is_control
        outcome = outcomes.get((header.base_offset, header.producer_id))
        if is_part and outcome is None:
            return  # still open: nothing from here on is decided
        yield _row(log_partition, header, record, outcome if is_part else None)


def _outcomes(entries: list[Entry]) -> dict[tuple[int, int], str]:
    """By batch and producer: the next marker of its producer says."""
    waiting: dict[int, set[int]] = {}
    outcomes: dict[tuple[int, int], str] = {}
    for header, record in entries:
        if header.is_control:
            marker = decode_marker(record)
            assert marker is not None
            for base in waiting.pop(header.producer_id, ()):
                said = "committed" if marker.commit else "aborted"
                outcomes[base, header.producer_id] = said
        elif header.is_transactional:
            waiting.setdefault(header.producer_id, set()).add(header.base_offset)
    return outcomes


def _row(
    log_partition: int, header: BatchHeader, record: LogRecord, outcome: str | None
) -> dict[str, Any]:
    return {
        "log_partition": log_partition,
        "log_offset": record.offset,
        "append_ts": time_of(record.timestamp_ms),
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
    """In each log partition an offset after a batch, about so far into it."""
    ends: dict[int, list[int]] = {}
    for row in bronze.select(
        ["log_partition", "log_offset", "base_offset"]
    ).to_pylist():
        of = ends.setdefault(row["log_partition"], [])
        if row["log_offset"] == row["base_offset"]:
            of.append(row["log_offset"])
    return {each: of[int(share * len(of))] for each, of in ends.items()}
