"""Start Spark: locally by default, on a cluster with a master, or through Spark
Connect.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

import pyarrow as pa
import pyarrow.compute as pc

from coterie.errors import SettingError
from coterie.pipeline.java import cache_directory, find_java

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_LOG4J_CONFIG: Final = Path(__file__).with_name("log4j2.properties")
_ALL_SETTINGS: Final = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
}
"""Settings of every session: the tables' types depend on them."""
_PY_FILES: Final = "spark.submit.pyFiles"
_CLUSTER_TASKS: Final = 16
_FEW_ROWS: Final = 200_000
"""Up to this number of rows, compiling a query takes longer than interpreting it."""
_FOR_FEW_ROWS: Final = {
    # Adaptive execution runs a job for each stage, to choose the next one.
    "spark.sql.adaptive.enabled": "false",
    # A broadcast is a job, even one that the query asks for.
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    "spark.sql.optimizer.disableHints": "true",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
_LOCAL_SETTINGS: Final = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # Tables are read from lists of files, so Spark need not run a job to find them.
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "10000",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}


@dataclass(frozen=True, kw_only=True)
class Engine:
    """The location of Spark (local, cluster or Spark Connect), and its settings."""

    master: str = "local[2]"
    """As spark-submit takes it: local[N], spark://HOST:PORT, yarn, k8s://..."""
    remote: str | None = None
    """sc://HOST:PORT of a Spark Connect server; no local Java is needed then."""
    memory: str = "4g"
    """Memory of the driver; a local Spark is only the driver."""
    shuffle_partitions: int = 4
    """Of a local Spark. A cluster has its own default."""
    java_options: str = ""
    """Java options of the driver, besides ours."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """Spark settings; they override ours."""

    @property
    def workers(self) -> int:
        """The number of tasks of a read: the cores of `local[N]`, or a fixed number for
        a cluster.
        """
        cores = re.fullmatch(r"local\[(\d+)(?:,\d+)?\]", self.master)
        if cores and self.is_local:
            return int(cores[1])
        return os.cpu_count() or 1 if self.is_local else _CLUSTER_TASKS

    @property
    def is_local(self) -> bool:
        """Whether Spark runs in local processes started by this one."""
        return self.remote is None and self.master.startswith("local")


def start_session(engine: Engine = Engine()) -> SparkSession:
    """Start Spark, or connect to a Spark Connect server.

    Raises SettingError when Java is missing or the server is unreachable.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PySpark's own deprecation warnings
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException
        from pyspark.sql import SparkSession
    builder = SparkSession.builder.appName("coterie")
    settings = spark_settings(engine)
    # A Spark Connect server ignores this setting: the client sends the files.
    files = settings.pop(_PY_FILES, "") if engine.remote is not None else ""
    for name, value in settings.items():
        builder = builder.config(name, value)
    try:
        if engine.remote is not None:
            session = builder.remote(engine.remote).getOrCreate()
            for file in filter(None, files.split(",")):
                session.addArtifacts(file, pyfile=True)
            return session
        _prepare(os.environ, is_local=engine.is_local)
        return builder.master(engine.master).getOrCreate()
    except (PySparkException, Py4JError, OSError, ImportError) as error:
        where = engine.remote or engine.master
        raise SettingError(
            f"Spark does not start ({where}): {first_line(error)}"
        ) from None


def spark_settings(engine: Engine) -> dict[str, str]:
    """Return the Spark settings of an engine."""
    settings = dict(_ALL_SETTINGS)
    if engine.remote is None:
        # The Java process reads these settings at its start only.
        settings["spark.driver.memory"] = engine.memory
        settings["spark.driver.extraJavaOptions"] = (
            f"-Dlog4j2.configurationFile={_LOG4J_CONFIG.as_uri()} {engine.java_options}"
        )
        settings |= {
            k: v for k, v in _LOCAL_SETTINGS.items() if engine.is_local or "ui" in k
        }
    if engine.is_local:
        settings["spark.sql.shuffle.partitions"] = str(engine.shuffle_partitions)
        settings["spark.sql.warehouse.dir"] = f"{tempfile.gettempdir()}/coterie-spark"
    return settings | dict(engine.settings)


class SizedSession:
    """A session for queries that read a known number of rows, in the same Spark.

    A query over few rows takes most of its time before and between its tasks: to
    compile code, to start jobs for broadcasts and stages, and to shuffle between tasks.
    So it runs interpreted, in one task and one job. The settings are those of an own
    session: other queries run at the same time.
    """

    def __init__(self, spark: SparkSession) -> None:
        from pyspark.sql import SparkSession

        # A Spark Connect server has its own settings.
        self._is_tunable = isinstance(spark, SparkSession)
        self.spark = spark.newSession() if self._is_tunable else spark
        self._rows = 0
        self._is_set_for_few = False
        self._usual: dict[str, str] = {}
        if self._is_tunable:
            for name in _ALL_SETTINGS:
                self.spark.conf.set(name, str(spark.conf.get(name)))
            # Removing a setting would restore Spark's default, not the user's value.
            self._usual = {name: str(spark.conf.get(name)) for name in _FOR_FEW_ROWS}

    def begin(self) -> None:
        """Begin another query: it reads nothing yet."""
        self._rows = 0

    def gathered(self, frame: DataFrame, rows: int) -> DataFrame:
        """Return an input of the query, which has this number of rows.

        Call it with each input before the query runs.
        """
        self._rows += rows
        self.set_for(few_rows=self.reads_few_rows)
        # Rows in one task need no shuffle.
        is_one_task = self._is_tunable and rows <= _FEW_ROWS
        return frame.coalesce(1) if is_one_task else frame

    @property
    def reads_few_rows(self) -> bool:
        """Whether the inputs so far have few rows."""
        return self._is_tunable and self._rows <= _FEW_ROWS

    def set_for(self, *, few_rows: bool) -> None:
        """Use the settings for queries that read few rows, or the usual ones."""
        if self._is_set_for_few != few_rows and self._is_tunable:
            settings = _FOR_FEW_ROWS if few_rows else self._usual
            for name, value in settings.items():
                self.spark.conf.set(name, value)
            self._is_set_for_few = few_rows


_IDLE: Final[WeakKeyDictionary[SparkSession, list[SizedSession]]] = WeakKeyDictionary()


@contextmanager
def sized_session(spark: SparkSession) -> Iterator[SizedSession]:
    """Return a session for the queries of one thread. Sessions are used again: a new
    one takes more time than a small query."""
    idle = _IDLE.setdefault(spark, [])
    session = idle.pop() if idle else SizedSession(spark)
    try:
        yield session
    finally:
        idle.append(session)


def collect_all(frames: Sequence[DataFrame]) -> list[Any]:
    """Return the rows of each data frame as an Arrow table, by one job."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import StructField, StructType

    if len(frames) == 1:
        return [frames[0].toArrow()]
    # Each row of the union has the rows of all frames as structs, all but one null.
    names = [f"frame_{number}" for number in range(len(frames))]
    # Arrow refuses a null struct with fields that are never null.
    types = [
        StructType([StructField(f.name, f.dataType) for f in frame.schema])
        for frame in frames
    ]
    rows = [
        frame.select(
            *(
                (F.struct(*frame.columns) if each == own else F.lit(None))
                .cast(kind)
                .alias(each)
                for each, kind in zip(names, types, strict=True)
            )
        )
        for own, frame in zip(names, frames, strict=True)
    ]
    union = reduce(lambda left, right: left.unionAll(right), rows).toArrow()
    return [
        _fields(union[name].filter(pc.is_valid(union[name])), frame.columns)
        for name, frame in zip(names, frames, strict=True)
    ]


def _fields(structs: Any, names: list[str]) -> Any:
    """Return the fields of a column of structs as a table."""
    fields = [pc.struct_field(structs, [number]) for number in range(len(names))]
    return pa.Table.from_arrays(fields, names=names)


def _prepare(environment: os._Environ[str], *, is_local: bool) -> None:
    """Set the environment of the Java process and of the Python workers."""
    environment["JAVA_HOME"] = str(find_java(environment, cache_directory(environment)))
    # Spark's default is `python3` from the PATH, which may lack our packages.
    environment.setdefault("PYSPARK_PYTHON", sys.executable)
    environment.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    if is_local:
        environment.setdefault("SPARK_LOCAL_IP", "127.0.0.1")


def first_line(error: BaseException) -> str:
    """Return the line of a Spark error with the cause."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    if lines[0].startswith("An error occurred while calling") and len(lines) > 1:
        return lines[1].removeprefix(": ")
    return lines[0]
