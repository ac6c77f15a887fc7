"""Builders of record batches and segment files, copies of a broker's log, and readers
of whole sources."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from crc32c import crc32c

from coterie.client.admin.fetch import fetch_log
from coterie.client.settings.portable import PortableSettings
from coterie.pipeline.sources.cluster import (
    ClusterConnection,
    open_cluster,
)
from coterie.pipeline.sources.planning import plan
from coterie.pipeline.sources.source import OffsetRange, Source
from coterie.types import OFFSETS_TOPIC, TopicPartition
from coterie.wire.record_batch import (
    TRANSACTIONAL,
    LogRecord,
    Producer,
    encode_batch,
    encode_marker,
    whole_batches,
)


def plain(offset: int, count: int = 1, *, time: int = 1_000, size: int = 1) -> bytes:
    """Return a batch of records from `offset`."""
    records = [
        LogRecord(at, time, b"k%d" % at, b"v" * size)
        for at in range(offset, offset + count)
    ]
    return encode_batch(records)


def of_transaction(offset: int, producer: int, count: int = 1) -> bytes:
    """Return a batch of a producer's transaction."""
    records = [
        LogRecord(at, 1_000, b"k%d" % at, b"v") for at in range(offset, offset + count)
    ]
    return encode_batch(
        records, producer=Producer(producer, 0, 0), attributes=TRANSACTIONAL
    )


def marker(offset: int, producer: int, *, commit: bool) -> bytes:
    """Return a transaction marker."""
    return encode_marker(offset, 1_000, producer, 0, commit=commit)


def with_holes(offsets: Sequence[int], base: int, last: int) -> bytes:
    """Return a compacted batch with records at some offsets, or with none."""
    records = [LogRecord(at, 1_000, b"k%d" % at, b"v") for at in offsets]
    if records:
        return encode_batch(records, base_offset=base, last_offset=last)
    return emptied(base, last)


def emptied(base: int, last: int) -> bytes:
    """Return a batch without records, which compaction keeps for the producer's
    state."""
    body = struct.pack(">hiqqqhii", 0, last - base, 1_000, 1_000, 5, 0, 0, 0)
    return struct.pack(">qiibI", base, len(body) + 9, 0, 2, crc32c(body)) + body


def write(
    folder: Path, files: Mapping[int, Iterable[bytes]], partition: int = 0
) -> Path:
    """Write the segments of a log partition, by their first offset."""
    of_partition = folder / f"__consumer_offsets-{partition}"
    of_partition.mkdir(parents=True, exist_ok=True)
    for first, batches in files.items():
        (of_partition / f"{first:020d}.log").write_bytes(b"".join(batches))
    return folder


def copy_log(bootstrap: str, folder: Path) -> Path:
    """Write the offsets topic of a broker, fetched over the wire, as its segments."""
    heads = open_cluster(bootstrap).heads()
    settings = PortableSettings.of_texts({"bootstrap.servers": bootstrap})
    with ClusterConnection(settings) as connection:
        for number, head in heads.items():
            partition = TopicPartition(OFFSETS_TOPIC, number)
            batches, at = list[bytes](), head.start_offset
            while at < head.end_offset:
                call = fetch_log(
                    connection.cluster, partition, at, committed_only=False
                )
                for header, batch in whole_batches(connection.wait(call).data):
                    batches.append(batch)
                    at = header.last_offset + 1
            write(folder, {0: batches}, number)
    return folder


class Read(NamedTuple):
    """The rows of a source as Python values."""

    records: list[dict[str, Any]]
    faults: list[dict[str, Any]]
    gaps: list[dict[str, Any]]
    positions: dict[int, int]

    @property
    def offsets(self) -> list[int]:
        """The offsets of the records."""
        return [each["log_offset"] for each in self.records]

    @property
    def outcomes(self) -> dict[int, str | None]:
        """The outcome of each record, by offset."""
        return {each["log_offset"]: each["outcome"] for each in self.records}

    @property
    def missing(self) -> list[tuple[int, int, str]]:
        """The gaps."""
        return [
            (each["from_offset"], each["until_offset"], each["reason"])
            for each in self.gaps
        ]


def read_ranges(source: Source, ranges: Iterable[OffsetRange]) -> Read:
    """Read ranges one after the other; assert the end of each."""
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
    """Read all stable records, in planned ranges."""
    return read_ranges(source, plan(source.heads(), {}))


def read_in_many_runs(source: Source, max_records: int) -> Read:
    """Read all stable records in many runs; return the records by log partition."""
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
