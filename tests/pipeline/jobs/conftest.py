"""The log of the tests of runs, and the lake that one run makes from it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from coterie.pipeline.jobs.run import run_once
from coterie.pipeline.tables.all_tables import GOLD
from tests.pipeline.jobs.lakes import job, log

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from coterie.pipeline.lake.lake import Lake

__all__ = ["log"]


@pytest.fixture(scope="session")
def whole(
    log: Path, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Lake:
    """A lake made by one run."""
    run = job(tmp_path_factory.mktemp("whole") / "lake", log, spark)
    done = run_once(run)
    assert list(done.built) == list(GOLD)
    return run.lake
