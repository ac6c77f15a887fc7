"""Select the rows of a gold table: run its query, with its inputs as views.

The rows depend on the inputs, the settings and the plan only. Building once with all
rows as new rows gives the same table as any number of builds, each with the rows that
arrived since the previous one. The tests check this for every table.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Protocol

import pyarrow.compute as pc

from coterie.pipeline.gold.plans import Plan
from coterie.pipeline.gold.settings import GoldSettings
from coterie.pipeline.tables.all_tables import GOLD, VIEWS, Query, read_of
from coterie.pipeline.tables.spark import conform, spark_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


_MARGIN: Final = timedelta(hours=2)
"""How long before the base rows of inputs are read."""


class TableInputs(Protocol):
    """The input tables of one build of a gold table."""

    spark: SparkSession
    settings: GoldSettings
    plan: Plan

    def read(self, how: str, name: str, time: datetime | None = None) -> DataFrame:
        """Return the rows of a table that `how` names as a query does: all, new, old,
        days or none; or since: those of the day (UTC) of a time and later ones."""


def select(query: Query, inputs: TableInputs) -> DataFrame:
    """Return the rows of a build, in the schema of the table."""
    return conform(_Selection(query, inputs).run(query), query.declared)


class _Selection:
    """The views of one build."""

    def __init__(self, query: Query, inputs: TableInputs) -> None:
        self._inputs = inputs
        self._frames: dict[str, DataFrame] = {}
        plan = inputs.plan
        self._parameters: dict[str, Any] = inputs.settings.parameters() | {
            "base": plan.base,
            "cuts": list(plan.cuts),
            "kept": list(plan.kept),
            "days": list(plan.days),
        }
        self._earliest: datetime | None = None
        """The least time of a collected view; None without rows."""
        for part in query.parts:
            if part.collect is not None:
                self._collect(part.name, part.collect)

    def run(self, query: Query) -> DataFrame:
        """Return the rows of a table or a view."""
        for name in query.names:
            if name not in self._frames:
                self._frames[name] = self._frame(name)
        known = self._parameters
        frame = self._inputs.spark.sql(
            query.sql,
            {name: known[name] for name in query.parameters & known.keys()},
            **{name: self._frames[name] for name in query.names},
        )
        if query.function is None:
            return frame
        assert query.returns is not None, "a function returns rows of a table"
        function = partial(
            _map, query.function, self._inputs.settings, self._inputs.plan
        )
        return frame.mapInArrow(function, spark_schema(GOLD[query.returns].declared))

    def _frame(self, name: str) -> DataFrame:
        if name in VIEWS:
            return self.run(VIEWS[name])
        how, table = read_of(name)
        if how == "since" and self._inputs.plan.base is not None:
            return self._inputs.read(how, table, self._inputs.plan.base - _MARGIN)
        if how == "earlier" and self._earliest is not None:
            return self._inputs.read("since", table, self._earliest)
        # Without a base all rows are read, without an earliest time none.
        return self._inputs.read(
            {"since": "all", "earlier": "none"}.get(how, how), table
        )

    def _collect(self, name: str, column: str) -> None:
        """Collect the rows of a view, and the least time in a column of ms."""
        frame = self.run(VIEWS[name])
        rows = frame.toArrow()
        least = pc.min(rows[column]).as_py()
        if least is not None:
            self._earliest = datetime.fromtimestamp(least / 1_000, UTC)
        # Spark Connect cannot infer a schema without rows.
        self._frames[name] = self._inputs.spark.createDataFrame(rows, frame.schema)


def _map(
    function: str, settings: GoldSettings, plan: Plan, batches: Iterator[Any]
) -> Iterator[Any]:
    """Run the function of a view in a worker of Spark."""
    module, _, name = function.rpartition(".")
    found = getattr(import_module(f"coterie.pipeline.gold.{module}"), name)
    yield from found(settings, plan, batches)
