"""The options that say where Spark runs, for every verb that starts it."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Final

from coterie.errors import SettingError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from coterie.pipeline.jobs.ingest import Step
    from coterie.pipeline.session.session import Engine

_ALONE_BELOW: Final = 20_000
"""Fewer records are read faster here than by asking workers."""
_NO_SETTING: Final = "is no KEY=VALUE: say for example spark.executor.memory=4g"


def add_engine_options(parser: argparse.ArgumentParser) -> None:
    """Declare them; `start` reads them."""
    group = parser.add_argument_group(
        "Spark", "docs/pipeline-cluster.md says what a cluster needs"
    )
    where = group.add_mutually_exclusive_group()
    where.add_argument(
        "--master",
        default="local[2]",
        metavar="URL",
        help="local[N] for N cores here, or a cluster: spark://HOST:PORT, yarn,"
        " k8s://URL (default local[2])",
    )
    where.add_argument(
        "--remote",
        metavar="sc://HOST:PORT",
        help="a server of Spark Connect; then no Java is needed here",
    )
    group.add_argument(
        "--memory",
        default="4g",
        metavar="SIZE",
        help="of Spark's driver, which is all of it when it runs here (default 4g)",
    )
    group.add_argument(
        "--conf",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="a setting of Spark; may be repeated",
    )


def engine_of(options: argparse.Namespace) -> Engine:
    """What the options say. Raises SettingError."""
    from coterie.pipeline.session.session import Engine

    settings = {}
    for text in options.conf:
        name, is_there, value = text.partition("=")
        if not is_there or not name:
            raise SettingError(f"--conf {text} {_NO_SETTING}")
        settings[name] = value
    return Engine(
        master=options.master,
        remote=options.remote,
        memory=options.memory,
        settings=settings,
    )


def step_of(engine: Engine) -> Step:
    """How much is done at once there."""
    from coterie.pipeline.jobs.ingest import Step

    alone_below = _ALONE_BELOW if engine.is_local else 0
    return Step(tasks=engine.workers, alone_below=alone_below)


def start(engine: Engine) -> SparkSession:
    """Start Spark, and say so where people look: it takes some seconds."""
    from coterie.pipeline.session.session import start_session

    if sys.stderr.isatty():
        sys.stderr.write(f"starting Spark ({engine.remote or engine.master}) ...\n")
    return start_session(engine)
