"""Maintenance bounds the files of a lake; the rows stay the same."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from deltalake import DeltaTable

from coterie.pipeline.jobs.ingest import commit_rows
from coterie.pipeline.lake import maintenance
from coterie.pipeline.lake.lake import Lake
from coterie.pipeline.lake.maintenance import TAIL_FILES, maintain, vacuum
from coterie.pipeline.lake.manifest import TableState, list_versions
from coterie.pipeline.lake.writer import TableWriter
from coterie.pipeline.tables.ingested import OFFSET_COMMITS

pytestmark = pytest.mark.slow
START = datetime(2026, 11, 20, tzinfo=UTC)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake.create(tmp_path / "lake", "segments:/log")


def append(lake: Lake, number: int, rows: int = 4, day: int = 0) -> None:
    """Commit an increment of rows of offset_commits."""
    schema = OFFSET_COMMITS.file_schema
    at = START + timedelta(days=day, seconds=number)
    columns = {
        each.name: pa.nulls(rows, each.type)
        for each in schema
        if each.name not in {"append_ts", "log_offset", "metadata"}
    }
    columns["append_ts"] = pa.array([at] * rows, schema.field("append_ts").type)
    columns["log_offset"] = pa.array(range(number * rows, (number + 1) * rows))
    columns["metadata"] = pa.array([f"{number}-{each}" for each in range(rows)])
    step = lake.next_step()
    writer = TableWriter(lake.storage, OFFSET_COMMITS, step)
    writer.add(pa.table(columns).select(schema.names).cast(schema))
    commit_rows(lake, {"offset_commits": writer.close()}, step)


def read_through(lake: Lake, step: int) -> None:
    """Commit that a gold table has read the rows of steps up to this one."""
    state = TableState(through=step)
    lake.commit(
        (),
        lambda version: msgspec.structs.replace(
            version, tables={**version.tables, "current_offsets": state}
        ),
    )


def offsets(lake: Lake) -> list[int]:
    found: list[int] = lake.read("offset_commits")["log_offset"].to_pylist()
    return sorted(found)


def data_files(lake: Lake) -> list[Path]:
    return list(Path(lake.storage.root, "silver/offset_commits").rglob("*.parquet"))


def test_many_small_files_become_one_per_day(lake: Lake) -> None:
    for number in range(TAIL_FILES):
        append(lake, number)
        append(lake, number, day=1)
    before = lake.read("offset_commits").num_rows
    last = max(file.step for file in lake.files("offset_commits"))
    done = maintain(lake)
    assert (done.merged, done.into) == (2 * TAIL_FILES, 2)
    files = lake.files("offset_commits")
    assert [file.day for file in files] == ["2026-11-20", "2026-11-21"]
    assert max(file.step for file in files) == last
    delta = DeltaTable(f"{lake.storage.root}/silver/offset_commits")
    assert delta.count() == lake.rows("offset_commits") == before
    assert maintain(lake).merged == 0


def test_a_merge_does_not_change_the_data_of_the_delta_table(lake: Lake) -> None:
    for number in range(TAIL_FILES):
        append(lake, number)
    before = offsets(lake)
    maintain(lake)
    delta = DeltaTable(f"{lake.storage.root}/silver/offset_commits")
    log = Path(lake.storage.root, "silver/offset_commits/_delta_log")
    commit = (log / f"{delta.version():020}.json").read_text()
    assert '"dataChange":true' not in commit
    assert commit.count('"remove"') == TAIL_FILES
    assert offsets(lake) == before


def test_files_that_a_gold_table_has_not_read_are_not_merged(lake: Lake) -> None:
    for number in range(TAIL_FILES):
        append(lake, number)
    read = lake.version.step
    read_through(lake, read)
    append(lake, TAIL_FILES)
    assert maintain(lake).merged == TAIL_FILES
    merged, new = lake.files("offset_commits")
    assert merged.step == read < new.step


def test_a_large_file_is_not_written_again_with_each_small_one(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(lake, 0, rows=600_000)
    [large] = lake.files("offset_commits")
    for number in range(50_000, 50_000 + TAIL_FILES):
        append(lake, number)
    assert maintain(lake).merged == TAIL_FILES
    assert large in lake.files("offset_commits")
    monkeypatch.setattr(maintenance, "FILE_BYTES", 1)
    for number in range(60_000, 60_000 + TAIL_FILES):
        append(lake, number)
    assert maintain(lake).merged == 0


def test_the_files_of_many_increments_are_bounded(tmp_path: Path) -> None:
    lake = Lake.create(tmp_path / "lake", "segments:/log", keep_hours=0)
    counts = set()
    for number in range(600):
        append(lake, number)
        maintain(lake)
        counts.add(len(lake.files("offset_commits")))
    assert max(counts) <= 3 + TAIL_FILES
    assert len(offsets(lake)) == 2_400
    # Old files are deleted after every 50 versions.
    assert len(data_files(lake)) <= 3 + TAIL_FILES + 70
    assert len(list_versions(lake.storage)) <= 120
    log = Path(lake.storage.root, "silver/offset_commits/_delta_log")
    assert len(list(log.iterdir())) <= 250
    manifests = Path(lake.storage.root, "manifests").glob("*.json")
    assert max(each.stat().st_size for each in manifests) < 64 * 1024


def test_only_versions_that_are_kept_stay_readable(lake: Lake) -> None:
    for number in range(TAIL_FILES):
        append(lake, number)
    maintain(lake)
    assert len(data_files(lake)) == TAIL_FILES + 1
    assert vacuum(lake) == 0
    assert len(Lake.open(lake.storage.root, 2).read("offset_commits")) == 8
    lake.keep_hours = 0
    stray = Path(lake.storage.at("silver/offset_commits/00000001-stray.parquet"))
    stray.touch()
    assert vacuum(lake) == TAIL_FILES + 1
    assert not stray.exists()
    assert len(data_files(lake)) == 1
    assert len(offsets(Lake.open(lake.storage.root))) == 4 * TAIL_FILES
    append(lake, TAIL_FILES)
    assert len(offsets(Lake.open_to_write(lake.storage.root))) == 4 * TAIL_FILES + 4


def test_the_tables_that_a_table_was_built_from_stay_readable(lake: Lake) -> None:
    append(lake, 0)
    early: dict[str, Any] = {"offset_commits": lake.version.of("offset_commits").delta}
    for number in range(1, TAIL_FILES):
        append(lake, number)
    state = TableState(through=lake.version.step, read=early)
    lake.commit(
        (),
        lambda version: msgspec.structs.replace(
            version, tables={**version.tables, "current_offsets": state}
        ),
    )
    maintain(lake)
    lake.keep_hours = 0
    vacuum(lake)
    [file] = lake.files("offset_commits", early["offset_commits"])
    assert lake.file_dataset("offset_commits", [file]).to_table().num_rows == 4
