"""Tests for the files that one writer makes of a table's rows."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from coterie.pipeline.lake import writer as writer_module
from coterie.pipeline.lake.delta import NO_DAY, folder_of
from coterie.pipeline.lake.storage import Storage
from coterie.pipeline.lake.writer import TableWriter
from coterie.pipeline.tables.ingested import RECORDS, TOMBSTONES
from coterie.pipeline.tables.table import DAY

DAY_US = 86_400 * 1_000_000


def rows(partition: int, times: list[int | None]) -> Any:
    """Return records of a log partition with these times."""
    made = {
        "log_partition": [partition] * len(times),
        "log_offset": list(range(len(times))),
        "append_ts": times,
    }
    nothing: dict[Any, Any] = {pa.bool_(): False, pa.string(): None}
    columns = [
        pa.array(
            made.get(each.name) or [nothing.get(each.type, 0)] * len(times), each.type
        )
        if each.name not in ("key", "value", "headers")
        else pa.nulls(len(times), each.type)
        for each in RECORDS.schema
    ]
    return pa.record_batch(columns, RECORDS.schema)


def written(writer: TableWriter, folder: Path) -> dict[str, list[tuple[int, int]]]:
    """Return the partitions and offsets in each day's only file."""
    found: dict[str, list[tuple[int, int]]] = {}
    for file in writer.close():
        day = file.path.partition("/")[0].removeprefix(f"{DAY}=")
        assert day not in found
        table = pq.ParquetFile(folder / folder_of(RECORDS) / file.path).read()
        columns = (table["log_partition"], table["log_offset"])
        found[day] = list(zip(*(each.to_pylist() for each in columns), strict=True))
    return found


def test_log_partitions_with_many_days_make_one_file_a_day(tmp_path: Path) -> None:
    writer = TableWriter(Storage(tmp_path), RECORDS, 1)
    days = 40
    for partition in range(12):
        for begin in (0, days // 2):
            times: list[int | None] = [
                (begin + at // 3) * DAY_US for at in range(3 * days // 2)
            ]
            writer.add(rows(partition, times))
    found = written(writer, tmp_path)
    assert len(found) == days
    assert writer.rows == 12 * 3 * days == sum(map(len, found.values()))
    first = found["1970-01-01"]
    assert first == [(each, at) for each in range(12) for at in range(3)]


@pytest.mark.parametrize("runs", [4, 10_000])
def test_times_in_any_order_are_in_the_files_of_their_days(
    tmp_path: Path, runs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer_module, "_RUNS_MAX", runs)
    rng = Random(1)
    days = [rng.choice([None, 0, 1, 2]) for _ in range(200)]
    times = [None if each is None else each * DAY_US + 7 for each in days]
    writer = TableWriter(Storage(tmp_path), RECORDS, 1)
    writer.add(rows(0, times))
    found = written(writer, tmp_path)
    names = {None: NO_DAY, 0: "1970-01-01", 1: "1970-01-02", 2: "1970-01-03"}
    assert found == {
        name: [(0, at) for at, each in enumerate(days) if each == day]
        for day, name in names.items()
    }


def test_no_more_rows_than_the_limit_wait_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer_module, "_PENDING_ROWS", 100)
    writer = TableWriter(Storage(tmp_path), RECORDS, 1)
    for _ in range(50):
        writer.add(rows(0, [day * DAY_US for day in range(8)]))
        assert writer._pending_rows <= 100
    found = written(writer, tmp_path)
    assert {name: len(each) for name, each in found.items()} == {
        f"1970-01-0{day + 1}": 50 for day in range(8)
    }


def test_rows_that_wait_are_gone_with_the_files_after_an_error(tmp_path: Path) -> None:
    writer = TableWriter(Storage(tmp_path), RECORDS, 1)
    writer.add(rows(0, [0] * 10))
    writer.discard()
    assert not list(tmp_path.rglob("*.parquet"))
    assert TableWriter(Storage(tmp_path), TOMBSTONES, 1).close() == ()
