"""A backfill rebuilds the tables that incremental runs made."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from coterie.cli import main as cli
from coterie.cli.pipeline import run as command
from coterie.pipeline.jobs.backfill import backfill
from coterie.pipeline.jobs.run import read_log
from coterie.pipeline.jobs.samples import take_samples
from coterie.pipeline.sources.source import OffsetRange, Rows
from coterie.pipeline.tables.ingested import QUARANTINE
from tests.pipeline.jobs.lakes import job, tables_of

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
