"""Every gold table, however its log was divided into runs: the property that all of
them are held to. A table that is added is held to it at once."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.dataset as ds
import pytest

from coterie.cli import main as cli
from coterie.cli.pipeline import run as verb
from coterie.errors import SettingError
from coterie.pipeline.gold.all_gold import GOLD
from coterie.pipeline.gold.look import Gold, Look, conform
from coterie.pipeline.gold.settings import GoldSettings
from coterie.pipeline.jobs.publish import publish
from coterie.pipeline.jobs.refresh import refresh
from coterie.pipeline.jobs.run import Done, Pace, follow, read_log, run_once
from coterie.pipeline.tables.log_gaps import LOG_GAPS
from coterie.pipeline.tables.tombstones import TOMBSTONES
from tests.pipeline.jobs.lakes import job, tables_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from coterie.pipeline.lake.lake import Lake

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1_200)]
NAMES = [each.table.name for each in GOLD]
KILLED = -9
FOLLOWED = ("current_offsets", "data_quality")


def test_a_killed_run_and_all_after_it_give_what_one_gives(
    log: Path, spark: SparkSession, whole: Lake, tmp_path: Path
) -> None:
    command = [sys.executable, "-m", "tests.pipeline.jobs.dying", "building"]
    done = subprocess.run([*command, tmp_path / "lake", log], check=False, timeout=400)
    assert done.returncode == KILLED
    second = job(tmp_path / "lake", log, spark, max_records=1_500)
    assert second.lake.version.of("records").rows
    assert not second.lake.version.of(NAMES[0]).files
    run_once(second)
    rest = job(tmp_path / "lake", log, spark)
    run_once(rest)
    assert tables_of(rest.lake) == tables_of(whole)
    assert run_once(rest) == Done(0, 0, ())


def test_spark_s_workers_write_what_this_process_writes(
    log: Path, spark: SparkSession, whole: Lake, tmp_path: Path
) -> None:
    one = job(tmp_path / "lake", log, spark)
    one.step = one.step._replace(alone_below=0, tasks=3, max_records=2_000)
    read_log(one)
    names = [name for name in whole.version.tables if name not in NAMES]
    names.remove("partition_end_samples")
    assert tables_of(one.lake, names) == tables_of(whole, names)


def _deleted(look: Look) -> DataFrame:
    """Appends a row for each new tombstone."""
    rows = look.new(TOMBSTONES.name).selectExpr(
        "log_partition",
        "log_offset as from_offset",
        "log_offset as until_offset",
        f"'{look.settings.retention_ms}' as reason",
    )
    return conform(rows, LOG_GAPS)


def test_a_table_that_adds_keeps_its_files_and_other_settings_begin_anew(
    log: Path, spark: SparkSession, whole: Lake, tmp_path: Path
) -> None:
    table = replace(LOG_GAPS, name="coordinator_load")
    chosen = (Gold(table, (TOMBSTONES.name,), _deleted, adds=True),)
    one = job(tmp_path / "lake", log, spark, gold=chosen, max_records=2_000)
    read_log(one)
    assert refresh(spark, one.lake, GoldSettings(), chosen) == ["coordinator_load"]
    first = one.lake.version.of("coordinator_load")
    assert first.rows == one.lake.version.of(TOMBSTONES.name).rows
    assert refresh(spark, one.lake, GoldSettings(), chosen) == []
    one.max_records = None
    read_log(one)
    refresh(spark, one.lake, GoldSettings(), chosen)
    second = one.lake.version.of("coordinator_load")
    assert second.files[: len(first.files)] == first.files
    assert second.rows == whole.version.of(TOMBSTONES.name).rows
    other = GoldSettings(retention_ms=1)
    assert refresh(spark, one.lake, other, chosen) == ["coordinator_load"]
    third = one.lake.version.of("coordinator_load")
    assert not set(third.files) & set(second.files)
    assert third.rows == second.rows


def test_following_builds_fast_tables_at_once_and_all_of_them_in_the_end(
    log: Path, spark: SparkSession, whole: Lake, tmp_path: Path
) -> None:
    some = tuple(each for each in GOLD if each.table.name in FOLLOWED)
    one = job(tmp_path / "lake", log, spark, gold=some)
    steps = count()
    slept: list[float] = []
    pace = Pace(poll_s=0.5, clock=lambda: 0.0, sleep=slept.append)
    one.max_records = 2_500
    seen = []

    def is_over() -> bool:
        seen.append(one.lake.version.of("current_offsets").changed)
        return next(steps) == 3

    follow(one, pace, is_over)
    assert seen[0] == 0
    assert seen[1] < seen[2]
    assert slept == [0.5]
    assert tables_of(one.lake, FOLLOWED) == tables_of(whole, FOLLOWED)


def test_gold_is_written_once_more_in_a_form_for_others(
    spark: SparkSession, whole: Lake, tmp_path: Path
) -> None:
    for _ in range(2):
        publish(spark, whole, ["current_offsets"], "parquet", str(tmp_path / "copy"))
    copy = ds.dataset(tmp_path / "copy" / "current_offsets", format="parquet")
    assert copy.count_rows() == whole.version.of("current_offsets").rows
    with pytest.raises(SettingError, match=r"as nonsense.*spark\.jars\.packages"):
        publish(spark, whole, ["current_offsets"], "nonsense", str(tmp_path / "copy"))


def test_the_command_says_what_it_read_and_what_is_left(
    log: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(verb, "start", lambda _: None)
    monkeypatch.setattr("coterie.pipeline.jobs.run.refresh", lambda *_, **__: NAMES)
    both = ["pipeline", "run", "--from", str(log), "--to", str(tmp_path / "lake")]
    assert cli.main([*both, "--max-records", "2000"]) == 0
    said = capsys.readouterr().out
    assert f" {len(NAMES)} tables built in {tmp_path}" in said
    assert "more are to be read by the next run" in said
