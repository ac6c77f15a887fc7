"""Lakes made in tests, and the rows of their tables."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from coterie.pipeline.jobs.ingest import StepLimits
from coterie.pipeline.jobs.run import Job
from coterie.pipeline.lake.lake import Lake
from coterie.pipeline.sources.source import Source, open_source
from coterie.pipeline.tables.all_tables import TABLES
from coterie.testing.log_generator.generate import GeneratorOptions, generate
from coterie.wire.compression import Codec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

IN_PROCESS = StepLimits(in_process_below=2**60)
"""Runs all steps in this process, without Spark."""


@pytest.fixture(scope="session")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log of three partitions with all kinds of group events."""
    folder = tmp_path_factory.mktemp("generated") / "log"
    order = GeneratorOptions(
        folder=folder,
        groups=20,
        commits=1_500,
        days=12,
        seed=3,
        partitions=3,
        codec=Codec.LZ4,
    )
    generate(order)
    return folder


def lake_at(folder: Path | str, source: Source) -> Lake:
    return Lake.open_or_create(folder, source.describe())


def job(
    lake: Path | str, log: Path, spark: SparkSession | None = None, **more: Any
) -> Job:
    """Return a job on a generated log. Without Spark the job cannot build gold
    tables."""
    source = open_source(str(log))
    return Job(
        start_spark=lambda: spark,  # type: ignore[arg-type, return-value]
        lake=lake_at(lake, source),
        source=source,
        samples=log / "truth" / "ends.jsonl",
        **{"limits": IN_PROCESS, **more},
    )


def tables_of(lake: Lake, names: Iterable[str] = TABLES) -> dict[str, list[str]]:
    """Return the rows of tables in sorted order."""
    return {name: sorted(map(repr, _rows(lake.read(name)))) for name in names}


def _rows(table: pa.Table) -> list[Any]:
    rows: list[Any] = table.to_pylist()
    return rows
