"""Lakes made in tests, and what their tables hold."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from coterie.pipeline.generator.generate import Order, generate
from coterie.pipeline.jobs.ingest import Step
from coterie.pipeline.jobs.run import Job, Silent
from coterie.pipeline.lake.lake import Lake
from coterie.pipeline.sources.source import Source, open_source
from coterie.pipeline.tables.all_tables import TABLES
from coterie.wire.compression import Codec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ALONE = Step(alone_below=2**60)
"""Everything in this process, so that no Spark is needed."""


@pytest.fixture(scope="session")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log of three partitions with all that happens to groups."""
    folder = tmp_path_factory.mktemp("generated") / "log"
    order = Order(
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


def lake_at(folder: Path, source: Source) -> Lake:
    return Lake.open_or_create(folder, source.describe())


def job(lake: Path, log: Path, spark: SparkSession | None = None, **more: Any) -> Job:
    """A run; without Spark it must not come to build anything."""
    source = open_source(str(log))
    return Job(
        spark=spark,  # type: ignore[arg-type]
        lake=lake_at(lake, source),
        source=source,
        samples=log / "truth" / "ends.jsonl",
        **{"step": ALONE, "progress": Silent(), **more},
    )


def tables_of(lake: Lake, names: Iterable[str] = TABLES) -> dict[str, list[str]]:
    """The rows of tables, in an order of their own."""
    return {name: sorted(map(repr, _rows(lake.read(name)))) for name in names}


def _rows(table: pa.Table) -> list[Any]:
    rows: list[Any] = table.to_pylist()
    return rows
