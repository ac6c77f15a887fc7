"""Gold tables built from silver tables in memory, in one run or in several."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from coterie.pipeline.gold.settings import GoldSettings
from coterie.pipeline.gold.table_inputs import GoldTable, Plan
from coterie.pipeline.tables.all_tables import TABLES
from coterie.pipeline.tables.spark import empty_frame, spark_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Tables = Mapping[str, Any]
"""Arrow tables by name."""


@dataclass
class MemoryInputs:
    """The inputs of one build and of its plan; a table that is not given has no
    rows."""

    spark: SparkSession
    settings: GoldSettings
    gold: GoldTable
    all_rows: Tables
    new_rows: Tables
    tables_before: Tables
    plans: Mapping[str, Plan] = field(default_factory=dict)
    """The plans of the tables built before this one, and this table's last plan."""

    def __post_init__(self) -> None:
        self.plan = self.gold.plan(self)

    @property
    def cuts(self) -> tuple[datetime, ...]:
        last = self.plans.get(self.gold.table.name, Plan())
        return (*last.kept, *last.cuts)

    def plan_of(self, name: str) -> Plan | None:
        self._check(name)
        is_known = self.gold.table.name in self.tables_before
        return self.plans.get(name) if is_known else None

    def new_times(self, name: str, *columns: str) -> Iterator[Any]:
        self._check(name)
        if (rows := self.new_rows.get(name)) is not None:
            yield pc.coalesce(*(rows[each] for each in columns))

    def rows(self, name: str, columns: Sequence[str]) -> Any:
        self._check(name)
        return self.all_rows.get(name, _empty(name)).select(columns)

    def rows_before(self, name: str, columns: Sequence[str]) -> Any:
        self._check(name)
        return self.tables_before.get(name, _empty(name)).select(columns)

    def all(self, name: str) -> DataFrame:
        self._check(name)
        return self._frame(name, self.all_rows)

    def of_days(self, name: str) -> DataFrame:
        self._check(name)
        rows, column = self.all_rows.get(name), TABLES[name].day_of
        assert column is not None
        if rows:
            dates = rows[column].cast(pa.date32())
            known = pa.array(list(self.plan.days), pa.date32())
            rows = rows.filter(pc.or_(pc.is_null(dates), pc.is_in(dates, known)))
        return self._frame(name, {name: rows})

    def since(self, name: str, time: datetime | None) -> DataFrame:
        own = name == self.gold.table.name
        if not own:
            self._check(name)
        tables = self.tables_before if own else self.all_rows
        rows, column = tables.get(name), TABLES[name].day_of
        assert column is not None
        if rows and time is not None:
            dates = rows[column].cast(pa.date32())
            is_later = pc.greater_equal(dates, time.astimezone(UTC).date())
            rows = rows.filter(pc.or_kleene(pc.is_null(dates), is_later))
        return self._frame(name, {name: rows})

    def new(self, name: str) -> DataFrame:
        self._check(name)
        return self._frame(name, self.new_rows)

    def before(self, name: str | None = None) -> DataFrame:
        self._check(name)
        return self._frame(name or self.gold.table.name, self.tables_before)

    def kept_rows(self) -> Any | None:
        """Return the rows of the last build that are kept; None for none."""
        if self.gold.rewrites is None or self.plan.start is None:
            return None
        before = self.tables_before[self.gold.table.name]
        times = before[self.gold.rewrites]
        return before.filter(pc.less(times, pa.scalar(self.plan.start, times.type)))

    def _check(self, name: str | None) -> None:
        assert name in (None, *self.gold.inputs), f"{name} is no declared input"

    def _frame(self, name: str, tables: Tables) -> DataFrame:
        rows = tables.get(name)
        if not rows:
            return empty_frame(self.spark, TABLES[name])
        rows = rows.combine_chunks()
        return self.spark.createDataFrame(rows, spark_schema(TABLES[name]))


@dataclass
class MemoryLake:
    """A lake in memory, and the gold tables that every run builds."""

    spark: SparkSession
    golds: Sequence[GoldTable]
    settings: GoldSettings = field(default_factory=GoldSettings)
    tables: dict[str, Any] = field(default_factory=dict)
    plans: dict[str, Plan] = field(default_factory=dict)
    """The plans of the last builds."""

    def run(self, fresh: Tables) -> MemoryLake:
        """Run the pipeline over new silver rows and build the gold tables.

        `fresh` may contain tables of `_REPLACED`; each replaces the previous table.
        """
        before = dict(self.tables)
        added = dict(fresh)
        for name, rows in fresh.items():
            if name in before and name not in _REPLACED:
                self.tables[name] = pa.concat_tables([before[name], rows])
            else:
                self.tables[name] = rows
        for gold in self.golds:
            name = gold.table.name
            inputs = MemoryInputs(
                self.spark,
                self.settings,
                gold,
                self.tables,
                added,
                before,
                self.plans,
            )
            rows = arrow_of(gold.rows(inputs), gold)
            kept = inputs.kept_rows()
            if kept is not None:
                assert gold.rewrites is not None
                first = pc.min(rows[gold.rewrites]).as_py()
                assert first is None or first >= inputs.plan.start
                rows = pa.concat_tables([kept, rows])
            if gold.appends:
                added[name] = rows
                rows = (
                    pa.concat_tables([before[name], rows]) if name in before else rows
                )
            self.tables[name] = rows
            self.plans[name] = inputs.plan
        return self


def _empty(name: str) -> Any:
    return TABLES[name].schema.empty_table()


_REPLACED = frozenset(
    {"partition_ownership_history", "member_sessions", "current_groups"}
)


def arrow_of(frame: DataFrame, gold: GoldTable) -> Any:
    """Return the built rows, sorted by key. Assert that they match the declaration:
    required columns are not null, and keys are unique."""
    rows = frame.toArrow().cast(gold.table.schema)
    keys = rows.select(list(gold.table.key))
    assert keys.group_by(keys.column_names).aggregate([]).num_rows == len(rows)
    return rows.sort_by([(name, "ascending") for name in gold.table.key])


def parts_of(tables: Tables, ends: Sequence[Mapping[int, int]]) -> list[dict[str, Any]]:
    """Split silver tables at the given offsets of each log partition.

    Return one dictionary for each part; the last part ends at the log end. Gold tables
    are not split.
    """
    whole = {name: rows for name, rows in tables.items() if name in _REPLACED}
    rest = {name: rows for name, rows in tables.items() if name not in _REPLACED}
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
