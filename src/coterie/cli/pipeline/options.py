"""Options that several `coterie pipeline` commands share, and their values.

Each `add_*` function declares options; the function after it reads them. Nothing heavy
is imported at the top, because `--help` imports this module.
"""

from __future__ import annotations

import argparse
import sys
import time
from contextlib import suppress
from datetime import UTC, datetime
from importlib.abc import MetaPathFinder
from typing import TYPE_CHECKING, Final

from coterie import operations as ops
from coterie.cli.connect import add_connection_options, read_portable_settings
from coterie.cli.durations import whole_number
from coterie.errors import SettingError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from coterie.pipeline.jobs.ingest import StepLimits
    from coterie.pipeline.lake.lake import Lake
    from coterie.pipeline.sources.source import Source
    from coterie.pipeline.spark_session import Engine

_IN_PROCESS_BELOW: Final = 20_000
"""Fewer records are decoded faster in this process than by Spark's workers."""


def add_lake_option(parser: argparse.ArgumentParser) -> None:
    """Declare --lake."""
    parser.add_argument(
        "--lake",
        required=True,
        metavar="DIR",
        help="directory of the tables that `coterie pipeline run` wrote",
    )


def add_as_of_option(parser: argparse.ArgumentParser) -> None:
    """Declare --as-of."""
    parser.add_argument(
        "--as-of",
        type=read_as_of,
        metavar="VERSION",
        help="earlier version of the lake: its number, or the last one committed by a"
        " date-time such as 2026-11-21T10:00:00Z or a time span before now such as 2h;"
        " coterie pipeline versions lists them",
    )


def open_lake(options: argparse.Namespace) -> Lake:
    """Open the lake at the version of --as-of. Raises SettingError and LogError."""
    from coterie.pipeline.lake.lake import Lake

    return Lake.open(options.lake, options.as_of)


def skip_pandas() -> None:
    """Import pyarrow without pandas, which is half the time of a short command.

    pyarrow imports pandas when it creates its first value, to recognize a Series. It
    tries again when a table is converted to pandas.
    """
    if "pyarrow.dataset" in sys.modules or "pandas" in sys.modules:
        return
    sys.meta_path.insert(0, _NO_PANDAS)
    try:
        import pyarrow.dataset  # noqa: F401
    finally:
        sys.meta_path.remove(_NO_PANDAS)


class _WithoutPandas(MetaPathFinder):
    """A finder of modules that finds no pandas."""

    def find_spec(self, fullname: str, *_: object) -> None:
        if fullname == "pandas":
            raise ModuleNotFoundError(fullname)


_NO_PANDAS: Final = _WithoutPandas()


# The log.


def add_source_options(
    parser: argparse.ArgumentParser, *, is_required: bool = True
) -> None:
    """Declare --from and the options of a connection to a cluster."""
    parser.add_argument(
        "--from",
        required=is_required,
        dest="source",
        metavar="SOURCE",
        help="log to read: kafka:HOST:PORT or segments:DIR (log segments; may be a"
        " URI); the prefix may be omitted",
    )
    add_connection_options(parser, names_cluster=False)


def open_source_option(options: argparse.Namespace) -> Source:
    """Open the source that --from names, and write warnings to stderr.

    For a cluster, the connection settings have the same sources as in other commands:
    options, environment, profile and file. Raises SettingError.
    """
    from coterie.pipeline.sources.source import open_source, parse_source_name

    kind, where = parse_source_name(options.source)
    if kind != "kafka":
        return open_source(options.source)

    options.bootstrap_server = where
    return open_source(options.source, settings=read_portable_settings(options))


# Spark.


def add_engine_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the Spark session."""
    group = parser.add_argument_group(
        "Spark", "docs/pipeline-cluster.md describes the set-up of a cluster"
    )
    where = group.add_mutually_exclusive_group()
    where.add_argument(
        "--master",
        default="local[2]",
        metavar="URL",
        help="local[N] for N cores of this machine, or a cluster: spark://HOST:PORT,"
        " yarn, k8s://URL (default local[2])",
    )
    where.add_argument(
        "--remote",
        metavar="sc://HOST:PORT",
        help="Spark Connect server; needs no Java on this machine",
    )
    group.add_argument(
        "--memory",
        default="4g",
        metavar="SIZE",
        help="memory of Spark's driver; with local[N] all of Spark's (default 4g)",
    )
    group.add_argument(
        "--conf",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="Spark configuration property; may be repeated",
    )


def engine_of(options: argparse.Namespace) -> Engine:
    """Return the Spark engine of the options. Raises SettingError."""
    from coterie.pipeline.spark_session import Engine

    settings = {}
    for text in options.conf:
        name, separator, value = text.partition("=")
        if not separator or not name:
            raise SettingError(
                f"--conf {text}: expected KEY=VALUE, as in spark.executor.memory=4g"
            )
        settings[name] = value
    return Engine(
        master=options.master,
        remote=options.remote,
        memory=options.memory,
        settings=settings,
    )


def step_limits(engine: Engine) -> StepLimits:
    """Return the limits of an ingest step on this engine."""
    from coterie.pipeline.jobs.ingest import StepLimits

    in_process_below = _IN_PROCESS_BELOW if engine.is_local else 0
    return StepLimits(tasks=engine.workers, in_process_below=in_process_below)


def start_spark(engine: Engine) -> SparkSession:
    """Start Spark, which takes some seconds, or return the running session; show a
    message at a terminal."""
    from coterie.pipeline.spark_session import start_session

    if sys.stderr.isatty():
        sys.stderr.write(f"starting Spark ({engine.remote or engine.master}) ...\n")
    return start_session(engine)


# Numbers and times.

TIME_HELP: Final = (
    "a date-time such as 2026-11-21T10:00:00Z, or a time span before the lake's newest"
    " record: 90s, 5m, 2h30m, 7d"
)


_COUNT: Final = whole_number("a number of rows", least=0, most=2**63 - 1)


def add_limit_option(
    parser: argparse._ActionsContainer, default: int | None, noun: str = "rows"
) -> None:
    """Declare --limit; its value is None for all."""
    shown = "all" if default is None else str(default)
    parser.add_argument(
        "--limit",
        type=lambda text: _COUNT(text) or None,
        default=default,
        metavar="N",
        help=f"maximum number of {noun}, 0 for all (default {shown})",
    )


def read_as_of(text: str) -> int | datetime:
    """Parse the value of --as-of for argparse: a version's number or a time."""
    if text.isascii() and text.isdigit():
        return int(text)
    try:
        ms = read_time_ms(text, round(time.time() * 1_000))
    except SettingError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a version: expected its number, a date-time such as"
            " 2026-11-21T10:00:00Z or a time span before now such as 90s, 5m or 7d"
        ) from None
    return datetime.fromtimestamp(ms / 1_000, UTC)


def read_time_ms(text: str, newest_ms: int) -> int:
    """Parse the value of --at or --since; return ms since 1970.

    A time span counts back from `newest_ms`. Raises SettingError.
    """
    with suppress(SettingError):
        return max(0, ops.time_before(text, newest_ms))
    try:
        return ops.read_datetime_ms(text.strip().replace(" ", "T"))
    except SettingError:
        raise SettingError(f"{text!r} is not a time: expected {TIME_HELP}") from None
