"""What tests of the pipeline share: one Spark for all tests of a process."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SMALL_JOBS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Java compiles once and lightly: most of a small job is compiling."""


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """Two cores here, two shuffle partitions, UTC; starting it takes some seconds, so
    its tests are slow ones, with few queries."""
    from coterie.pipeline.session.session import Engine, start_session

    session = start_session(
        Engine(memory="1g", shuffle_partitions=2, java_options=SMALL_JOBS)
    )
    yield session
    session.stop()
    with warnings.catch_warnings():
        # Its sockets to Java are closed by being forgotten.
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()
