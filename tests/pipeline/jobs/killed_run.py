"""A run that kills itself at a given moment: killed_run.py MOMENT LAKE LOG.

The moments of its first commit are `writing` (while files are written), `written`
(before the version is created), `decided` (before the Delta tables are committed),
`applied` (after that, before the version is visible) and `committed` (before the
pointer is updated). The moment `building` is before Spark builds the second gold table.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from coterie.pipeline.gold.select import TableInputs, select
from coterie.pipeline.jobs import ingest, refresh
from coterie.pipeline.jobs.run import Job, read_log, run_once
from coterie.pipeline.lake import lake as lake_module
from coterie.pipeline.lake.lake import Lake
from coterie.pipeline.lake.storage import Storage
from coterie.pipeline.spark_session import Engine, start_session
from coterie.pipeline.tables.all_tables import Query
from tests.pipeline.conftest import SMALL_JOBS
from tests.pipeline.jobs.lakes import job

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_RECORDS = 500


def die(*_: Any) -> NoReturn:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("still alive")


def patch(kind: type[object], method: str) -> None:
    setattr(kind, method, die)


def build(one: Job) -> None:
    engine = Engine(memory="1g", shuffle_partitions=2, java_options=SMALL_JOBS)
    one.start_spark = lambda: start_session(engine)

    def die_at_the_second(query: Query, inputs: TableInputs) -> DataFrame:
        return die() if query is one.gold[1] else select(query, inputs)

    vars(refresh)["select"] = die_at_the_second
    run_once(one)


def main(moment: str, lake: str, log: str) -> None:
    one = job(Path(lake), Path(log), max_records=_RECORDS)
    if moment == "building":
        build(one)
    match moment:
        case "writing":
            patch(ingest._TaskFiles, "close")
        case "written":
            patch(Lake, "commit")
        case "decided":
            patch(Lake, "_apply")
        case "applied":
            vars(lake_module)["publish"] = die
        case "committed":
            replace_file = Storage.replace

            def die_at_the_pointer(storage: Storage, path: str, data: bytes) -> None:
                if path.endswith("current.json"):
                    die()
                replace_file(storage, path, data)

            setattr(Storage, "replace", die_at_the_pointer)  # noqa: B010
    read_log(one)


if __name__ == "__main__":
    main(*sys.argv[1:])
