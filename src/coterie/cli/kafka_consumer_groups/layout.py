"""Columns as `printf` of Java lays them out: left-aligned, one blank apart.

A width of 0 is no width: the cell stands as it is, without blanks behind it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

MISSING: Final = "-"

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Column(Generic[T]):
    """A column: its name, what it shows of a row, and how wide it is at least.

    A fixed one does not grow with its cells: a longer cell moves the rest of its line.
    """

    name: str
    cell: Callable[[T], object]
    least: int = 15
    fixed: bool = False

    def text(self, row: T) -> str:
        """The cell of a row."""
        value = self.cell(row)
        return MISSING if value is None else str(value)

    def width(self, rows: Iterable[T]) -> int:
        """How wide it is above these rows."""
        if self.fixed:
            return self.least
        return max([self.least, *(length(self.text(row)) for row in rows)])


def table(columns: Sequence[Column[T]], rows: Sequence[T]) -> list[str]:
    """The lines of a table, its header first."""
    widths = [column.width(rows) for column in columns]
    header = [column.name for column in columns]
    body = [[column.text(row) for column in columns] for row in rows]
    return [
        " ".join(pad(cell, width) for cell, width in zip(line, widths, strict=True))
        for line in (header, *body)
    ]


def pad(text: str, width: int) -> str:
    """The text, with blanks behind it up to the width."""
    return text + " " * (width - length(text))


def length(text: str) -> int:
    """How many characters Java counts: UTF-16 units."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2
