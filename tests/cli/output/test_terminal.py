"""Output at a terminal: progress, and tables that are redrawn."""

from __future__ import annotations

import re
from io import StringIO

import pytest

from coterie.cli.output.emit import ProgressBar
from coterie.cli.output.outcome import Column, Item, show_duration
from coterie.cli.output.terminal import LiveTable, terminal_table

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


def test_a_live_table_shows_rows_and_lines_below() -> None:
    stdout = Terminal()
    with LiveTable(stdout) as table:
        table.show(COLUMNS, [ITEM], ["a note"])
    assert "a-rather-long-name" in stdout.getvalue()
    assert "a note" in stdout.getvalue()


def test_rows_of_errors_are_red_unless_colors_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    failed: Item = {**ITEM, "error": "no broker responded"}
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    header, row, _ = terminal_table(COLUMNS, [failed], width=80).split("\n")
    assert header.startswith("\x1b[1mNAME")
    assert row.startswith("\x1b[31ma-rather-long-name")
    assert row.endswith("\x1b[0m")
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[31m" not in terminal_table(COLUMNS, [failed], width=80)
    monkeypatch.setenv("TERM", "dumb")
    assert "\x1b" not in terminal_table(COLUMNS, [failed], width=80)


def test_a_live_table_replaces_the_lines_drawn_before() -> None:
    stdout = Terminal()
    with LiveTable(stdout) as table:
        table.show(COLUMNS, [ITEM], ["a note"])
        first = len(stdout.getvalue())
        table.show(COLUMNS, [ITEM], [])
        assert stdout.getvalue()[first:].startswith("\x1b[3A\r")
        assert stdout.getvalue().endswith("\x1b[K\n\x1b[J")
        assert "\x1b[?25h" not in stdout.getvalue()
    assert stdout.getvalue().endswith("\x1b[?25h")


def test_a_live_table_is_cut_to_the_screen_and_complete_at_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("LINES", "6")
    monkeypatch.setenv("COLUMNS", "80")
    stdout = Terminal()
    items: list[Item] = [{"name": f"group-{each}", "end": each} for each in range(9)]
    with LiveTable(stdout) as table:
        table.show(COLUMNS, items, [])
        drawn = stdout.getvalue()
        assert drawn.count("\n") == 5
        assert "group-2" in drawn
        assert "group-3" not in drawn
    assert "\x1b[5A\r" in stdout.getvalue()
    assert "group-8" in stdout.getvalue()


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
