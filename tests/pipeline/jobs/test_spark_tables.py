"""SQL queries of a lake with Spark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from coterie.cli.main import main
from coterie.errors import LogError, SettingError
from coterie.pipeline.jobs.spark_tables import make_views, run_sql
from coterie.pipeline.lake.lake import Lake
from tests.pipeline.lakes import AS_OF, CLUSTER, HISTORY_FROM, make_lake
from tests.pipeline.story import story

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def views(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SparkSession]:
    lake = Lake.open(make_lake(tmp_path_factory.mktemp("sql") / "lake", story()))
    make_views(spark, lake, "current_groups")
    yield spark
    spark.catalog.dropTempView("current_groups")


@pytest.mark.slow
def test_a_view_has_the_cluster_and_the_times_of_its_lake(views: SparkSession) -> None:
    query = "SELECT cluster_id, as_of_ts, history_from_ts FROM current_groups LIMIT 1"
    [row] = run_sql(views, query, None).rows.to_pylist()
    assert tuple(row.values()) == (CLUSTER, AS_OF, HISTORY_FROM)


@pytest.mark.slow
def test_a_limited_result_is_incomplete_and_its_column_names_are_unique(
    views: SparkSession,
) -> None:
    found = run_sql(views, "SELECT id, id * 2 AS id FROM range(3) ORDER BY 1", 2)
    assert found.rows.to_pylist() == [{"id": 0, "id_2": 0}, {"id": 1, "id_2": 2}]
    assert not found.is_complete
    assert run_sql(views, "SELECT 1 AS one", 1).is_complete


@pytest.mark.slow
def test_an_error_of_spark_becomes_one_line(
    views: SparkSession, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SettingError, match=r"^\[PARSE_SYNTAX_ERROR\] .* near 'x'"):
        run_sql(views, "SELECT * FRM x", None)
    with pytest.raises(SettingError, match=r"`nope` cannot be resolved") as raised:
        run_sql(views, "SELECT nope FROM current_groups", None)
    assert "\n" not in str(raised.value)
    with pytest.raises(LogError, match=r"^\[DIVIDE_BY_ZERO\]"):
        run_sql(views, "SELECT id / 0 FROM range(3)", None)
    assert "QueryContextLogger" not in capfd.readouterr().err


@pytest.mark.slow
def test_the_command_prints_the_result_and_the_limit(
    views: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("coterie.cli.pipeline.sql.start_spark", lambda _: views)
    lake = make_lake(tmp_path / "lake", story())
    query = "SELECT group_id, last_commit_ts FROM current_groups ORDER BY 1 DESC"
    words = ["pipeline", "sql", query, "--lake", str(lake), "--limit", "1", "-o", "csv"]
    assert main(words) == 0
    out, err = capsys.readouterr()
    assert out == "group_id,last_commit_ts\nnightly,2026-11-19T10:00:00.000Z\n"
    assert err == "the first 1 rows; --limit 0 shows all\n"
