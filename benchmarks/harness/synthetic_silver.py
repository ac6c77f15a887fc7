"""Synthetic silver tables: the commits and tombstones of a log of several weeks.

1,000 groups with 29 partitions each, in 50 log partitions; 0.5 % of the records are
tombstones, each followed by commits for the same partition; 3 % of the commits have
metadata. A file has a million rows in order of log partition and offset, as ingest
writes them.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from coterie.pipeline.tables.ingested import OFFSET_COMMITS, TOMBSTONES
from coterie.pipeline.tables.table import Table

GROUPS: Final = 1_000
PARTITIONS: Final = 29
LOG_PARTITIONS: Final = 50
FILE_ROWS: Final = 1_000_000
_START_US: Final = 1_767_225_600_000_000
_PER_SECOND: Final = 100
_TOMBSTONE_ONE_IN: Final = 200


class Chunk(NamedTuple):
    """The columns of one file, before the division into tables."""

    log_partition: Any
    log_offset: Any
    at_us: Any
    group: Any
    partition: Any
    offset: Any
    is_tombstone: Any


def write_synthetic_silver(folder: Path, commits: int, *, first: int = 0) -> None:
    """Write `commits` records, starting with record number `first`.

    Offsets increase with time. The same arguments give the same rows.
    """
    for start in range(first, first + commits, FILE_ROWS):
        chunk = _chunk(start, min(FILE_ROWS, first + commits - start))
        for table, rows in ((OFFSET_COMMITS, _commits), (TOMBSTONES, _tombstones)):
            path = folder / table.name / f"{start:012d}.parquet"
            path.parent.mkdir(parents=True, exist_ok=True)
            pq.write_table(rows(chunk, table), path, compression="zstd")


def _chunk(start: int, count: int) -> Chunk:
    rng = np.random.default_rng(start)
    number = np.arange(start, start + count, dtype=np.int64)
    group = rng.integers(0, GROUPS, count).astype(np.int32)
    log_partition = (group % LOG_PARTITIONS).astype(np.int32)
    order = np.lexsort((number, log_partition))
    number, group = number[order], group[order]
    return Chunk(
        log_partition=log_partition[order],
        log_offset=number,
        at_us=_START_US + number * (1_000_000 // _PER_SECOND),
        group=group,
        partition=rng.integers(0, PARTITIONS, count).astype(np.int32),
        offset=number * 10 + rng.integers(-20, 20, count),
        is_tombstone=rng.integers(0, _TOMBSTONE_ONE_IN, count) == 0,
    )


def _named(texts: list[str], index: Any) -> Any:
    return pa.DictionaryArray.from_arrays(pa.array(index), pa.array(texts)).cast(
        pa.string()
    )


def _common(chunk: Chunk, rows: Any) -> Iterator[tuple[str, Any]]:
    group = chunk.group[rows]
    yield "log_partition", pa.array(chunk.log_partition[rows])
    yield "log_offset", pa.array(chunk.log_offset[rows])
    yield "append_ts", pa.array(chunk.at_us[rows], pa.timestamp("us", "UTC"))
    yield "base_offset", pa.array(chunk.log_offset[rows])
    yield "size_bytes", pa.array(np.full(len(group), 90, np.int32))
    yield (
        "group_id",
        _named([f"team-{i % 7}-loader-{i:04d}" for i in range(GROUPS)], group),
    )
    yield "topic", _named([f"orders.events.{i // 3:04d}" for i in range(GROUPS)], group)
    yield "partition", pa.array(chunk.partition[rows])


def _commits(chunk: Chunk, table: Table) -> Any:
    rows = ~chunk.is_tombstone
    columns = dict(_common(chunk, rows))
    offset = chunk.offset[rows]
    count = len(offset)
    columns |= {
        "committed_offset": pa.array(np.maximum(offset, 0)),
        "leader_epoch": pa.array(np.full(count, 4, np.int32)),
        "metadata": _named(["", "host-17"], (offset % 33 == 0).astype(np.int8)),
        "commit_ts": columns["append_ts"],
        "value_version": pa.array(np.full(count, 3, np.int16)),
        "is_transactional": pa.array(np.zeros(count, bool)),
    }
    return _table(columns, count, table)


def _tombstones(chunk: Chunk, table: Table) -> Any:
    columns = dict(_common(chunk, chunk.is_tombstone))
    count = len(columns["log_offset"])
    columns["record_type"] = pa.array(np.full(count, 1, np.int16))
    return _table(columns, count, table)


def _table(columns: dict[str, Any], count: int, table: Table) -> Any:
    arrays = [
        columns.get(field.name, pa.nulls(count, field.type)) for field in table.schema
    ]
    return pa.table(arrays, schema=table.schema)
