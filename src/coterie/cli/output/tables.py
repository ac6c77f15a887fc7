"""Text tables for pipes and files, Markdown tables, and the width of text."""

from __future__ import annotations

import codecs
from collections.abc import Sequence
from typing import Final

from coterie.cli.output.outcome import MISSING, Column, Item, show
from coterie.display import cells

_GAP: Final = "  "
_LEAST_CELLS: Final = 16
"""The number of cells up to which a value always counts for its column's width."""


def text_table(
    columns: Sequence[Column], items: Sequence[Item], encoding: str | None = None
) -> str:
    """Return a table with columns two spaces apart, numbers right-aligned.

    A value over twice as long as the usual value of its column shifts the rest of its
    row, so that one long name does not pad every other row.
    """
    rows = cell_texts(columns, items, encoding)
    titles = [column.title for column in columns]
    right = [is_number(column, items) for column in columns]
    widths = [
        max(cells(title), _usual_width([row[index] for row in rows]))
        for index, title in enumerate(titles)
    ]
    return "".join(
        _GAP.join(map(align, row, widths, right)).rstrip() + "\n"
        for row in [titles, *rows]
    )


def _usual_width(texts: Sequence[str]) -> int:
    """Return the width of the longest text that is not over twice the median."""
    taken = sorted(cells(each) for each in texts if each != MISSING)
    if not taken:
        return 0
    limit = max(_LEAST_CELLS, 2 * taken[len(taken) // 2])
    return max((each for each in taken if each <= limit), default=0)


def cell_texts(
    columns: Sequence[Column], items: Sequence[Item], encoding: str | None
) -> list[list[str]]:
    """Return the cells of each row, with escapes for characters that the encoding of
    the output does not have; None is UTF-8."""
    rows = [[show(column, item) for column in columns] for item in items]
    if is_utf8(encoding):
        return rows
    return [[encodable(text, encoding) for text in row] for row in rows]


def encodable(text: str, encoding: str | None) -> str:
    """Return the text with escapes for characters that an encoding does not have."""
    encoding = encoding or "utf-8"
    return text.encode(encoding, "backslashreplace").decode(encoding)


def is_utf8(encoding: str | None) -> bool:
    """Return whether an encoding is UTF-8; None is."""
    return encoding is None or codecs.lookup(encoding).name == "utf-8"


def align(text: str, width: int, is_right: bool) -> str:
    """Return the text, padded to a width."""
    space = " " * (width - cells(text))
    return space + text if is_right else text + space


def markdown(columns: Sequence[Column], items: Sequence[Item]) -> str:
    """Return a Markdown table with numbers right-aligned."""
    titles = [column.title for column in columns]
    rule = ["---:" if is_number(column, items) else "---" for column in columns]
    rows = [
        [
            show(column, item).replace("\\", "\\\\").replace("|", "\\|")
            for column in columns
        ]
        for item in items
    ]
    return "".join(f"| {' | '.join(row)} |\n" for row in [titles, rule, *rows])


def is_number(column: Column, items: Sequence[Item]) -> bool:
    """Return whether all known values of a column are numbers."""
    values = [item.get(column.key) for item in items]
    known = [each for each in values if each is not None]
    return bool(known) and all(
        isinstance(each, int | float) and not isinstance(each, bool) for each in known
    )
