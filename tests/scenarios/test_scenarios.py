"""Execution of every scenario in this folder, marked with the facts in its title."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.scenarios import (
    admin_lines,
    classic_lines,
    client_side_lines,
    group_lines,
    offset_lines,
)
from tests.scenarios.play import LINES, Play, lines_of

LINES[:0] = group_lines.LINES + client_side_lines.LINES
LINES += classic_lines.LINES + offset_lines.LINES + admin_lines.LINES

HERE = Path(__file__).parent
SCENARIOS = {
    (file.stem, title): lines
    for file in sorted(HERE.glob("*.txt"))
    for title, lines in lines_of(file.read_text()).items()
}


def _parameters() -> list[Any]:
    parameters = []
    for (file, title), lines in SCENARIOS.items():
        facts = re.findall(r"\b[A-H]\d*-\d+[a-z]?\b", title)
        name = f"{file}: {title}"
        mark = pytest.mark.fact(*facts)
        parameters.append(pytest.param(lines, marks=mark, id=name))
    return parameters


@pytest.mark.parametrize("lines", _parameters())
def test_scenario(lines: list[str]) -> None:
    play = Play()
    for number, line in enumerate(lines, 1):
        try:
            play.line(line)
        except AssertionError as error:
            message = f"line {number}, {line!r}: {error}"
            raise AssertionError(message) from error


def test_an_unknown_line_fails() -> None:
    with pytest.raises(AssertionError, match="unknown line"):
        Play().line("m dances")


def test_an_expectation_that_does_not_hold_fails() -> None:
    play = Play()
    play.line("topics foo 2")
    play.line("m joins foo")
    play.line("-> at 1, assigned foo 0-1")
    with pytest.raises(AssertionError):
        play.line("-> at 1, assigned foo 0")
    with pytest.raises(AssertionError):
        play.line("the group is Stable at 2")
