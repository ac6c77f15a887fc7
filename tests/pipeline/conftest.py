"""What the pipeline tests of a process share: a Spark session, and a generated log."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from coterie.testing.log_generator.generate import GeneratorOptions, generate
from coterie.wire.compression import Codec
from tests.pipeline.gold.generated_silver import GeneratedSilver

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


@pytest.fixture(scope="session")
def story(tmp_path_factory: pytest.TempPathFactory) -> GeneratedSilver:
    """Twenty days of forty groups."""
    folder = tmp_path_factory.mktemp("story") / "log"
    options = GeneratorOptions(
        folder=folder,
        groups=40,
        commits=6_000,
        days=20,
        seed=3,
        partitions=4,
        codec=Codec.LZ4,
    )
    generate(options)
    return GeneratedSilver(folder)
