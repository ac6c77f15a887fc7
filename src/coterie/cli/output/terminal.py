"""Tables on a terminal, in its width, and tables that are redrawn in place."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest
from types import TracebackType
from typing import Final, Self, TextIO

from coterie.cli.output.outcome import Column, Item, printable, show
from coterie.cli.output.tables import cells, is_number

_BOLD: Final = "\x1b[1m"
_RED: Final = "\x1b[31m"
_PLAIN: Final = "\x1b[0m"
_STYLES: Final = re.compile(r"\x1b\[\d+m")
_ERASE_LINE: Final = "\x1b[K"
"""Erases from the cursor to the end of its line."""
_ERASE_BELOW: Final = "\x1b[J"
_HIDE_CURSOR: Final = "\x1b[?25l"
_SHOW_CURSOR: Final = "\x1b[?25h"


def terminal_table(
    columns: Sequence[Column], items: Sequence[Item], *, width: int | None = None
) -> str:
    """Return the table for a terminal; `width` replaces the terminal's own.

    When it is too narrow, titles break at their last hyphen, then columns move closer,
    then text wraps. Numbers never wrap, and nothing is cut off.
    """
    width = width or shutil.get_terminal_size().columns
    return "".join(f"{line}\n" for line in _table_lines(columns, items, width))


def _table_lines(
    columns: Sequence[Column], items: Sequence[Item], width: int
) -> list[str]:
    """Return the lines of a table, with a bold header and red rows of errors."""
    rows = [[show(column, item) for column in columns] for item in items]
    titles = [[column.title] for column in columns]
    gap = "  "
    available = width - len(gap) * (len(columns) - 1)
    widths = _natural_widths(titles, rows)
    if sum(widths) > available:
        titles = [_broken_title(column.title) for column in columns]
        widths = _natural_widths(titles, rows)
    if sum(widths) > available:
        gap = " "
        available = width - len(gap) * (len(columns) - 1)
    right = [is_number(column, items) for column in columns]
    least = [
        at if is_right else max(map(cells, title))
        for at, is_right, title in zip(widths, right, titles, strict=True)
    ]
    widths = _narrowed(widths, least, available)

    layout = list(zip(widths, right, strict=True))
    lines = [_styled(line, _BOLD) for line in _row_lines(titles, layout, gap)]
    for item, row in zip(items, rows, strict=True):
        wrapped = [_wrapped(*each) for each in zip(row, widths, strict=True)]
        style = _RED if item.get("error") else ""
        lines += [_styled(line, style) for line in _row_lines(wrapped, layout, gap)]
    return lines


def _broken_title(title: str) -> list[str]:
    first, hyphen, last = title.rpartition("-")
    return [first + hyphen, last] if hyphen else [title]


def _natural_widths(
    titles: Sequence[Sequence[str]], rows: Sequence[Sequence[str]]
) -> list[int]:
    """Return the widths in which no cell wraps."""
    widths = [max(map(cells, title)) for title in titles]
    for row in rows:
        widths = [max(at, cells(text)) for at, text in zip(widths, row, strict=True)]
    return widths


def _narrowed(widths: Sequence[int], least: Sequence[int], available: int) -> list[int]:
    """Return the widths with the widest reduced first, until all fit or are least."""
    narrowed = list(widths)
    while sum(narrowed) > available:
        wide = [at for at, width in enumerate(narrowed) if width > least[at]]
        if not wide:
            break
        narrowed[max(wide, key=narrowed.__getitem__)] -= 1
    return narrowed


def _wrapped(text: str, width: int) -> list[str]:
    """Return the lines of a text, broken at spaces and inside words that are longer."""
    if cells(text) <= width:
        return [text]
    lines = []
    line = ""
    for word in text.split(" "):
        longer = f"{line} {word}" if line else word
        if cells(longer) <= width:
            line = longer
            continue
        if line:
            lines.append(line)
        *full, line = _folded(word, width)
        lines += full
    return [*lines, line]


def _folded(word: str, width: int) -> Iterator[str]:
    """Yield the parts of a word that each fit a width; a part has one character or
    more.
    """
    part = ""
    for character in word:
        if part and cells(part + character) > width:
            yield part
            part = ""
        part += character
    yield part


def _row_lines(
    row: Sequence[Sequence[str]], layout: Sequence[tuple[int, bool]], gap: str
) -> list[str]:
    """Return the lines of a row whose cells have one line or several; the layout has
    the width of each column, and whether it is aligned on the right.
    """
    return [
        gap.join(
            _aligned(text, width, is_right)
            for text, (width, is_right) in zip(line, layout, strict=True)
        ).rstrip()
        for line in zip_longest(*row, fillvalue="")
    ]


def _aligned(text: str, width: int, is_right: bool) -> str:
    space = " " * (width - cells(text))
    return space + text if is_right else text + space


def _styled(line: str, style: str) -> str:
    """Return a line in a style, unless the terminal has none (https://no-color.org)."""
    has_colors = not os.environ.get("NO_COLOR") or style == _BOLD
    if not style or not has_colors or os.environ.get("TERM") in {"dumb", "unknown"}:
        return line
    return f"{style}{line}{_PLAIN}"


class LiveTable:
    """A table that is redrawn in place; the last one stays on the screen."""

    def __init__(self, stdout: TextIO) -> None:
        self._stdout = stdout
        self._lines: list[str] = []
        self._is_cut = False
        """Set when the screen had no room for all lines."""
        self._height = 0
        """Rows of the screen that the drawn lines take."""

    def __enter__(self) -> Self:
        self._stdout.write(_HIDE_CURSOR)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._is_cut:
            self._draw(self._lines)
        self._stdout.write(_SHOW_CURSOR)
        self._stdout.flush()

    def show(
        self, columns: Sequence[Column], items: Sequence[Item], below: Iterable[str]
    ) -> None:
        """Draw a table with lines of text below it."""
        size = shutil.get_terminal_size()
        self._lines = _table_lines(columns, items, size.columns)
        for each in below:
            self._lines += _wrapped(printable(each), size.columns)
        # The cursor takes the last line of the screen.
        self._is_cut = len(self._lines) >= size.lines
        cut = [*self._lines[: size.lines - 2], "..."]
        self._draw(cut if self._is_cut else self._lines)

    def _draw(self, lines: Sequence[str]) -> None:
        """Replace what was drawn before."""
        up = f"\x1b[{self._height}A\r" if self._height else ""
        text = "".join(f"{line}{_ERASE_LINE}\n" for line in lines)
        self._stdout.write(f"{up}{text}{_ERASE_BELOW}")
        self._stdout.flush()
        width = shutil.get_terminal_size().columns
        taken = (cells(_STYLES.sub("", each)) for each in lines)
        self._height = sum(max(1, -(-each // width)) for each in taken)
