"""Lakes of a recorded broker, from each of its sources, in one run or in two."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coterie.pipeline.jobs.run import Job, run_once
from coterie.pipeline.lake.lake import Lake
from coterie.pipeline.sources.source import open_source
from coterie.pipeline.tables.all_tables import TABLES
from tests.pipeline.truth.kinds import KINDS, Kind
from tests.pipeline.truth.recording import OFFSETS_TOPIC, Truth, recording

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Rows = list[dict[str, Any]]


@dataclass(frozen=True)
class Recorded:
    """The truth of a broker, and the tables of each lake, by the kind of its source."""

    truth: Truth
    lakes: Mapping[str, Mapping[str, Rows]]
    sources: Mapping[str, str]
    """The names of the sources by their kind."""
    folder: Path
    """The folder with a lake for each kind of source."""


@dataclass
class Lakes:
    """Lakes in a folder, one for each source; those of `in_parts` are made in two
    runs."""

    folder: Path
    spark: SparkSession
    sources: Mapping[str, str]
    """The names of sources by their kind, as `--from` takes them."""
    in_parts: frozenset[str]
    copy_log: Callable[[], object]
    """The function that copies the log to where the source of segments reads it."""

    def run(self, kind: str) -> None:
        """Run the pipeline on the lake of this source."""
        source = open_source(self.sources[kind])
        identity = getattr(source, "cluster_id", lambda: None)()
        lake = Lake.open_or_create(self.folder / kind, source.describe(), identity)
        run_once(Job(start_spark=lambda: self.spark, lake=lake, source=source))

    def run_first_parts(self) -> None:
        """Run the lakes that are made in two runs on the log as it is now."""
        self.copy_log()
        for kind in sorted(self.in_parts):
            self.run(kind)

    def run_to_end(self) -> None:
        """Run all lakes to the end of the log."""
        self.copy_log()
        for kind in self.sources:
            self.run(kind)

    def tables(self, kind: str) -> dict[str, Rows]:
        """Return the rows of all tables of a lake."""
        lake = Lake.open(self.folder / kind)
        return {table: lake.read(table).to_pylist() for table in TABLES}


@contextmanager
def recorded(
    bootstrap: str, lakes: Lakes, kinds: Sequence[Kind] = KINDS
) -> Iterator[Recorded]:
    """Record a broker and run the pipeline, while members are alive."""
    with recording(bootstrap, lakes.run_first_parts, kinds) as truth:
        lakes.run_to_end()
        tables = {kind: lakes.tables(kind) for kind in lakes.sources}
        yield Recorded(truth, tables, lakes.sources, lakes.folder)


def copy_segments(data: Path, to: Path) -> None:
    """Copy the segments of `__consumer_offsets` from a data directory of Kafka."""
    for each in sorted(data.glob(f"{OFFSETS_TOPIC}-*")):
        target = to / each.name
        target.mkdir(parents=True, exist_ok=True)
        for file in sorted(each.glob("*.log")):
            shutil.copyfile(file, target / file.name)
