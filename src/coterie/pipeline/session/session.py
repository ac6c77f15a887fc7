"""Starts Spark: here by default, on a cluster by its master, or over Spark Connect."""

from __future__ import annotations

import os
import re
import sys
import tempfile
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from coterie.errors import SettingError
from coterie.pipeline.session.java import cache_directory, find_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_QUIET: Final = Path(__file__).with_name("log4j2.properties")
_EVERYWHERE: Final = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
}
"""What a session must have, wherever it runs."""
_CLUSTER_TASKS: Final = 16
_HERE: Final = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # Files are named one by one: looking for them by a job of its own takes longer.
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "10000",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}


@dataclass(frozen=True, kw_only=True)
class Engine:
    """Where Spark runs, and with what."""

    master: str = "local[2]"
    """As spark-submit takes it: local[N], spark://HOST:PORT, yarn, k8s://..."""
    remote: str | None = None
    """sc://HOST:PORT of Spark Connect; then no Java is needed here."""
    memory: str = "4g"
    """Of the driver; here that is all of Spark."""
    shuffle_partitions: int = 4
    """When it runs here. A cluster has its own default."""
    java_options: str = ""
    """Of the driver, besides ours."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """Spark's own settings; they win over ours."""

    @property
    def workers(self) -> int:
        """How many tasks are made of what is to be read: the cores of `local[N]`, and
        enough of them for a cluster."""
        cores = re.fullmatch(r"local\[(\d+)(?:,\d+)?\]", self.master)
        if cores and self.is_local:
            return int(cores[1])
        return os.cpu_count() or 1 if self.is_local else _CLUSTER_TASKS

    @property
    def is_local(self) -> bool:
        """Whether all of Spark is in processes of this machine that we start."""
        return self.remote is None and self.master.startswith("local")


def start_session(engine: Engine = Engine()) -> SparkSession:
    """Start Spark, or connect to it. Raises SettingError when there is no PySpark, no
    Java, or nobody there."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of its own use of pandas and Python
            from py4j.protocol import Py4JError
            from pyspark.errors import PySparkException
            from pyspark.sql import SparkSession
    except ImportError as error:
        raise SettingError(
            f"this needs Spark ({error}): pip install 'coterie[pipeline]'"
        ) from None
    builder = SparkSession.builder.appName("coterie")
    for name, value in spark_settings(engine).items():
        builder = builder.config(name, value)
    try:
        if engine.remote is not None:
            return builder.remote(engine.remote).getOrCreate()
        _prepare(os.environ, is_local=engine.is_local)
        return builder.master(engine.master).getOrCreate()
    except (PySparkException, Py4JError, OSError, ImportError) as error:
        where = engine.remote or engine.master
        raise SettingError(
            f"Spark does not start ({where}): {words_of(error)}"
        ) from None


def spark_settings(engine: Engine) -> dict[str, str]:
    """Spark's settings for such an engine."""
    settings = dict(_EVERYWHERE)
    if engine.remote is None:
        # These must be there before the Java process is.
        settings["spark.driver.memory"] = engine.memory
        settings["spark.driver.extraJavaOptions"] = (
            f"-Dlog4j2.configurationFile={_QUIET.as_uri()} {engine.java_options}"
        )
        settings |= {k: v for k, v in _HERE.items() if engine.is_local or "ui" in k}
    if engine.is_local:
        settings["spark.sql.shuffle.partitions"] = str(engine.shuffle_partitions)
        settings["spark.sql.warehouse.dir"] = f"{tempfile.gettempdir()}/coterie-spark"
    return settings | dict(engine.settings)


def _prepare(environment: os._Environ[str], *, is_local: bool) -> None:
    """For the Java process that PySpark starts, and the workers that it starts."""
    environment["JAVA_HOME"] = str(find_java(environment, cache_directory(environment)))
    # A `python3` from the PATH would have none of our packages.
    environment.setdefault("PYSPARK_PYTHON", sys.executable)
    environment.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    if is_local:
        environment.setdefault("SPARK_LOCAL_IP", "127.0.0.1")


def words_of(error: BaseException) -> str:
    """What a person needs of what Spark says: one line of many."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    if lines[0].startswith("An error occurred while calling") and len(lines) > 1:
        return lines[1].removeprefix(": ")
    return lines[0]
