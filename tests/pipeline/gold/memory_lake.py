"""Gold tables built from silver tables in memory, in one run or in several."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from coterie.pipeline.gold import plans
from coterie.pipeline.gold.plans import Plan
from coterie.pipeline.gold.select import select
from coterie.pipeline.gold.settings import GoldSettings
from coterie.pipeline.tables.all_tables import GOLD, TABLES, Query
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
    query: Query
    all_rows: Tables
    new_rows: Tables
    tables_before: Tables
    plans: Mapping[str, Plan] = field(default_factory=dict)
    """The plans of the tables built before this one, and this table's last plan."""

    def __post_init__(self) -> None:
        self.plan = getattr(plans, self.query.options.get("plan", "plan_all"))(self)

    @property
    def cuts(self) -> tuple[datetime, ...]:
        last = self.plans.get(self.query.name, Plan())
        return (*last.kept, *last.cuts)

    def plan_of(self, name: str) -> Plan | None:
        is_known = self.query.name in self.tables_before
        return self.plans.get(name) if is_known else None

    def new_times(self, name: str, *columns: str) -> Iterator[Any]:
        if (rows := self.new_rows.get(name)) is not None:
            yield pc.coalesce(*(rows[each] for each in columns))

    def rows(self, how: str, name: str, columns: Sequence[str]) -> Any:
        return self._rows(how, name).select(columns)

    def read(self, how: str, name: str, time: datetime | None = None) -> DataFrame:
        rows = self._rows(how, name)
        if how in {"days", "since"}:
            column = TABLES[name].day_of
            assert column is not None
            dates = rows[column].cast(pa.date32())
            wanted = pc.is_in(dates, pa.array(list(self.plan.days), pa.date32()))
            if time is not None:
                wanted = pc.greater_equal(dates, time.astimezone(UTC).date())
            rows = rows.filter(pc.or_kleene(pc.is_null(dates), wanted))
        if not len(rows):
            return empty_frame(self.spark, TABLES[name])
        schema = spark_schema(TABLES[name])
        return self.spark.createDataFrame(rows.combine_chunks(), schema)

    def _rows(self, how: str, name: str) -> Any:
        is_before = how == "old" or name == self.query.name
        tables = self.tables_before if is_before else self.all_rows
        tables = {"new": self.new_rows, "none": {}}.get(how, tables)
        return tables.get(name, TABLES[name].schema.empty_table())


@dataclass
class MemoryLake:
    """A lake in memory, and the gold tables that every run builds, in order."""

    spark: SparkSession
    names: Sequence[str]
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
        for name in self.names:
            query = GOLD[name]
            inputs = MemoryInputs(
                self.spark,
                self.settings,
                query,
                self.tables,
                added,
                before,
                self.plans,
            )
            rows, plan = arrow_of(select(query, inputs), query), inputs.plan
            if query.merge == "since" and plan.base is not None:
                column = query.declared.day_of
                first = pc.min(rows[column]).as_py()
                assert first is None or first >= plan.base
                old = before[name]
                is_kept = pc.less(old[column], pa.scalar(plan.base, old[column].type))
                rows = pa.concat_tables([old.filter(is_kept), rows])
            if query.merge == "append":
                added[name] = rows
                rows = (
                    pa.concat_tables([before[name], rows]) if name in before else rows
                )
            self.tables[name] = rows
            self.plans[name] = plan
        return self


def build(
    spark: SparkSession,
    name: str,
    tables: Tables,
    settings: GoldSettings = GoldSettings(),  # noqa: B008 - immutable
) -> Any:
    """Return the rows of a gold table from all rows of its inputs, in one build."""
    inputs = MemoryInputs(spark, settings, GOLD[name], tables, tables, {})
    return arrow_of(select(GOLD[name], inputs), GOLD[name])


_REPLACED = frozenset(
    {"partition_ownership_history", "member_sessions", "current_groups"}
)


def arrow_of(frame: DataFrame, query: Query) -> Any:
    """Return the built rows, sorted by key. Assert that they match the declaration:
    required columns are not null, and keys are unique."""
    rows = frame.toArrow().cast(query.declared.schema)
    keys = rows.select(list(query.declared.key))
    assert keys.group_by(keys.column_names).aggregate([]).num_rows == len(rows)
    return rows.sort_by([(name, "ascending") for name in query.declared.key])


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
