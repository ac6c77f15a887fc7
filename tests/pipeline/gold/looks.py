"""Gold tables built over silver tables in memory, in one run or in several."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from coterie.pipeline.gold.look import Gold, empty, spark_schema
from coterie.pipeline.gold.settings import GoldSettings
from coterie.pipeline.tables.all_tables import TABLES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Tables = Mapping[str, Any]
"""Arrow tables by name."""


@dataclass
class MemoryLook:
    """A `Look`; what was not given has no rows."""

    spark: SparkSession
    settings: GoldSettings
    gold: Gold
    seen: Tables
    fresh: Tables
    was: Tables

    def all(self, name: str) -> DataFrame:
        self._check(name)
        return self._frame(name, self.seen)

    def new(self, name: str) -> DataFrame:
        self._check(name)
        return self._frame(name, self.fresh)

    def before(self, name: str | None = None) -> DataFrame:
        self._check(name)
        return self._frame(name or self.gold.table.name, self.was)

    def _check(self, name: str | None) -> None:
        assert name in (None, *self.gold.inputs), f"{name} is no declared input"

    def _frame(self, name: str, tables: Tables) -> DataFrame:
        rows = tables.get(name)
        if not rows:
            return empty(self.spark, TABLES[name])
        rows = rows.combine_chunks()
        return self.spark.createDataFrame(rows, spark_schema(TABLES[name]))


@dataclass
class Lakeful:
    """All that was built so far."""

    spark: SparkSession
    golds: Sequence[Gold]
    settings: GoldSettings = field(default_factory=GoldSettings)
    tables: dict[str, Any] = field(default_factory=dict)

    def run(self, fresh: Tables) -> Lakeful:
        """One more run, over more silver rows; `fresh` may name gold tables that others
        make, which it replaces."""
        was = dict(self.tables)
        added = dict(fresh)
        for name, rows in fresh.items():
            if name in was and name not in _OTHERS:
                self.tables[name] = pa.concat_tables([was[name], rows])
            else:
                self.tables[name] = rows
        for gold in self.golds:
            name = gold.table.name
            look = MemoryLook(self.spark, self.settings, gold, self.tables, added, was)
            rows = arrow_of(gold.build(look), gold)
            if gold.adds:
                added[name] = rows
                rows = pa.concat_tables([was[name], rows]) if name in was else rows
            self.tables[name] = rows
        return self


_OTHERS = frozenset(
    {"partition_ownership_history", "member_sessions", "current_groups"}
)


def arrow_of(frame: DataFrame, gold: Gold) -> Any:
    """What a build gave, held to its declaration: no null where none may be, and keys
    of their own."""
    rows = frame.toArrow().cast(gold.table.schema)
    keys = rows.select(list(gold.table.key))
    assert keys.group_by(keys.column_names).aggregate([]).num_rows == len(rows)
    return rows.sort_by([(name, "ascending") for name in gold.table.key])


def parts_of(tables: Tables, ends: Sequence[Mapping[int, int]]) -> list[dict[str, Any]]:
    """Tables divided: each part up to these offsets of each log partition, the last one
    to the end. Gold tables are whole in each part."""
    whole = {name: rows for name, rows in tables.items() if name in _OTHERS}
    rest = {name: rows for name, rows in tables.items() if name not in _OTHERS}
    parts = []
    for until in ends:
        taken = {name: _where(rows, until) for name, rows in rest.items()}
        parts.append(
            whole | {name: rest[name].filter(each) for name, each in taken.items()}
        )
        rest = {
            name: rows.filter(pc.invert(taken[name])) for name, rows in rest.items()
        }
    return [*parts, whole | rest]


def _where(rows: Any, until: Mapping[int, int]) -> Any:
    column = "from_offset" if "from_offset" in rows.column_names else "log_offset"
    partitions = rows["log_partition"].to_pylist()
    bounds = [until.get(each, 0) for each in partitions]
    return pc.less(rows[column], pa.array(bounds, pa.int64()))
