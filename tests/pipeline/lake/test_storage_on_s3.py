"""A lake in an S3-compatible object store with conditional writes.

Steps run in this process. The gold tables of a lake in S3 need Spark with the jars of
hadoop-aws; docs/pipeline-cluster.md says what was tried.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import polars as pl
import pytest
from deltalake import DeltaTable

from coterie.errors import LogError, SettingError
from coterie.pipeline.jobs.ingest import INGESTED_TABLES
from coterie.pipeline.jobs.run import read_log
from coterie.pipeline.lake import delta
from coterie.pipeline.lake.lake import Lake
from coterie.pipeline.lake.maintenance import maintain, vacuum
from coterie.pipeline.lake.storage import Entry, Storage
from coterie.pipeline.tables.all_tables import TABLES
from tests.pipeline.cluster.object_store import BUCKET, object_store
from tests.pipeline.jobs.lakes import job, log, tables_of
from tests.pipeline.lake.test_lake import add, offsets_of, written

__all__ = ["log"]
pytest.importorskip("moto", reason="moto is not installed")
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def bucket() -> Iterator[str]:
    with object_store():
        yield f"s3://{BUCKET}"


@pytest.fixture
def where(bucket: str) -> str:
    return f"{bucket}/{uuid4().hex}"


def delta_rows(where: str, name: str) -> int:
    """Return the number of rows that polars reads from a table."""
    folder = f"{where}/{TABLES[name].layer.value}/{name}"
    return pl.scan_delta(folder).select(pl.len()).collect().item()


def test_a_run_to_s3_writes_the_tables_of_a_run_to_a_directory(
    where: str, log: Path, tmp_path: Path
) -> None:
    remote, local = job(where, log), job(tmp_path / "local", log)
    read_log(remote)
    read_log(local)
    expected = tables_of(local.lake, INGESTED_TABLES)
    lake = Lake.open(where)
    assert tables_of(lake, INGESTED_TABLES) == expected
    assert read_log(job(where, log)) == 0
    counts = {name: len(rows) for name, rows in expected.items()}
    assert {name: delta_rows(where, name) for name in counts} == counts
    assert counts["offset_commits"]


def test_only_one_of_two_writers_commits_a_version(where: str) -> None:
    first = Lake.create(where, "segments:log")
    second = Lake.open(where)
    add(first, 1)
    with pytest.raises(LogError, match=r"another run writes to s3://.*version 1 first"):
        add(second, 2)
    assert offsets_of(Lake.open(where)) == [1]
    assert delta_rows(where, "log_gaps") == 1


def test_only_one_of_two_writers_of_a_delta_table_commits(where: str) -> None:
    lake = Lake.create(where, "segments:log")
    add(lake, 1)
    folder = f"{where}/silver/log_gaps"
    first, second = DeltaTable(folder), DeltaTable(folder)
    table = TABLES["log_gaps"]
    delta.apply(first, table, written(lake, 2), 8)
    with pytest.raises(LogError, match="another process writes to the table log_gaps"):
        delta.apply(second, table, written(lake, 3), 9)


def test_small_files_in_s3_are_merged_and_deleted(where: str) -> None:
    lake = Lake.create(where, "segments:log")
    for number in range(4):
        add(lake, number)
    assert maintain(lake, tail_files=2).merged == 4
    vacuum(lake)
    assert offsets_of(Lake.open(where)) == [0, 1, 2, 3]
    assert delta_rows(where, "log_gaps") == 4


def test_storage_creates_an_object_once(where: str) -> None:
    storage = Storage(where)
    assert storage.read("versions/1.json") is None
    assert storage.create("versions/1.json", b"one")
    assert not Storage(f"{where}/").create("versions/1.json", b"two")
    assert storage.read("versions/1.json") == b"one"
    storage.replace("versions/1.json", b"three")
    assert storage.entries("") == [Entry("versions/1.json", 5)]
    storage.move("versions/1.json", "old/day=1/1.json")
    storage.delete("versions/1.json")
    assert storage.entries("versions") == []
    assert storage.size("old/day=1/1.json") == 5
    storage.delete_folder("old")
    assert storage.entries("") == []
    assert storage.url("gold").startswith("s3a://")


def test_a_uri_of_no_object_store_is_refused() -> None:
    with pytest.raises(SettingError, match="cannot open tape://a/b: Unknown scheme"):
        Storage("tape://a/b")


@pytest.mark.usefixtures("bucket")
def test_a_bucket_that_does_not_exist_is_named() -> None:
    with pytest.raises(
        LogError, match=r"s3://nowhere/a cannot be listed: .*404 Not Found$"
    ):
        Lake.create("s3://nowhere/a", "segments:log")
