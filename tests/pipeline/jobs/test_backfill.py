"""Silver made anew from bronze is what runs made, step by step."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from coterie.cli import main as cli
from coterie.cli.pipeline import backfill as verb
from coterie.pipeline.jobs.backfill import backfill
from coterie.pipeline.jobs.run import read_log, take_samples
from coterie.pipeline.sources.source import OffsetRange, Rows
from coterie.pipeline.tables.quarantine import QUARANTINE
from tests.pipeline.jobs.lakes import job, tables_of

pytestmark = pytest.mark.slow


class _WithFault:
    """A source that has bytes which are no batch."""

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
def test_a_backfill_gives_what_runs_gave(tasks: int, log: Path, tmp_path: Path) -> None:
    one = job(tmp_path / "lake", log, gold=(), max_records=2_000)
    one.source = _WithFault(one.source)
    read_log(one)
    one.max_records = None
    read_log(one)
    take_samples(one)
    before, rows = one.lake.version, tables_of(one.lake)
    assert rows["quarantine"]
    one.step = one.step._replace(tasks=tasks)
    assert backfill(one) == ()
    after = one.lake.version
    assert tables_of(one.lake) == rows
    assert after.of("records") == before.of("records")
    anew = set(after.of("offset_commits").files)
    assert not anew & set(before.of("offset_commits").files)


def test_the_command_says_what_it_made(
    log: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(verb, "start", lambda _: None)
    monkeypatch.setattr("coterie.pipeline.jobs.backfill.refresh", lambda *_, **__: [])
    one = job(tmp_path / "lake", log)
    read_log(one)
    assert cli.main(["pipeline", "backfill", "--lake", str(tmp_path / "lake")]) == 0
    count = one.lake.version.of("records").rows
    said = f"{count} records decoded, 0 tables built in {tmp_path / 'lake'}"
    assert said in capsys.readouterr().out
