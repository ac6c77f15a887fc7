"""The definition of a gold table, and the tables that its build function reads.

Build functions are pure. Building once with all rows as new rows gives the same table
as any number of builds, each with the rows that arrived since the previous one. The
tests check this for every table.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import date, datetime
from typing import TYPE_CHECKING, Protocol

from coterie.pipeline.gold.settings import GoldSettings
from coterie.pipeline.tables.spark import conform
from coterie.pipeline.tables.table import Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class TableInputs(Protocol):
    """Input tables for the build function of one gold table."""

    spark: SparkSession

    @property
    def settings(self) -> GoldSettings:
        """Settings and facts of the lake. A table that reads them is rebuilt whenever
        they change."""

    def all(self, name: str) -> DataFrame:
        """Return all rows of a silver table, or of a gold table that was built before
        this one.
        """

    def of_days(self, name: str, days: Collection[date]) -> DataFrame:
        """Return the rows of a table with `day_of` that may be of these days (UTC):
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

    def rewrite_from(self, time: datetime | None) -> None:
        """Keep the rows of this table before `time`; the build returns the others.

        Only for a table with `rewrites`. None replaces all rows, as does a build that
        does not call this method.
        """


@dataclass(frozen=True, slots=True)
class GoldTable:
    """The definition of a gold table: its inputs and its build function."""

    table: Table
    inputs: tuple[str, ...]
    """Names of the tables that `build` reads."""
    build: Callable[[TableInputs], DataFrame]
    """The function that returns rows in the schema of `table`."""
    appends: bool = False
    """True when `build` returns rows to append, not the whole table."""
    rewrites: str | None = None
    """The time column by which `build` may replace only the newest rows: it calls
    `rewrite_from` and returns the rows from that time on."""


def derived(
    table: Table, transform: Callable[..., DataFrame], *inputs: str
) -> GoldTable:
    """Return the definition of a table computed from all rows of its inputs, which are
    the arguments of `transform`."""

    def build(tables: TableInputs) -> DataFrame:
        return conform(transform(*map(tables.all, inputs)), table)

    return GoldTable(table, inputs, build)
