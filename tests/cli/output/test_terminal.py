"""Output at a terminal: progress, and tables that are redrawn."""

from __future__ import annotations

import re
from io import StringIO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.cli.output.emit import ProgressBar
from coterie.cli.output.outcome import Column, Item, Role, show_duration
from coterie.cli.output.terminal import lay_out, terminal_table
from coterie.display import cells

COLUMNS = (Column("name", "NAME"), Column("end", "LOG-END-OFFSET"))
ITEM: Item = {"name": "a-rather-long-name", "end": 1234567}


class Terminal(StringIO):
    def isatty(self) -> bool:
        return True


ESCAPES = re.compile(r"\x1b\[[0-9;]*m")


def lines_of(width: int) -> list[str]:
    text = ESCAPES.sub("", terminal_table(COLUMNS, [ITEM], width=width))
    return [line.rstrip() for line in text.splitlines()]


def test_a_wide_terminal_has_one_line_per_row() -> None:
    assert lines_of(80) == [
        "NAME                LOG-END-OFFSET",
        "a-rather-long-name         1234567",
    ]


def test_a_column_that_has_no_space_is_named_below() -> None:
    columns = (*COLUMNS[:1], Column("host", "HOST", drop=1), COLUMNS[1])
    names = [f"a-rather-long-name{at}" for at in range(4)]
    items = [{**ITEM, "name": name, "host": "h" * 9} for name in names]
    text = terminal_table(columns, items, 30)
    assert ESCAPES.sub("", text).splitlines() == [
        "                     LOG-END-",
        "NAME                   OFFSET",
        *(f"{name}   1234567" for name in names),
        "1 column left out at 30",
        "characters: HOST; --columns or",
        "-o wide",
    ]


def test_wide_columns_without_an_order_are_left_out_first_from_the_right() -> None:
    columns = (
        Column("name", "NAME", role=Role.IDENTITY),
        Column("a", "A", drop=1),
        Column("b", "B", is_wide=True),
        Column("c", "C", is_wide=True),
    )
    item: Item = {"name": "n", "a": "a" * 8, "b": "b" * 8, "c": "c" * 8}
    left_out = [lay_out(columns, [item], width).left_out for width in (34, 33, 23, 9)]
    assert left_out == [(), ("C",), ("B", "C"), ("A", "B", "C")]


def test_an_identity_that_is_too_long_is_whole_and_above_its_rows() -> None:
    columns = (
        Column("name", "NAME", role=Role.IDENTITY),
        Column("partition", "PARTITION", role=Role.IDENTITY),
        Column("lag", "LAG"),
    )
    name = "n" * 30
    items: list[Item] = [{"name": name, "partition": at, "lag": 7} for at in range(2)]
    table = lay_out(columns, items, 24)
    assert table.rows == [[name, "              0    7"], ["              1    7"]]


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_a_table_is_aligned_in_every_encoding(encoding: str) -> None:
    columns = (Column("name", "NAME"), Column("id", "ID", role=Role.ID))
    item: Item = {"name": "\u65e5", "id": "consumer-orders-1-8f3c-4f2a"}
    text = terminal_table(columns, [item, item], 24, encoding=encoding)
    _, first, second = ESCAPES.sub("", text).splitlines()
    assert first == second
    assert cells(first.encode(encoding).decode(encoding)) <= 24


TEXTS = st.text(
    st.sampled_from("ab-1 \u65e5\u0301\U0001f680"), min_size=1, max_size=40
).filter(lambda text: bool(text.strip()) and not text.startswith("\u0301"))


@st.composite
def tables(draw: st.DrawFn) -> tuple[list[Column], list[Item]]:
    roles = draw(st.lists(st.sampled_from(Role), min_size=1, max_size=6))
    columns = [
        Column(
            str(at),
            f"TITLE-{at}",
            role=role,
            drop=draw(st.integers(0, 3)),
            is_wide=draw(st.booleans()),
        )
        for at, role in enumerate(roles)
    ]
    rows = st.tuples(*(TEXTS for _ in columns))
    items: list[Item] = [
        {str(at): text.strip() for at, text in enumerate(row)}
        for row in draw(st.lists(rows, min_size=1, max_size=4))
    ]
    return columns, items


@pytest.mark.slow
@given(tables(), st.integers(10, 120))
def test_any_table_fits_and_has_whole_names(
    table: tuple[list[Column], list[Item]], width: int
) -> None:
    columns, items = table
    laid = lay_out(columns, items, width)
    names = [each for each in columns if each.role is Role.IDENTITY]
    shown = "\n".join(line for row in laid.rows for line in row)
    for item in items:
        assert all(str(item[each.key]) in shown for each in names)
    # The first column is laid out as a name, whatever its role.
    whole = [columns[0], *names]
    sizes = [cells(str(item[each.key])) for item in items for each in whole]
    if width >= max([24 + 10 * len(names), *(size + 2 for size in sizes)]):
        assert max(map(cells, [*laid.header, *shown.split("\n")])) <= width
    titles = {each.title for each in columns}
    assert set(laid.left_out) <= titles - {each.title for each in names}


@pytest.mark.posix
def test_rows_of_errors_are_red_unless_colors_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    failed: Item = {**ITEM, "error": "no broker responded"}
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    header, row, _ = terminal_table(COLUMNS, [failed], 80).split("\n")
    assert header.startswith("\x1b[1mNAME")
    assert row.startswith("\x1b[31ma-rather-long-name")
    assert row.endswith("\x1b[0m")
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[31m" not in terminal_table(COLUMNS, [failed], 80)
    monkeypatch.setenv("TERM", "dumb")
    assert "\x1b" not in terminal_table(COLUMNS, [failed], 80)


def test_progress_starts_after_a_second_and_is_erased() -> None:
    now = [0.0]
    stderr = Terminal()
    bar = ProgressBar(stderr, lambda: now[0])
    bar(1, 4)
    assert stderr.getvalue() == ""
    now[0] = 1.0
    bar(2, 4)
    bar(2, 4)
    assert stderr.getvalue() == f"\r[{'#' * 15}{' ' * 15}]  50 %"
    bar.clear()
    assert stderr.getvalue().endswith(f"\r{' ' * 38}\r")
    bar.clear()
    assert stderr.getvalue().count("\r") == 3


def test_the_progress_bar_names_its_step_and_fits_the_terminal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "50")
    stderr = Terminal()
    bar = ProgressBar(stderr, iter([0.0, 1.0, 1.0]).__next__)
    bar(1, 2, "building a table with a long name")
    bar(1, 2, "b")
    first, second = stderr.getvalue().split("\r")[1:]
    assert first == f"[{'#' * 15}{' ' * 15}]  50 % building a"
    # Nothing of the longer line stays.
    assert second == f"[{'#' * 15}{' ' * 15}]  50 % b{' ' * 9}"


def test_progress_is_shown_at_terminals_only() -> None:
    stderr = StringIO()
    bar = ProgressBar(stderr, iter([0.0, 9.0]).__next__)
    bar(1, 2)
    bar.clear()
    assert stderr.getvalue() == ""


def test_durations_have_at_most_two_units() -> None:
    durations = [0, 999, 12_345, 59_999, 312_000, 7_500_000, 277_200_000]
    assert [show_duration(each) for each in durations] == [
        "0ms",
        "999ms",
        "12.3s",
        "59.9s",
        "5m12s",
        "2h05m",
        "3d05h",
    ]
    assert show_duration(None) == "-"
