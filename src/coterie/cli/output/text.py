"""Tables of plain text: for pipes and files, and for Markdown."""

from __future__ import annotations

from collections.abc import Sequence

from coterie.cli.output.values import Column, Item, show


def text_table(columns: Sequence[Column], items: Sequence[Item]) -> str:
    """Columns as wide as they need to be, two blanks apart; numbers to the right."""
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
    """How wide text is: a letter of Chinese takes two cells, an accent of its own
    none."""
    if text.isascii():
        return len(text)
    from unicodedata import combining, east_asian_width

    wide = sum(2 if east_asian_width(each) in "WF" else 1 for each in text)
    return wide - sum(1 for each in text if combining(each))


def markdown(columns: Sequence[Column], items: Sequence[Item]) -> str:
    """A table of Markdown, numbers to the right."""
    titles = [column.title for column in columns]
    rule = ["---:" if is_number(column, items) else "---" for column in columns]
    rows = [[_escaped(show(column, item)) for column in columns] for item in items]
    return "".join(f"| {' | '.join(row)} |\n" for row in [titles, rule, *rows])


def is_number(column: Column, items: Sequence[Item]) -> bool:
    """Whether a column has numbers, and nothing else that is known."""
    values = [item.get(column.key) for item in items]
    known = [each for each in values if each is not None]
    return bool(known) and all(
        isinstance(each, int | float) and not isinstance(each, bool) for each in known
    )


def _escaped(cell: str) -> str:
    return cell.replace("\\", "\\\\").replace("|", "\\|")
