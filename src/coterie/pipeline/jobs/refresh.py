"""Builds gold tables anew, or further, from what is in the lake, as one version of it.

A table is given exactly the rows that it has not seen: those of files that are newer
than the version it was built through. One whose inputs are as they were is left alone,
unless it looked at settings: with the newest record, time goes on for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Final
from uuid import uuid4

import msgspec
import pyarrow.parquet as pq

from coterie.pipeline.gold.all_gold import GOLD
from coterie.pipeline.gold.look import Gold, empty, spark_schema
from coterie.pipeline.gold.settings import GoldSettings
from coterie.pipeline.jobs.worker import folder_of
from coterie.pipeline.lake.lake import Lake
from coterie.pipeline.lake.version import File, TableFiles
from coterie.pipeline.tables.all_tables import TABLES
from coterie.pipeline.tables.partition_end_samples import PARTITION_END_SAMPLES
from coterie.pipeline.tables.table import Layer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_FACTS: Final = ("as_of_ts", "heads")
"""Settings that are facts of the lake and change with it."""


def refresh(
    spark: SparkSession,
    lake: Lake,
    settings: GoldSettings = GoldSettings(),  # noqa: B008 - a value
    chosen: Sequence[Gold] = GOLD,
    tell: Callable[[str, int, int], None] = lambda *_: None,
) -> list[str]:
    """Bring gold tables up to date and commit; the names of those that were built.
    `tell` is called before each, with its name, its number and how many there are. With
    other settings than before they are built from the beginning.

    Raises LogError when another run writes to the lake.
    """
    told = texts(settings)
    tables = dict(lake.version.tables)
    if told != dict(lake.version.settings):
        tables = without_gold(tables)
    now = replace(settings, as_of_ts=lake.version.as_of_ts, heads=lake.version.heads)
    bench = _Bench(spark, lake, now, lake.version.number + 1, tables)
    due = []
    for number, gold in enumerate(chosen):
        if bench.is_due(gold):
            tell(gold.table.name, number, len(chosen))
            bench.build(gold)
            due.append(gold.table.name)
    if due:
        version = lake.version
        lake.commit(
            msgspec.structs.replace(
                version, number=version.number + 1, tables=tables, settings=told
            )
        )
    return due


def texts(settings: GoldSettings) -> dict[str, str]:
    """Settings as a version tells them."""
    told = asdict(settings)
    return {name: str(told[name]) for name in told if name not in _FACTS}


def without_gold(tables: dict[str, TableFiles]) -> dict[str, TableFiles]:
    """What cannot be made from the rest: records, and samples of ends."""
    return {
        name: files
        for name, files in tables.items()
        if TABLES[name].layer is not Layer.GOLD or name == PARTITION_END_SAMPLES.name
    }


@dataclass
class _Bench:
    """Where the tables of the next version are made."""

    spark: SparkSession
    lake: Lake
    settings: GoldSettings
    number: int
    tables: dict[str, TableFiles]
    """As they are by now."""

    def is_due(self, gold: Gold) -> bool:
        """Whether building it may show something else than before."""
        mine = self.tables.get(gold.table.name)
        if mine is None:
            return True
        if mine.uses_settings and self.lake.version.moved > mine.through:
            return True
        changes = (self.tables[name].changed for name in gold.inputs if name in self)
        return any(each > mine.through for each in changes)

    def __contains__(self, name: object) -> bool:
        return name in self.tables

    def build(self, gold: Gold) -> None:
        """Build a table, or further."""
        look = _LakeLook(self, gold)
        frame = gold.build(look)
        fresh = self._write(frame, gold.table.name)
        present = self.tables.get(gold.table.name, TableFiles())
        is_same = gold.adds and not fresh and gold.table.name in self.tables
        self.tables[gold.table.name] = TableFiles(
            files=(*present.files, *fresh) if gold.adds else fresh,
            through=self.number,
            changed=present.changed if is_same else self.number,
            uses_settings=look.uses_settings,
        )

    def read(self, name: str, files: Iterable[File]) -> DataFrame:
        """Files of a table, in its schema."""
        table = TABLES[name]
        urls = [self.lake.storage.url(each.path) for each in files]
        if not urls:
            return empty(self.spark, table)
        return self.spark.read.schema(spark_schema(table)).parquet(*urls)

    def _write(self, frame: DataFrame, name: str) -> tuple[File, ...]:
        folder = f"{folder_of(name)}/{self.number:06}-{uuid4().hex[:12]}"
        storage = self.lake.storage
        frame.write.option("compression", "zstd").parquet(storage.url(folder))
        files = []
        for each in storage.entries(folder):
            if each.path.endswith(".parquet"):
                where = storage.at(each.path)
                rows = pq.read_metadata(where, filesystem=storage.files).num_rows
                if rows:
                    files.append(File(each.path, rows, each.size_bytes, self.number))
        return tuple(files)


class _LakeLook:
    """See `gold.look.Look`."""

    def __init__(self, bench: _Bench, gold: Gold) -> None:
        self.spark = bench.spark
        self.uses_settings = False
        self._bench = bench
        self._gold = gold
        self._through = bench.tables.get(gold.table.name, TableFiles()).through

    @property
    def settings(self) -> GoldSettings:
        """Whoever looks at them is built again when they change."""
        self.uses_settings = True
        return self._bench.settings

    def all(self, name: str) -> DataFrame:
        """The whole table."""
        return self._bench.read(name, self._files(name))

    def new(self, name: str) -> DataFrame:
        """Rows of newer files. Files of a table that is written as a whole come and go:
        of such a one there are no new rows."""
        assert self._only_grows(name), f"{name} has no new rows: it is made anew"
        files = self._files(name)
        return self._bench.read(
            name, [each for each in files if each.version > self._through]
        )

    def before(self, name: str | None = None) -> DataFrame:
        """The table that is built, or another one, as this one's last build left it."""
        bench, mine = self._bench, self._gold.table.name
        wanted = mine if name is None else name
        if not self._through:
            return bench.read(wanted, ())
        version = bench.lake.at(self._through)
        return bench.read(wanted, version.of(wanted).files)

    def _files(self, name: str) -> tuple[File, ...]:
        assert name in self._gold.inputs, f"{name} is no declared input"
        return self._bench.tables.get(name, TableFiles()).files

    def _only_grows(self, name: str) -> bool:
        if TABLES[name].layer is not Layer.GOLD or name == PARTITION_END_SAMPLES.name:
            return True
        return any(each.adds for each in GOLD if each.table.name == name)
