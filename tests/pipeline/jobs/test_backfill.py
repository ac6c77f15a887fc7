"""A backfill rebuilds the tables that incremental runs made."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from coterie.cli import main as cli
from coterie.cli.pipeline import run as command
from coterie.errors import LogError
from coterie.pipeline.jobs.backfill import backfill
from coterie.pipeline.jobs.run import read_log, run_once
from coterie.pipeline.jobs.samples import take_samples
from coterie.pipeline.sources.source import OffsetRange, Rows
from coterie.pipeline.tables.all_tables import needed
from coterie.pipeline.tables.ingested import QUARANTINE
from tests.pipeline.jobs.lakes import job, tables_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow


class _WithFault:
    """A source with bytes that are not a valid batch."""

    def __init__(self, source: Any) -> None:
        self._source = source

    def __getattr__(self, name: str) -> Any:
        return getattr(self._source, name)

    def read(self, part: OffsetRange) -> Any:
        for rows in self._source.read(part):
            fault = {
                "log_partition": part.log_partition,
                "source": "a.log",
                "position": rows.next_offset,
                "reason": "bad_batch",
            }
            faults = pa.RecordBatch.from_pylist([fault], schema=QUARANTINE.schema)
            yield Rows(rows.records, faults, rows.gaps, rows.next_offset)


@pytest.mark.parametrize("tasks", [1, 4])
def test_a_backfill_builds_the_same_tables_as_runs(
    tasks: int, log: Path, tmp_path: Path
) -> None:
    one = job(tmp_path / "lake", log, gold=(), max_records=2_000)
    one.source = _WithFault(one.source)
    read_log(one)
    one.max_records = None
    read_log(one)
    take_samples(one.lake, one.source, one.samples)
    rows = tables_of(one.lake)
    before = {name: one.lake.files(name) for name in ("records", "offset_commits")}
    assert rows["quarantine"]
    one.limits = one.limits._replace(tasks=tasks)
    assert backfill(one) == ()
    assert tables_of(one.lake) == rows
    assert one.lake.files("records") == before["records"]
    assert not {*one.lake.files("offset_commits")} & {*before["offset_commits"]}


def test_a_backfill_makes_missing_files_of_silver_and_gold_again(
    log: Path, spark: SparkSession, tmp_path: Path
) -> None:
    one = job(tmp_path / "lake", log, spark, gold=needed("current_offsets"))
    run_once(one)
    rows = tables_of(one.lake)
    assert rows["current_offsets"]
    for folder in ("silver/offset_commits", "gold/current_offsets"):
        for file in (tmp_path / "lake" / folder).rglob("*.parquet"):
            file.unlink()
    with pytest.raises(LogError, match="pipeline backfill --lake"):
        one.lake.check_files()
    again = job(tmp_path / "lake", log, spark, gold=needed("current_offsets"))
    assert backfill(again) == ("current_offsets",)
    again.lake.check_files()
    assert tables_of(again.lake) == rows


def test_the_backfill_command_prints_its_counts(
    log: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(command, "start_spark", lambda _: None)
    monkeypatch.setattr("coterie.pipeline.jobs.backfill.refresh", lambda *_, **__: [])
    one = job(tmp_path / "lake", log)
    read_log(one)
    assert cli.main(["pipeline", "backfill", "--lake", str(tmp_path / "lake")]) == 0
    count = one.lake.rows("records")
    expected = f"{count} records decoded, 0 tables built in {tmp_path / 'lake'}"
    assert expected in capsys.readouterr().out
