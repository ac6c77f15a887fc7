"""Columns as `printf` of Java lays them out: left-aligned, one blank apart."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

MISSING: Final = "-"


class Column(NamedTuple):
    """A column: its name, and how wide it is at least.

    A fixed one does not grow with its cells: a longer cell moves the rest of its line.
    """

    name: str
    least: int = 15
    fixed: bool = False

    def width(self, cells: Iterable[str]) -> int:
        """How wide it is with these cells."""
        return self.least if self.fixed else max(self.least, *map(length, cells))


def last(name: str) -> Column:
    """A column without blanks behind its cells."""
    return Column(name, 0, fixed=True)


def table(columns: Sequence[Column], rows: Iterable[Sequence[object]]) -> list[str]:
    """The lines of a table, its header first. What is None is a hyphen."""
    lines = [[column.name for column in columns]]
    lines += ([MISSING if cell is None else str(cell) for cell in row] for row in rows)
    down = zip(*lines, strict=True)
    widths = [column.width(cells) for column, cells in zip(columns, down, strict=True)]
    return [" ".join(map(pad, line, widths)) for line in lines]


def pad(text: str, width: int) -> str:
    """The text, with blanks behind it up to the width."""
    if text.isascii():
        return text.ljust(width)
    return text + " " * (width - length(text))


def length(text: str) -> int:
    """How many characters Java counts: UTF-16 units."""
    if text.isascii():
        return len(text)
    return len(text.encode("utf-16-le", "surrogatepass")) // 2
