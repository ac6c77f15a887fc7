"""What people see at a terminal: progress, and tables that are drawn anew."""

from __future__ import annotations

import re
from io import StringIO

from coterie.cli.output.progress import Bar
from coterie.cli.output.terminal import LiveTable, terminal_table
from coterie.cli.output.values import Column, Item, show_duration

COLUMNS = (Column("name", "NAME"), Column("end", "LOG-END-OFFSET"))
ITEM: Item = {"name": "a-rather-long-name", "end": 1234567}


class Terminal(StringIO):
    def isatty(self) -> bool:
        return True


ESCAPES = re.compile(r"\x1b\[[0-9;]*m")


def lines_of(width: int) -> list[str]:
    text = ESCAPES.sub("", terminal_table(COLUMNS, [ITEM], width=width))
    return [line.rstrip() for line in text.splitlines()]


def test_a_wide_terminal_has_one_line_a_row() -> None:
    assert lines_of(80) == [
        "NAME                LOG-END-OFFSET",
        "a-rather-long-name         1234567",
    ]


def test_a_narrow_terminal_breaks_titles_at_hyphens_and_text_but_no_number() -> None:
    lines = lines_of(20)
    assert [line.split()[-1] for line in lines[:4]] == [
        "LOG-END-",
        "OFFSET",
        "1234567",
        "ong-name",
    ]
    assert "".join(line[:10].strip() for line in lines[2:]) == "a-rather-long-name"


def test_a_live_table_shows_rows_and_what_stands_below() -> None:
    stdout = Terminal()
    with LiveTable(stdout) as table:
        table.show(COLUMNS, [ITEM], ["a note"])
    assert "a-rather-long-name" in stdout.getvalue()
    assert "a note" in stdout.getvalue()


def test_progress_waits_a_second_and_then_leaves_no_trace() -> None:
    now = [0.0]
    stderr = Terminal()
    bar = Bar(stderr, lambda: now[0])
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


def test_progress_is_for_terminals() -> None:
    stderr = StringIO()
    bar = Bar(stderr, iter([0.0, 9.0]).__next__)
    bar(1, 2)
    bar.clear()
    assert stderr.getvalue() == ""


def test_durations_are_said_in_two_units() -> None:
    said = [0, 999, 12_345, 59_999, 312_000, 7_500_000, 277_200_000]
    assert [show_duration(each) for each in said] == [
        "0ms",
        "999ms",
        "12.3s",
        "59.9s",
        "5m12s",
        "2h05m",
        "3d05h",
    ]
    assert show_duration(None) == "-"
