"""Query the tables of a lake with pyarrow, without Spark.

Only the needed data is read: conditions are pushed down to the files, and of a long
table only the newest rows are read with all their columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from coterie.errors import LogError
from coterie.pipeline.lake.lake import Lake

_LONG_TABLE_ROWS: Final = 100_000
"""A query with a limit does not read all columns of a table of more rows."""


@dataclass(frozen=True)
class TableQuery:
    """A query of one table: filter, order, limit."""

    table: str
    order: tuple[tuple[str, str], ...]
    """Columns, each "ascending" or "descending"; null values come last."""
    among: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    """The accepted values of columns."""
    where: Any = None
    """A further condition, an Arrow expression."""
    limit: int | None = None
    first_of: tuple[str, ...] = ()
    """Keep only the first row, in that order, of each combination of these columns."""
    having: Any = None
    """A condition on the rows that `first_of` kept."""
    final_order: tuple[tuple[str, str], ...] = ()
    """The order of the result, when it differs from `order`."""
    columns: tuple[str, ...] | None = None
    """The columns to read; None for all."""


def run_query(lake: Lake, query: TableQuery) -> tuple[Any, int]:
    """Return the rows as an Arrow table, and their number without the limit.

    Raises LogError when the table does not exist or cannot be read.
    """
    if not lake.has(query.table):
        raise LogError(
            f"the lake has no table {query.table}: the next `coterie pipeline run`"
            " builds it"
        )
    condition, total = query.where, None
    for column, values in query.among.items():
        one = is_one_of(column, values)
        condition = one if condition is None else condition & one
    is_long = lake.rows(query.table) > _LONG_TABLE_ROWS
    if is_long and (query.limit or query.first_of):
        bound, total = _bound(lake, query, condition)
        if bound is not None:
            condition = bound if condition is None else condition & bound
    rows = lake.read(query.table, query.columns, condition).sort_by(list(query.order))
    if query.first_of:
        rows = _first_rows(rows, query.first_of)
        rows = rows if query.having is None else rows.filter(query.having)
        rows = rows.sort_by(list(query.final_order)) if query.final_order else rows
    if query.first_of or total is None:
        total = len(rows)
    return rows.slice(0, query.limit), total


def is_one_of(column: str, values: Sequence[Any]) -> Any:
    """Return the condition that a column has one of these values."""
    # An empty list needs an explicit type.
    return pc.field(column).isin(pa.array(values, None if values else pa.string()))


def timestamp(ms: int) -> Any:
    """Return a time in ms since 1970 as a timestamp of the tables' type."""
    return pa.scalar(ms * 1_000, pa.timestamp("us", "UTC"))


def _bound(lake: Lake, query: TableQuery, condition: Any) -> tuple[Any, int]:
    """Return a condition that the needed rows meet, or None, and the number of rows.

    Reads few columns of all rows, which is little compared with all columns.
    """
    (column, direction), *_ = query.order
    rows = lake.read(query.table, [*query.first_of, column], condition)
    is_falling = direction == "descending"
    if query.first_of:
        best, worst = ("max", pc.min) if is_falling else ("min", pc.max)
        firsts = rows.group_by(query.first_of).aggregate([(column, best)])
        values = firsts[f"{column}_{best}"]
        last = None if values.null_count else worst(values)
    else:
        values, limit = rows[column], query.limit
        assert limit is not None
        last = None
        if len(values) - values.null_count >= limit:
            indices = pc.select_k_unstable(rows, limit, [(column, direction)])
            last = values[indices[limit - 1].as_py()]
    if last is None or not last.is_valid:
        return None, len(rows)
    this = pc.field(column)
    return this >= last if is_falling else this <= last, len(rows)


def _first_rows(rows: Any, columns: tuple[str, ...]) -> Any:
    index = pa.array(range(len(rows)), pa.int64())
    numbered = rows.select(list(columns)).append_column("#", index)
    first = numbered.group_by(list(columns), use_threads=False).aggregate(
        [("#", "min")]
    )
    return rows.take(first["#_min"].combine_chunks().sort())


# Reading the tables of a report, some of which may be missing in the lake.

_LONG_HISTORY_ROWS: Final = 200_000
_RECENT_DAYS: Final = 3
_NO_TIME: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass
class TableReader:
    """A reader of one lake version; a missing table has no rows and is recorded."""

    lake: Lake
    missing: set[str] = field(default_factory=set)
    """The names of missing tables that were read."""

    @property
    def as_of(self) -> datetime:
        """The time of the newest record."""
        return self.lake.version.as_of_ts or _NO_TIME

    def table(self, name: str, columns: Sequence[str], where: Any = None) -> Any:
        """Return columns of a table as an Arrow table."""
        if not self.lake.has(name):
            self.missing.add(name)
        return self.lake.read(name, columns=columns, filters=where)

    def rows(
        self, name: str, columns: Sequence[str], where: Any = None
    ) -> list[dict[str, Any]]:
        """Return columns of a table as rows."""
        rows: list[dict[str, Any]] = self.table(name, columns, where).to_pylist()
        return rows

    def query(self, query: TableQuery) -> tuple[list[dict[str, Any]], int]:
        """Return the rows of a query, and their number without the limit."""
        if not self.lake.has(query.table):
            self.missing.add(query.table)
            return [], 0
        rows, total = run_query(self.lake, query)
        return rows.to_pylist(), total

    def recent(self, name: str, column: str) -> Any:
        """Return the condition for the last days of a long history; None for a short
        one.
        """
        if self.lake.rows(name) <= _LONG_HISTORY_ROWS:
            return None
        times = self.lake.read(name, columns=[column])[column]
        newest: datetime | None = pc.max(times).as_py()
        if newest is None:
            return None
        return pc.field(column) >= newest - timedelta(days=_RECENT_DAYS)
