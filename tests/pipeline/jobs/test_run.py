"""Runs: any division of a log into runs gives the same gold tables."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from coterie.cli import main as cli
from coterie.cli.pipeline import run as command
from coterie.errors import LogError
from coterie.pipeline.gold.select import TableInputs, select
from coterie.pipeline.gold.settings import GoldSettings
from coterie.pipeline.jobs import refresh as refresh_module
from coterie.pipeline.jobs.refresh import refresh
from coterie.pipeline.jobs.run import (
    FollowIntervals,
    RunResult,
    follow,
    read_log,
    run_once,
)
from coterie.pipeline.jobs.samples import TakenSamples
from coterie.pipeline.tables.all_tables import GOLD, Query
from coterie.pipeline.tables.ingested import LOG_GAPS, TOMBSTONES
from coterie.pipeline.tables.table import Layer
from tests.pipeline.jobs.lakes import job, tables_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from coterie.pipeline.lake.lake import Lake

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1_200)]
NAMES = list(GOLD)
KILLED = -9
FOLLOWED = ("current_offsets", "data_quality")


def test_killed_and_repeated_runs_build_the_tables_of_one_run(
    log: Path, spark: SparkSession, whole: Lake, tmp_path: Path
) -> None:
    command = [sys.executable, "-m", "tests.pipeline.jobs.killed_run", "building"]
    done = subprocess.run([*command, tmp_path / "lake", log], check=False, timeout=400)
    assert done.returncode == KILLED
    second = job(tmp_path / "lake", log, spark, max_records=1_500)
    assert second.lake.rows("records")
    assert not second.lake.has(NAMES[0])
    run_once(second)
    rest = job(tmp_path / "lake", log, spark)
    run_once(rest)
    assert tables_of(rest.lake) == tables_of(whole)
    assert run_once(rest) == RunResult(0, TakenSamples(0), ())


def test_sparks_workers_write_the_same_rows_as_this_process(
    log: Path, spark: SparkSession, whole: Lake, tmp_path: Path
) -> None:
    one = job(tmp_path / "lake", log, spark)
    one.limits = one.limits._replace(in_process_below=0, tasks=3, max_records=2_000)
    read_log(one)
    names = [name for name in whole.version.tables if name not in NAMES]
    names.remove("partition_end_samples")
    assert tables_of(one.lake, names) == tables_of(whole, names)


NEW_TOMBSTONES = """
SELECT log_partition, log_offset AS from_offset, log_offset AS until_offset,
  string(:retention_ms) AS reason
FROM {new_tombstones}
"""


def test_an_append_only_table_is_extended_until_settings_change(
    log: Path, spark: SparkSession, whole: Lake, tmp_path: Path
) -> None:
    table = replace(LOG_GAPS, name="coordinator_load", layer=Layer.GOLD)
    options = {"merge": "append"}
    chosen = (Query("coordinator_load", NEW_TOMBSTONES, table, options),)
    one = job(tmp_path / "lake", log, spark, gold=chosen, max_records=2_000)
    read_log(one)
    assert refresh(lambda: spark, one.lake, GoldSettings(), chosen) == [
        "coordinator_load"
    ]
    first = one.lake.files("coordinator_load")
    assert sum(file.rows for file in first) == one.lake.version.of(TOMBSTONES.name).rows
    assert refresh(lambda: spark, one.lake, GoldSettings(), chosen) == []
    one.max_records = None
    read_log(one)
    refresh(lambda: spark, one.lake, GoldSettings(), chosen)
    second = one.lake.files("coordinator_load")
    assert second[: len(first)] == first
    assert one.lake.rows("coordinator_load") == whole.version.of(TOMBSTONES.name).rows
    other = GoldSettings(retention_ms=1)
    assert refresh(lambda: spark, one.lake, other, chosen) == ["coordinator_load"]
    assert not set(one.lake.files("coordinator_load")) & set(second)
    assert one.lake.rows("coordinator_load") == sum(file.rows for file in second)


def test_follow_refreshes_fast_tables_at_each_step_and_all_at_the_end(
    log: Path, spark: SparkSession, whole: Lake, tmp_path: Path
) -> None:
    some = tuple(GOLD[name] for name in FOLLOWED)
    one = job(tmp_path / "lake", log, spark, gold=some)
    steps = count()
    slept: list[float] = []
    intervals = FollowIntervals(step_s=0.5, clock=lambda: 0.0, sleep=slept.append)
    one.max_records = 500
    seen = []

    def is_over() -> bool:
        tables = one.lake.version.tables
        seen.append([tables[name].changed for name in FOLLOWED])
        return next(steps) == 2

    follow(one, intervals, is_over)
    fast, slow = zip(*seen, strict=True)
    assert fast[0] < fast[1] < fast[2]
    assert len(set(slow)) == 1
    assert slept == [0.5, 0.5]
    one.max_records = None
    run_once(one)
    assert tables_of(one.lake, FOLLOWED) == tables_of(whole, FOLLOWED)


def test_follow_refreshes_all_tables_in_the_background(
    log: Path, spark: SparkSession, whole: Lake, tmp_path: Path
) -> None:
    some = tuple(GOLD[name] for name in FOLLOWED)
    one = job(tmp_path / "lake", log, spark, gold=some, max_records=700)
    intervals = FollowIntervals(gold_s=0, clock=lambda: 0.0, sleep=lambda _: None)
    number = whole.rows("records")

    def is_over() -> bool:
        return one.lake.rows("records") == number

    follow(one, intervals, is_over)
    assert tables_of(one.lake, FOLLOWED) == tables_of(whole, FOLLOWED)


def test_an_error_of_the_background_refresh_ends_follow(
    log: Path, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    builds = count()

    def fail_second(query: Query, inputs: TableInputs) -> DataFrame:
        if next(builds):
            raise LogError("disk failure")
        return select(query, inputs)

    monkeypatch.setattr(refresh_module, "select", fail_second)
    quality = GOLD["data_quality"]
    one = job(tmp_path / "lake", log, spark, gold=(quality,), max_records=700)
    intervals = FollowIntervals(gold_s=0, clock=lambda: 0.0, sleep=lambda _: None)
    with pytest.raises(LogError, match="disk failure"):
        follow(one, intervals, lambda: False)


def test_the_run_command_prints_the_read_and_the_remaining_records(
    log: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(command, "start_spark", lambda _: None)
    monkeypatch.setattr("coterie.pipeline.jobs.run.refresh", lambda *_, **__: NAMES)
    both = ["pipeline", "run", "--from", str(log), "--to", str(tmp_path / "lake")]
    assert cli.main([*both, "--max-records", "2000"]) == 0
    output = capsys.readouterr().out
    assert f" {len(NAMES)} tables built in {tmp_path}" in output
    assert "more records are left for the next run" in output
