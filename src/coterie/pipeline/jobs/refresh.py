"""Build or update the gold tables of a lake, in one commit.

An incremental table reads exactly the new rows: those in files newer than the version
of its last build. A table whose inputs did not change is skipped, unless it depends on
settings: the time of the newest record is one of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Final, TypeAlias
from uuid import uuid4

import msgspec
import pyarrow.parquet as pq

from coterie.pipeline.gold.all_gold import GOLD
from coterie.pipeline.gold.settings import GoldSettings
from coterie.pipeline.gold.table_inputs import GoldTable
from coterie.pipeline.jobs.spark_tables import read_files
from coterie.pipeline.lake.lake import File, Lake, TableFiles, folder_of
from coterie.pipeline.tables.all_tables import TABLES
from coterie.pipeline.tables.gold_offsets import PARTITION_END_SAMPLES
from coterie.pipeline.tables.table import Layer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Progress: TypeAlias = Callable[[str, int, int], None]
"""A callback with a step of a run, the amount done and the total."""
_FROM_LAKE: Final = ("as_of_ts", "heads")
"""Settings that come from the lake and change with every run."""


def refresh(
    spark: SparkSession,
    lake: Lake,
    settings: GoldSettings = GoldSettings(),  # noqa: B008 - immutable
    chosen: Sequence[GoldTable] = GOLD,
    progress: Progress = lambda *_: None,
) -> list[str]:
    """Bring gold tables up to date, commit, and return the names of those built.

    When the settings changed, all gold tables are built from the beginning. Raises
    LogError on a concurrent commit.
    """
    values = asdict(settings)
    recorded = {name: str(values[name]) for name in values if name not in _FROM_LAKE}
    tables = dict(lake.version.tables)
    if recorded != dict(lake.version.settings):
        tables = without_gold(tables)
    now = replace(settings, as_of_ts=lake.version.as_of_ts, heads=lake.version.heads)
    builder = _Builder(spark, lake, now, lake.version.number + 1, tables)
    built = []
    for number, gold in enumerate(chosen):
        if builder.is_due(gold):
            progress(f"building {gold.table.name}", number, len(chosen))
            builder.build(gold)
            built.append(gold.table.name)
    if built:
        version = lake.version
        lake.commit(
            msgspec.structs.replace(
                version, number=version.number + 1, tables=tables, settings=recorded
            )
        )
    return built


def without_gold(tables: dict[str, TableFiles]) -> dict[str, TableFiles]:
    """Return the tables that are not derived from others: bronze, silver, and the
    samples of partition ends.
    """
    return {
        name: files
        for name, files in tables.items()
        if TABLES[name].layer is not Layer.GOLD or name == PARTITION_END_SAMPLES.name
    }


@dataclass
class _Builder:
    """The gold tables of the next version."""

    spark: SparkSession
    lake: Lake
    settings: GoldSettings
    number: int
    tables: dict[str, TableFiles]
    """The tables built so far replace those of the current version."""

    def is_due(self, gold: GoldTable) -> bool:
        """Return whether a new build of the table may give other rows."""
        present = self.tables.get(gold.table.name)
        if present is None:
            return True
        if present.uses_settings and self.lake.version.moved > present.through:
            return True
        return any(
            self.tables[name].changed > present.through
            for name in gold.inputs
            if name in self.tables
        )

    def build(self, gold: GoldTable) -> None:
        name = gold.table.name
        inputs = _BuildInputs(self, gold)
        new = self._write(inputs.with_kept_rows(gold.build(inputs)), name)
        present = self.tables.get(name, TableFiles())
        is_unchanged = gold.appends and not new and name in self.tables
        self.tables[name] = TableFiles(
            files=(*present.files, *new) if gold.appends else new,
            through=self.number,
            changed=present.changed if is_unchanged else self.number,
            uses_settings=inputs.uses_settings,
        )

    def _write(self, frame: DataFrame, name: str) -> tuple[File, ...]:
        folder = f"{folder_of(name)}/{self.number:06}-{uuid4().hex[:12]}"
        storage = self.lake.storage
        frame.write.option("compression", "zstd").parquet(storage.url(folder))
        files = []
        for entry in storage.entries(folder):
            if entry.path.endswith(".parquet"):
                path = storage.at(entry.path)
                rows = pq.read_metadata(path, filesystem=storage.filesystem).num_rows
                if rows:
                    files.append(File(entry.path, rows, entry.size_bytes, self.number))
        return tuple(files)


class _BuildInputs:
    """An implementation of `TableInputs` over a lake, for the build of one table."""

    def __init__(self, builder: _Builder, gold: GoldTable) -> None:
        self.spark = builder.spark
        self.uses_settings = False
        self._rewritten_from: datetime | None = None
        self._builder = builder
        self._gold = gold
        self._through = builder.tables.get(gold.table.name, TableFiles()).through

    @property
    def settings(self) -> GoldSettings:
        """The settings; a table that reads them is built again when they change."""
        self.uses_settings = True
        return self._builder.settings

    def all(self, name: str) -> DataFrame:
        """Return all rows of an input."""
        return self._read(name, self._files(name))

    def new(self, name: str) -> DataFrame:
        """Return the rows of files newer than the last build.

        The input must be append-only: a table that is rewritten has no new rows.
        """
        is_append_only = (
            TABLES[name].layer is not Layer.GOLD
            or name == PARTITION_END_SAMPLES.name
            or any(each.appends for each in GOLD if each.table.name == name)
        )
        assert is_append_only, f"{name} is rewritten, not appended to"
        files = self._files(name)
        return self._read(
            name, [each for each in files if each.version > self._through]
        )

    def before(self, name: str | None = None) -> DataFrame:
        """Return this table, or another one, as of the last build of this table."""
        wanted = self._gold.table.name if name is None else name
        if not self._through:
            return self._read(wanted, ())
        version = self._builder.lake.at(self._through)
        return self._read(wanted, version.of(wanted).files)

    def rewrite_from(self, time: datetime | None) -> None:
        """Keep the rows of this table before `time`."""
        assert self._gold.rewrites is not None
        self._rewritten_from = time

    def with_kept_rows(self, built: DataFrame) -> DataFrame:
        """Return the built rows and the rows of the last build that are kept."""
        column, time = self._gold.rewrites, self._rewritten_from
        if column is None or time is None:
            return built
        # This writes all rows of the table again.
        kept = self.before().where(f"{column} < timestamp '{time.isoformat()}'")
        return kept.unionByName(built)

    def _read(self, name: str, files: Sequence[File]) -> DataFrame:
        return read_files(self.spark, self._builder.lake.storage, TABLES[name], files)

    def _files(self, name: str) -> tuple[File, ...]:
        assert name in self._gold.inputs, f"{name} is not a declared input"
        return self._builder.tables.get(name, TableFiles()).files
