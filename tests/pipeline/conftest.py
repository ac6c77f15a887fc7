"""The Spark session that the pipeline tests of a process share."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SMALL_JOBS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=192m"
"""JVM options for short jobs: only the fast compiler, as most of a small job's time is
compilation, with more than its default code cache, which many tests fill."""


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """Start Spark with two cores and two shuffle partitions.

    This takes several seconds, so tests that use it are marked slow.
    """
    from coterie.pipeline.spark_session import Engine, start_session

    session = start_session(
        Engine(memory="1g", shuffle_partitions=2, java_options=SMALL_JOBS)
    )
    yield session
    session.stop()
    with warnings.catch_warnings():
        # Its sockets to the JVM are closed by the garbage collector.
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()
