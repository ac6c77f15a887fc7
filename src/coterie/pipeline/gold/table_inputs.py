"""The definition of a gold table, and what its builds read.

A build has two parts. `plan` decides what to read and which rows to replace; it reads
the times of new rows, and runs no query of Spark. `select` returns the rows, as an
expression over data frames of the inputs.

Both are pure. Building once with all rows as new rows gives the same table as any
number of builds, each with the rows that arrived since the previous one. The tests
check this for every table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import TYPE_CHECKING, Any, Protocol

from coterie.pipeline.gold.settings import GoldSettings
from coterie.pipeline.tables.spark import conform
from coterie.pipeline.tables.table import Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class Plan:
    """What one build reads and replaces."""

    start: datetime | None = None
    """The time from which rows are selected; None for all. Rows before it are kept if
    the table has `rewrites`."""
    cuts: tuple[datetime, ...] = ()
    """New cuts (`gold.cuts`), in order."""
    kept: tuple[datetime, ...] = ()
    """Earlier cuts that stay."""
    days: tuple[date, ...] = ()
    """The days (UTC) with new rows."""


class PlanInputs(Protocol):
    """What the plan of one gold table can depend on."""

    @property
    def cuts(self) -> tuple[datetime, ...]:
        """The cuts of this table's last build, in order."""

    def plan_of(self, name: str) -> Plan | None:
        """Return the plan of an input that is built together with this table; None if
        this table lacks rows of an earlier build of the input."""

    def new_times(self, name: str, *columns: str) -> Iterator[Any]:
        """Yield the times of the rows added since this table was last built, as Arrow
        arrays: the first one of the columns that is not null."""

    def rows(self, name: str, columns: Sequence[str]) -> Any:
        """Return all rows of a table as an Arrow table."""

    def rows_before(self, name: str, columns: Sequence[str]) -> Any:
        """Return the rows that the table had at this table's last build."""


class TableInputs(Protocol):
    """The input tables of one build of a gold table."""

    spark: SparkSession
    plan: Plan

    @property
    def settings(self) -> GoldSettings:
        """Settings and facts of the lake. A table that reads them is rebuilt whenever
        they change."""

    def all(self, name: str) -> DataFrame:
        """Return all rows of a silver table, or of a gold table that was built before
        this one.
        """

    def of_days(self, name: str) -> DataFrame:
        """Return the rows of a table with `day_of` that may be of the plan's days:
        those of the days, and perhaps others. Files of other days are not read.
        """

    def since(self, name: str, time: datetime | None) -> DataFrame:
        """Return the rows of a table with `day_of` that may be of the day of `time`
        (UTC) or a later one, and perhaps others; None for all rows. Files of earlier
        days are not read. With the name of this table, its last result.
        """

    def new(self, name: str) -> DataFrame:
        """Return the rows added since this table was last built.

        Of the gold tables only those with `appends` have new rows; the others are
        replaced by every build.
        """

    def before(self, name: str | None = None) -> DataFrame:
        """Return the result of this table's last build, empty at first. With a name,
        return that gold table as of this table's last build, which is its state before
        all rows that `new` returns.
        """


@dataclass(frozen=True, slots=True)
class GoldTable:
    """The definition of a gold table: its inputs, and how a build makes its rows."""

    table: Table
    inputs: tuple[str, ...]
    """Names of the tables that a build reads."""
    select: Callable[[TableInputs], DataFrame]
    """The function that returns the rows, with at least the columns of `table`."""
    plan: Callable[[PlanInputs], Plan] = lambda _: Plan()
    appends: bool = False
    """True when the rows are added to the table, and do not replace it."""
    rewrites: str | None = None
    """The time column by which only the rows from `Plan.start` on are replaced."""

    def rows(self, inputs: TableInputs) -> DataFrame:
        """Return the rows of a build, in the schema of the table."""
        return conform(self.select(inputs), self.table)


def derived(
    table: Table, transform: Callable[..., DataFrame], *inputs: str
) -> GoldTable:
    """Return the definition of a table computed from all rows of its inputs, which are
    the arguments of `transform`."""
    return GoldTable(table, inputs, lambda tables: transform(*map(tables.all, inputs)))


def updated(
    table: Table,
    transform: Callable[..., DataFrame],
    *new: str,
    whole: tuple[str, ...] = (),
) -> GoldTable:
    """Return the definition of a table computed from its last result, the new rows of
    inputs, and all rows of the inputs `whole`: the arguments of `transform`."""
    return GoldTable(
        table,
        (*new, *whole),
        lambda tables: transform(
            tables.before(), *map(tables.new, new), *map(tables.all, whole)
        ),
    )
