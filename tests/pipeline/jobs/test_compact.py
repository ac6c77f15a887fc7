"""Compaction merges and deletes files; the rows stay the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from coterie.cli import main as cli
from coterie.pipeline.jobs.compact import compact
from coterie.pipeline.jobs.ingest import INGESTED_TABLES
from coterie.pipeline.jobs.run import read_log
from coterie.pipeline.jobs.samples import take_samples
from coterie.pipeline.lake.lake import Lake, TableFiles
from tests.pipeline.jobs.lakes import job, tables_of

pytestmark = pytest.mark.slow


@pytest.fixture
def lake(log: Path, tmp_path: Path) -> Lake:
    """A lake of three steps and samples."""
    for records in (500, 700, None):
        one = job(tmp_path / "lake", log, max_records=records)
        read_log(one)
    take_samples(one.lake, one.source, one.samples)
    return one.lake


def _with_gold(lake: Lake, through: int) -> None:
    """Commit a gold table that is built from the versions up to `through`."""
    gold = TableFiles(changed=through, through=through)
    number = lake.version.number + 1
    tables = {**lake.version.tables, "current_offsets": gold}
    lake.commit(msgspec.structs.replace(lake.version, number=number, tables=tables))


def _files(lake: Lake, name: str) -> Any:
    return lake.version.of(name).files


def test_files_that_all_gold_tables_have_read_are_merged(lake: Lake) -> None:
    before, last = tables_of(lake), _files(lake, "records")[-1]
    _with_gold(lake, through=lake.version.number)
    done = compact(lake)
    assert done.merged > done.into > 0
    [file] = _files(lake, "records")
    assert file.version == last.version
    assert file.log_partitions == (0, 1, 2)
    assert tables_of(Lake.open(lake.storage.root)) == before
    assert compact(lake).merged == 0


def test_files_that_a_gold_table_has_not_read_are_kept(lake: Lake) -> None:
    last = _files(lake, "offset_commits")[-1]
    _with_gold(lake, through=last.version - 1)
    compact(lake)
    merged, *rest = _files(lake, "offset_commits")
    assert merged.version < last.version
    assert rest[-1] == last


def test_without_gold_tables_no_files_are_merged(lake: Lake) -> None:
    assert compact(lake).merged == 0


def test_large_files_are_not_merged(lake: Lake) -> None:
    _with_gold(lake, through=lake.version.number)
    assert compact(lake, file_bytes=1).merged == 0


def test_files_that_no_retained_version_references_are_deleted(lake: Lake) -> None:
    stray = Path(lake.storage.at("silver/tombstones/000009-stray.parquet"))
    stray.touch()
    _with_gold(lake, through=2)
    before = tables_of(lake)
    done = compact(lake, kept_versions=1)
    assert done.deleted == done.merged + 1
    assert not stray.exists()
    names = sorted(Path(lake.storage.at("versions")).glob("*.json"))
    # The version that gold was built from is kept: builds read its state.
    assert [int(each.stem) for each in names] == [2, lake.version.number]
    assert tables_of(Lake.open(lake.storage.root)) == before


def test_the_compact_command_prints_its_counts(
    lake: Lake, capsys: pytest.CaptureFixture[str]
) -> None:
    _with_gold(lake, through=lake.version.number)
    command = ["pipeline", "compact", "--lake", lake.storage.root]
    assert cli.main([*command, "--file-mib", "0"]) == 2
    assert cli.main(command) == 0
    assert "files merged into" in capsys.readouterr().out
    assert len(_files(Lake.open(lake.storage.root), INGESTED_TABLES[0])) == 1
