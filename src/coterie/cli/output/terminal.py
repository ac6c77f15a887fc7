"""Tables on a terminal, drawn by rich.

Rule: only this module imports rich, and it is imported only when stdout is a terminal.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from io import StringIO
from types import TracebackType
from typing import Final, Self, TextIO

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from coterie.cli.output.outcome import Column, Item, printable, show
from coterie.cli.output.tables import is_number

_GAP: Final = 2
"""Spaces between columns."""


def terminal_table(
    columns: Sequence[Column], items: Sequence[Item], *, width: int | None = None
) -> str:
    """Return the table for a terminal; `width` replaces the terminal's own.

    When it is too narrow, titles break at their last hyphen and text wraps. Numbers
    never wrap, and nothing is cut off.
    """
    text = StringIO()
    console = Console(file=text, force_terminal=True, width=width)
    console.print(make_table(columns, items, console.width))
    return text.getvalue()


def make_table(columns: Sequence[Column], items: Sequence[Item], width: int) -> Table:
    """Return a rich table for lines of `width` characters."""
    rows = [[show(column, item) for column in columns] for item in items]
    titles = [column.title for column in columns]
    needed = [max(map(len, each)) for each in zip(titles, *rows, strict=True)]
    if sum(needed) + _GAP * (len(columns) - 1) > width:
        titles = ["-\n".join(title.rsplit("-", 1)) for title in titles]
    table = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0))
    for column, title in zip(columns, titles, strict=True):
        number = is_number(column, items)
        table.add_column(
            Text(title, style="bold", justify="right" if number else "left"),
            justify="right" if number else "left",
            overflow="fold",
            no_wrap=number,
            vertical="top",
        )
    for item, row in zip(items, rows, strict=True):
        style = "red" if item.get("error") else None
        table.add_row(*map(Text, row), style=style)
    return table


class LiveTable:
    """A table that is redrawn in place; the last one stays on the screen."""

    def __init__(self, stdout: TextIO) -> None:
        self._console = Console(file=stdout, force_terminal=True)
        self._live = Live(console=self._console, auto_refresh=False)

    def __enter__(self) -> Self:
        self._live.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._live.__exit__(kind, error, trace)

    def show(
        self, columns: Sequence[Column], items: Sequence[Item], below: Iterable[str]
    ) -> None:
        """Draw a table with lines of text below it."""
        lines = (Text(printable(each)) for each in below)
        table = make_table(columns, items, self._console.width)
        self._live.update(Group(table, *lines), refresh=True)
