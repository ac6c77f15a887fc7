"""A generated log decoded into silver rows and group records, without Spark."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from coterie.pipeline.codec.decode import decode
from coterie.pipeline.gold.groups.rebalances import StormRule
from coterie.pipeline.gold.groups.record import Record
from coterie.pipeline.gold.groups.replay import GroupHistory, replay_group
from coterie.pipeline.tables.all_tables import TABLES
from coterie.pipeline.tables.ingested import RECORDS
from tests.testing.log_generator.generated_log import (
    partition_folders,
    read_records,
    read_truth,
)

Row = dict[str, Any]
Silver = dict[str, list[Row]]


class GeneratedLog(NamedTuple):
    """A generated log and its group records."""

    folder: Path
    records: Mapping[str, Sequence[Record]]
    names: Mapping[str, str]


def read_generated_log(folder: Path) -> GeneratedLog:
    """Read the log in a folder."""
    return GeneratedLog(folder, records_of(silver_of(folder)), topic_names_of(folder))


def silver_of(folder: Path) -> Silver:
    """Return all silver rows of a folder of segments. Transactions are not resolved:
    group records are never transactional."""
    rows_by_table: Silver = defaultdict(list)
    for path in partition_folders(folder):
        partition = int(path.name.rpartition("-")[2])
        rows = [_bronze(partition, *entry) for entry in read_records(path)]
        batch = pa.RecordBatch.from_pylist(rows, schema=RECORDS.schema)
        for name, table in decode(batch).items():
            rows_by_table[name] += table.to_pylist()
        rows_by_table["log_gaps"] += _gaps(
            partition, [row["log_offset"] for row in rows]
        )
    return rows_by_table


def _bronze(partition: int, header: Any, entry: Any) -> Row:
    return {
        "log_partition": partition,
        "log_offset": entry.offset,
        "append_ts": entry.timestamp_ms * 1000,
        "base_offset": header.base_offset,
        "size_bytes": len(entry.key or b"") + len(entry.value or b""),
        "is_append_time": False,
        "key": entry.key,
        "value": entry.value,
        "leader_epoch": 0,
        "producer_id": header.producer_id,
        "producer_epoch": header.producer_epoch,
        "is_transactional": header.is_transactional,
        "is_control": header.is_control,
    }


def _gaps(partition: int, offsets: Sequence[int]) -> Iterable[Row]:
    expected = 0
    for offset in offsets:
        if offset > expected:
            reason = "missing" if expected else "log_start"
            yield {
                "log_partition": partition,
                "from_offset": expected,
                "until_offset": offset,
                "reason": reason,
            }
        expected = offset + 1


def records_of(silver: Mapping[str, Sequence[Row]]) -> dict[str, list[Record]]:
    """Return the records of each group in log order."""
    gaps = defaultdict(list)
    for gap in silver["log_gaps"]:
        gaps[gap["log_partition"]].append(gap["until_offset"])
    rows = [
        *({**row, "record_type": 2} for row in silver["classic_group_records"]),
        *silver["consumer_group_records"],
        *(
            {**row, "is_tombstone": True}
            for row in silver["tombstones"]
            if row["record_type"] > 1  # 0 and 1 are offsets
        ),
    ]
    groups: dict[str, list[Record]] = defaultdict(list)
    for row in sorted(rows, key=lambda each: each["log_offset"]):
        before = [at for at in gaps[row["log_partition"]] if at <= row["log_offset"]]
        groups[row["group_id"]].append(_record(row, max(before, default=None)))
    return groups


def _record(row: Row, gap_offset: int | None) -> Record:
    values: Row = {name: row.get(name) for name in Record._fields}
    values |= {
        "at_us": micros_of(row["append_ts"]),
        "has_value": not row.get("is_tombstone", False),
        "gap_offset": gap_offset,
        "state_us": micros_of(row.get("state_ts")),
        "created_us": micros_of(row.get("created_ts")),
        "is_classic_member": row.get("classic_protocols") is not None,
    }
    return Record(**values)


def micros_of(at: Any) -> int | None:
    return None if at is None else round(at.timestamp() * 1_000_000)


def topic_names_of(folder: Path) -> dict[str, str]:
    return {each["topic_id"]: each["topic"] for each in read_truth(folder, "topics")}


def replayed_folder(folder: Path, truth: Path | None = None) -> dict[str, GroupHistory]:
    """Replay the groups of a log."""
    return replayed_groups(
        records_of(silver_of(folder)), topic_names_of(truth or folder)
    )


def replayed_groups(
    groups: Mapping[str, Sequence[Record]], names: Mapping[str, str]
) -> dict[str, GroupHistory]:
    """Replay groups from their records."""
    return {
        group_id: replay_group(group_id, records, names, StormRule())
        for group_id, records in groups.items()
    }


def arrow_tables(silver: Mapping[str, Sequence[Row]]) -> dict[str, pa.Table]:
    """Return the silver tables in Arrow."""
    return {
        table.name: pa.Table.from_pylist(list(silver.get(table.name, ())), table.schema)
        for table in TABLES.values()
    }
