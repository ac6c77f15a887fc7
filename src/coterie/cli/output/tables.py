"""Text tables for pipes and files, and Markdown tables."""

from __future__ import annotations

from collections.abc import Sequence

from coterie.cli.output.outcome import Column, Item, show


def text_table(columns: Sequence[Column], items: Sequence[Item]) -> str:
    """Return a table with columns two spaces apart, numbers right-aligned."""
    rows = [[show(column, item) for column in columns] for item in items]
    titles = [column.title for column in columns]
    widths = [max(map(cells, each)) for each in zip(titles, *rows, strict=True)]
    right = [is_number(column, items) for column in columns]
    return "".join(
        "  ".join(
            " " * (width - cells(cell)) + cell
            if is_right
            else cell + " " * (width - cells(cell))
            for cell, width, is_right in zip(row, widths, right, strict=True)
        ).rstrip()
        + "\n"
        for row in [titles, *rows]
    )


def cells(text: str) -> int:
    """Return the number of terminal cells that text takes.

    East Asian wide characters take two cells, combining characters none.
    """
    if text.isascii():
        return len(text)
    from unicodedata import combining, east_asian_width

    wide = sum(2 if east_asian_width(each) in "WF" else 1 for each in text)
    return wide - sum(1 for each in text if combining(each))


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
