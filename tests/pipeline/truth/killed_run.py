"""A run that kills itself while it commits a table: killed_run.py TABLE LAKE SOURCE.

The commit of the table is decided, and its Delta table is not written yet. For a silver
table the run only reads the log; for a gold table it builds `current_offsets` with
Spark.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from coterie.pipeline.jobs.ingest import StepLimits
from coterie.pipeline.jobs.run import Job, read_log, run_once
from coterie.pipeline.lake.lake import Lake
from coterie.pipeline.lake.manifest import Version
from coterie.pipeline.sources.source import open_source
from coterie.pipeline.spark_session import Engine, start_session
from coterie.pipeline.tables.all_tables import GOLD
from tests.pipeline.conftest import SMALL_JOBS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CURRENT_OFFSETS: Final = "current_offsets"
PART_RECORDS: Final = 150
"""The records of a run that does not read everything."""


def job_of(lake: Path, source: str, spark: SparkSession | None, **more: Any) -> Job:
    """Return a job that builds `current_offsets` only, and reads without Spark."""
    opened = open_source(source)
    return Job(
        start_spark=lambda: cast(Any, spark),
        lake=Lake.open_or_create(lake, opened.describe()),
        source=opened,
        gold=(GOLD[CURRENT_OFFSETS],),
        limits=StepLimits(in_process_below=2**60),
        **more,
    )


def die_at(table: str) -> None:
    """Kill this process when it commits a change of the table."""
    apply = Lake._apply

    def apply_or_die(lake: Lake, version: Version) -> None:
        if any(each.table == table for each in version.changes):
            os.kill(os.getpid(), signal.SIGKILL)
        apply(lake, version)

    setattr(Lake, "_apply", apply_or_die)  # noqa: B010 - mypy refuses an assignment


def main(table: str, lake: str, source: str) -> None:
    die_at(table)
    if table != CURRENT_OFFSETS:
        read_log(job_of(Path(lake), source, None, max_records=PART_RECORDS))
        return
    engine = Engine(memory="1g", shuffle_partitions=2, java_options=SMALL_JOBS)
    run_once(job_of(Path(lake), source, start_session(engine)))


if __name__ == "__main__":
    main(*sys.argv[1:])
