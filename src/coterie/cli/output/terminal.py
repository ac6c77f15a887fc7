"""Tables for people at a terminal. Only this module imports rich, and it is imported
only when stdout is a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from io import StringIO
from types import TracebackType
from typing import Self, TextIO

from rich import box
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from coterie.cli.output.text import is_number
from coterie.cli.output.values import Column, Item, plain, show


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


class LiveTable:
    """A table that is drawn over itself. Its last state stays when it ends."""

    def __init__(self, stdout: TextIO) -> None:
        console = Console(file=stdout, force_terminal=True)
        self._live = Live(console=console, auto_refresh=False)

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
        """Draw these rows, and lines below them."""
        lines = (Text(plain(each)) for each in below)
        self._live.update(Group(make_table(columns, items), *lines), refresh=True)
