"""Tables for people at a terminal. Only this module imports rich, and it is imported
only when stdout is a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from io import StringIO

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from coterie.cli.output.text import is_number
from coterie.cli.output.values import Column, Item, show


def terminal_table(
    columns: Sequence[Column], items: Sequence[Item], *, width: int | None = None
) -> str:
    """The table as wide as the terminal lets it be; a cell that does not fit goes on
    below, so that nothing is lost."""
    text = StringIO()
    console = Console(file=text, force_terminal=True, width=width)
    console.print(make_table(columns, items))
    return text.getvalue()


def make_table(columns: Sequence[Column], items: Sequence[Item]) -> Table:
    """The table as rich has it."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold")
    for column in columns:
        number = is_number(column, items)
        table.add_column(
            column.title, justify="right" if number else "left", overflow="fold"
        )
    for item in items:
        style = "red" if item.get("error") else None
        table.add_row(*(Text(show(each, item)) for each in columns), style=style)
    return table
