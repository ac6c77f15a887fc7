"""Tables in the width of a terminal.

A table that is too wide gives up space in this order:

1. Titles break at their last hyphen.
2. Ids lose their middle, and sentences break at spaces.
3. An identity that is much longer than the others goes on a line above its row.
4. Columns are left out, in the order that they declare; the line below names them.
5. Every identity that is too long goes on a line above its row.

Identities and numbers are never broken or shortened.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from enum import Enum
from itertools import zip_longest
from typing import Final, NamedTuple, Self, TextIO

from coterie.cli.output import tables
from coterie.cli.output.outcome import Column, Item, Role
from coterie.display import cells, shortened

BOLD: Final = "\x1b[1m"
RED: Final = "\x1b[31m"
_PLAIN: Final = "\x1b[0m"
PLAIN_TERMINALS: Final = frozenset({"dumb", "unknown"})
"""Values of TERM for terminals without styles and without a cursor to move."""
_GAP: Final = "  "
_WIDTH_DEFAULT: Final = 80
_ID_LEAST: Final = 15
"""The least width of an id: "consumer-…-4f2a" still has its kind and its end."""
_TEXT_LEAST: Final = 24
_IDENTITY_SHARE: Final = 3
"""An identity may always take a third of the terminal's width."""
_LINES_SHARE: Final = 5
"""Identities go on lines of their own, before columns are left out, if this adds one
line, or at most a line to five rows."""


class Fit(Enum):
    """What a table keeps when the terminal is too narrow for it."""

    USUAL = "usual"
    """Ids are shortened and columns are left out."""
    ALL_COLUMNS = "all columns"
    """Ids are shortened. When that does not suffice, a row is a block of lines, one
    for each column."""
    ALL_TEXT = "all text"
    """A row is a block of lines; nothing is shortened."""


class TerminalTable(NamedTuple):
    """A table as lines for a terminal, without styles."""

    header: list[str]
    rows: list[list[str]]
    """The lines of each row."""
    left_out: tuple[str, ...]
    """The titles of columns that had no space."""


class _Lane(NamedTuple):
    """A column with its cells, and the widths that it can take."""

    column: Column
    title: tuple[str, ...]
    """The lines of the title."""
    texts: Sequence[str]
    sizes: Sequence[int]
    """The widths of the cells."""
    is_right: bool
    widest: int
    """The width that is not exceeded."""
    least: int
    """The width below which the column does not go."""

    @classmethod
    def of(cls, column: Column, texts: Sequence[str], is_right: bool) -> Self:
        """Return the column with its natural width."""
        sizes = [cells(each) for each in texts]
        widest = max([cells(column.title), *sizes])
        return cls(column, (column.title,), texts, sizes, is_right, widest, widest)

    @property
    def title_width(self) -> int:
        return max(map(cells, self.title))

    def with_broken_title(self) -> _Lane:
        first, hyphen, last = self.column.title.rpartition("-")
        title = (first + hyphen, last) if hyphen else (self.column.title,)
        widest = max([*map(cells, title), *self.sizes])
        return self._replace(title=title, widest=widest, least=widest)

    def flexible(self) -> _Lane:
        """Return the column with less than its natural width where its role allows."""
        least = {Role.ID: _ID_LEAST, Role.TEXT: _TEXT_LEAST}.get(self.column.role)
        if least is None:
            return self
        return self._replace(least=min(self.widest, max(least, self.title_width)))

    def limited(self, limit: int) -> _Lane:
        """Return the column with a width that longer cells exceed."""
        fitting = (each for each in self.sizes if each <= limit)
        widest = max(self.title_width, max(fitting, default=0))
        return self._replace(widest=widest, least=min(self.least, widest))

    def usual(self, width: int) -> _Lane:
        """Return an identity without room for the cells that are much longer than the
        others, if these add few lines."""
        if self.column.role is not Role.IDENTITY:
            return self
        floor = width // _IDENTITY_SHARE
        widths = sorted({*self.sizes, floor})
        for limit in widths[widths.index(floor) :]:
            if self._added_lines(limit) <= max(1, len(self.texts) // _LINES_SHARE):
                return self.limited(limit)
        return self

    def _added_lines(self, limit: int) -> int:
        before = ["", *self.texts]
        return sum(
            1
            for text, size, last in zip(self.texts, self.sizes, before, strict=False)
            if size > limit and text != last
        )


def terminal_table(
    columns: Sequence[Column],
    items: Sequence[Item],
    width: int,
    *,
    encoding: str | None = None,
    fit: Fit = Fit.USUAL,
    has_header: bool = True,
) -> str:
    """Return the table for a terminal of a width.

    Without `has_header`, it has rows only, which follow those of another table.
    """
    if fit is Fit.ALL_TEXT:
        columns = [
            each._replace(role=Role.VALUE) if each.role is Role.ID else each
            for each in columns
        ]
    table = lay_out(columns, items, width, encoding)
    if table.left_out and fit is not Fit.USUAL:
        return "".join(f"{line}\n" for line in _blocks(columns, items, encoding))
    lines: list[str] = []
    for item, row in zip(items, table.rows, strict=True):
        lines += [styled(line, row_style(item)) for line in row]
    if has_header:
        header = [styled(line, BOLD) for line in table.header]
        lines = [*header, *lines, *left_out_note(table.left_out, width)]
    return "".join(f"{line}\n" for line in lines)


def terminal_width(stream: TextIO) -> int:
    """Return the width of a terminal; COLUMNS replaces it, and 80 is the default.

    shutil.get_terminal_size measures stdout only, and a preview goes to stderr.
    """
    text = os.environ.get("COLUMNS", "")
    if text.isascii() and text.isdigit() and int(text):
        return int(text)
    with contextlib.suppress(OSError, ValueError):
        return os.get_terminal_size(stream.fileno()).columns or _WIDTH_DEFAULT
    return _WIDTH_DEFAULT


def left_out_note(left_out: Sequence[str], width: int) -> list[str]:
    """Return the sentence that names the columns that had no space."""
    if not left_out:
        return []
    count = "1 column" if len(left_out) == 1 else f"{len(left_out)} columns"
    return wrapped(
        f"{count} left out at {width} characters: {', '.join(left_out)}; "
        "--columns or -o wide",
        width,
    )


def lay_out(
    columns: Sequence[Column],
    items: Sequence[Item],
    width: int,
    encoding: str | None = None,
) -> TerminalTable:
    """Return a table that is at most `width` cells wide, where this is possible."""
    rows = tables.cell_texts(columns, items, encoding)
    lanes = [
        _Lane.of(
            _as_identity(column) if index == 0 else column,
            [row[index] for row in rows],
            tables.is_number(column, items),
        )
        for index, column in enumerate(columns)
    ]
    lanes, left_out = _fitted(lanes, width)
    widths = _narrowed(lanes, width)
    ellipsis = tables.encodable("…", encoding)
    ellipsis = ellipsis if len(ellipsis) == 1 else "..."
    rows_of_lines = []
    above: list[str] = []
    for index in range(len(items)):
        before, above = above, _identities_above(lanes, widths, index)
        lines = _row_lines(lanes, widths, index, len(above), ellipsis)
        if above != before:
            lines = [*_lines_above(lanes, widths, above, width), *lines]
        rows_of_lines.append(lines)
    return TerminalTable(_header(lanes, widths), rows_of_lines, left_out)


def _header(lanes: Sequence[_Lane], widths: Sequence[int]) -> list[str]:
    titles = [
        (lane.column.title,) if cells(lane.column.title) <= width else lane.title
        for lane, width in zip(lanes, widths, strict=True)
    ]
    height = max(map(len, titles))
    titles = [("",) * (height - len(each)) + each for each in titles]
    return _lines(titles, widths, [each.is_right for each in lanes])


def _as_identity(column: Column) -> Column:
    """Return the first column, which names the row where no other column does."""
    return column if column.role is Role.ID else column._replace(role=Role.IDENTITY)


def _needed(lanes: Sequence[_Lane]) -> int:
    return sum(each.least for each in lanes) + len(_GAP) * (len(lanes) - 1)


def _fitted(lanes: Sequence[_Lane], width: int) -> tuple[list[_Lane], tuple[str, ...]]:
    """Return the columns whose least widths fit, and the titles of the others."""
    fitted = list(lanes)
    if _needed(fitted) <= width:
        return fitted, ()
    fitted = [each.with_broken_title() for each in fitted]
    if _needed(fitted) <= width:
        return fitted, ()
    fitted = [each.flexible() for each in fitted]
    if _needed(fitted) <= width:
        return fitted, ()
    fitted = [each.usual(width) for each in fitted]
    titles = {}
    for dropped in _droppable([each.column for each in fitted]):
        if _needed(fitted) <= width:
            break
        titles[dropped] = dropped.title
        fitted = [each for each in fitted if each.column is not dropped]
    fitted = _with_identities_above(fitted, width)
    # A terminal of 40 cells has no space for the columns that usually stay, either.
    for dropped in [each.column for each in reversed(fitted[1:])]:
        if _needed(fitted) <= width:
            break
        if dropped.role is not Role.IDENTITY:
            titles[dropped] = dropped.title
            fitted = [each for each in fitted if each.column is not dropped]
    in_order = [each.column for each in lanes if each.column in titles]
    return fitted, tuple(titles[each] for each in in_order)


def _droppable(columns: Sequence[Column]) -> list[Column]:
    """Return the columns that may be left out, the first to go first."""
    found = [
        (0 if column.is_wide and not column.drop else 1, column.drop, -index, column)
        for index, column in enumerate(columns)
        if index
        and column.role is not Role.IDENTITY
        and (column.drop or column.is_wide)
    ]
    return [each[-1] for each in sorted(found, key=lambda each: each[:3])]


def _with_identities_above(lanes: Sequence[_Lane], width: int) -> list[_Lane]:
    """Return the columns with identities narrowed, the widest first, until all fit."""
    fitted = list(lanes)
    while (excess := _needed(fitted) - width) > 0:
        index, wide = max(
            enumerate(fitted),
            key=lambda each: (
                each[1].column.role is Role.IDENTITY,
                each[1].least - each[1].title_width,
            ),
        )
        if wide.column.role is not Role.IDENTITY or wide.least <= wide.title_width:
            break
        fitted[index] = wide.limited(max(wide.title_width, wide.least - excess))
    return fitted


def _narrowed(lanes: Sequence[_Lane], width: int) -> list[int]:
    """Return the widths with the widest reduced first, until all fit or are least."""
    widths = [each.widest for each in lanes]
    available = width - len(_GAP) * (len(lanes) - 1)
    while sum(widths) > available:
        wide = [index for index, each in enumerate(lanes) if widths[index] > each.least]
        if not wide:
            break
        widths[max(wide, key=widths.__getitem__)] -= 1
    for index, lane in enumerate(lanes):
        if lane.column.role is Role.TEXT:
            parts = (
                part for each in lane.texts for part in wrapped(each, widths[index])
            )
            widths[index] = max(lane.title_width, *map(cells, parts))
    return widths


def _identities_above(
    lanes: Sequence[_Lane], widths: Sequence[int], index: int
) -> list[str]:
    """Return the identities of a row up to the last one that is too long."""
    names: list[str] = []
    count = 0
    for lane, width in zip(lanes, widths, strict=True):
        if lane.column.role is Role.IDENTITY:
            names.append(lane.texts[index])
            count = len(names) if lane.sizes[index] > width else count
    return names[:count]


def _lines_above(
    lanes: Sequence[_Lane], widths: Sequence[int], names: Sequence[str], width: int
) -> list[str]:
    """Return the lines for identities of which some are too long for their columns.

    Each begins in its column where it ends within the terminal, and else on the left.
    """
    lines = [""]
    begins = [sum(widths[:index]) + len(_GAP) * index for index in range(len(lanes))]
    identities = [
        x for x, each in enumerate(lanes) if each.column.role is Role.IDENTITY
    ]
    for text, index in zip(names, identities, strict=False):
        begin = begins[index]
        is_taken = bool(lines[-1]) and cells(lines[-1] + _GAP) > begin
        if is_taken or begin + cells(text) > width:
            lines.append("")
            begin = min(begin, max(len(_GAP) * bool(begin), width - cells(text)))
        lines[-1] = tables.align(lines[-1], begin, False) + text
    return [each for each in lines if each]


def _row_lines(
    lanes: Sequence[_Lane],
    widths: Sequence[int],
    index: int,
    names_above: int,
    ellipsis: str,
) -> list[str]:
    """Return the lines of a row without its first identities, which are above it."""
    row: list[Sequence[str]] = []
    for lane, width in zip(lanes, widths, strict=True):
        text = lane.texts[index]
        role = lane.column.role
        if role is Role.IDENTITY and names_above:
            names_above -= 1
            text = ""
        if role is Role.ID:
            text = shortened(text, width, ellipsis)
        row.append(wrapped(text, width) if role is Role.TEXT else (text,))
    return _lines(row, widths, [each.is_right for each in lanes])


def _lines(
    row: Sequence[Sequence[str]], widths: Sequence[int], right: Sequence[bool]
) -> list[str]:
    """Return the lines of a row whose cells have one line or several."""
    return [
        _GAP.join(map(tables.align, line, widths, right)).rstrip()
        for line in zip_longest(*row, fillvalue="")
    ]


def wrapped(text: str, width: int) -> list[str]:
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
        *full, line = folded(word, width)
        lines += full
    return [*lines, line]


def folded(word: str, width: int) -> Iterator[str]:
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


def _blocks(
    columns: Sequence[Column], items: Sequence[Item], encoding: str | None
) -> Iterable[str]:
    """Yield the lines of each row with a line for each column."""
    titles = max(cells(each.title) for each in columns)
    for index, (item, row) in enumerate(
        zip(items, tables.cell_texts(columns, items, encoding), strict=True)
    ):
        if index:
            yield ""
        for column, text in zip(columns, row, strict=True):
            title = styled(tables.align(column.title, titles, False), BOLD)
            yield f"{title}{_GAP}{styled(text, row_style(item))}"


def row_style(item: Item) -> str:
    """Return the style of an item's row."""
    return RED if item.get("error") else ""


def has_escapes() -> bool:
    """Return whether the terminal knows escape sequences. Windows' console does not,
    unless a program asks for it."""
    return sys.platform != "win32" and os.environ.get("TERM") not in PLAIN_TERMINALS


def styled(line: str, style: str) -> str:
    """Return a line in a style, unless the terminal has none (https://no-color.org)."""
    has_colors = not os.environ.get("NO_COLOR") or style == BOLD
    if not style or not has_colors or not has_escapes():
        return line
    return f"{style}{line}{_PLAIN}"
