"""The driver of a run on a cluster: driver.py MASTER ZIP LAKE LOG.

It prints the path from which the workers import Coterie.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from coterie.pipeline.jobs.ingest import StepLimits
from coterie.pipeline.jobs.run import Job, run_once
from coterie.pipeline.lake.lake import Lake
from coterie.pipeline.sources.source import open_source
from coterie.pipeline.spark_session import Engine, start_session
from coterie.pipeline.tables.all_tables import GOLD


def main(master: str, package: str, lake: str, log: str) -> None:
    engine = Engine(
        master=master,
        memory="512m",
        settings={
            "spark.submit.pyFiles": package,
            "spark.executor.memory": "512m",
            "spark.driver.host": "127.0.0.1",
            "spark.sql.shuffle.partitions": "2",
        },
    )
    source = open_source(log)
    job = Job(
        start_spark=lambda: start_session(engine),
        lake=Lake.open_or_create(Path(lake), source.describe()),
        source=source,
        gold=(GOLD["current_offsets"],),
        limits=StepLimits(tasks=engine.workers),
    )
    run_once(job)

    def where(batches: Iterator[Any]) -> Iterator[Any]:
        import coterie

        for batch in batches:
            paths = [coterie.__file__] * batch.num_rows
            yield pa.record_batch({"path": pa.array(paths, pa.string())})

    frame = job.start_spark().range(2).mapInArrow(where, "path string")
    sys.stdout.write(" ".join({row.path for row in frame.collect()}))
    job.start_spark().stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
