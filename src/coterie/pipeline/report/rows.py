"""Rows of a lake's table as they are asked for.

Rules of this file: it knows no table by name, and reads no more than it must:
conditions go down to the files, and of a long history only the newest rows are read
whole.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from coterie.errors import LogError

if TYPE_CHECKING:
    from coterie.pipeline.lake.lake import Lake

_LONG: Final = 100_000
"""A table of so many rows is not read whole to show a few."""


@dataclass(frozen=True)
class Ask:
    """What is wanted of a table."""

    table: str
    order: tuple[tuple[str, str], ...]
    """Columns, each "ascending" or "descending"; without a value comes last."""
    among: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    """Columns that have one of these values."""
    where: Any = None
    """A further condition, an Arrow expression."""
    limit: int | None = None
    first_of: tuple[str, ...] = ()
    """Only the first row, in that order, for each value of these columns."""
    only: Any = None
    """A condition on what is left then."""
    then: tuple[tuple[str, str], ...] = ()
    """In which order that is shown, when it is another one."""
    columns: tuple[str, ...] | None = None
    """Those that are read; all when not told."""


def read(lake: Lake, ask: Ask) -> tuple[Any, int]:
    """The rows, and how many there are without the limit. Raises LogError."""
    known = lake.version.tables.get(ask.table)
    if known is None:
        raise LogError(
            f"the lake has no table {ask.table}: it comes with the next"
            " `coterie pipeline run`"
        )
    condition, found = _condition(ask), None
    if ask.limit and not ask.first_of and known.rows > _LONG:
        condition, found = _narrowed(lake, ask, condition)
    rows = lake.read(ask.table, ask.columns, condition).sort_by(list(ask.order))
    if ask.first_of:
        rows = _firsts(rows, ask.first_of)
        rows = rows if ask.only is None else rows.filter(ask.only)
        rows = rows.sort_by(list(ask.then)) if ask.then else rows
    return rows.slice(0, ask.limit), len(rows) if found is None else found


def is_one_of(column: str, values: Sequence[Any]) -> Any:
    """The condition that a column has one of these values."""
    return pc.field(column).isin(pa.array(values, None if values else pa.string()))


def time_of(ms: int) -> Any:
    """A time as the tables have it."""
    return pa.scalar(ms * 1_000, pa.timestamp("us", "UTC"))


def _condition(ask: Ask) -> Any:
    condition = ask.where
    for column, values in ask.among.items():
        one = is_one_of(column, values)
        condition = one if condition is None else condition & one
    return condition


def _narrowed(lake: Lake, ask: Ask, condition: Any) -> tuple[Any, int]:
    """A condition that leaves the first rows alone, and how many rows there are: one
    column of all rows is little beside all columns."""
    assert ask.limit is not None
    (column, direction), *_ = ask.order
    values = lake.read(ask.table, columns=[column], filters=condition)[column]
    found = len(values)
    if found - values.null_count < ask.limit:
        return condition, found
    order = [(column, direction)]
    table = pa.table({column: values})
    at = pc.select_k_unstable(table, ask.limit, order)[ask.limit - 1]
    last, this = values[at.as_py()], pc.field(column)
    bound = this >= last if direction == "descending" else this <= last
    return bound if condition is None else condition & bound, found


def _firsts(rows: Any, columns: tuple[str, ...]) -> Any:
    at = pa.array(range(len(rows)), pa.int64())
    numbered = rows.select(list(columns)).append_column("#", at)
    first = numbered.group_by(list(columns), use_threads=False).aggregate(
        [("#", "min")]
    )
    return rows.take(first["#_min"].combine_chunks().sort())
