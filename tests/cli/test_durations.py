"""Durations as values of options."""

from __future__ import annotations

import argparse

import pytest

from coterie.cli.durations import duration_of, whole_duration_of
from coterie.cli.parser import make_parser
from coterie.cli.registry import find_command


@pytest.mark.parametrize(
    ("unit", "text", "value"),
    [
        ("seconds", "2", 2.0),
        ("seconds", ".5", 0.5),
        ("seconds", "0.5", 0.5),
        ("seconds", "1m30s", 90.0),
        ("seconds", "PT1M", 60.0),
        ("days", "36h", 1.5),
    ],
)
def test_a_number_has_the_unit_of_the_option(
    unit: str, text: str, value: float
) -> None:
    assert duration_of(unit)(text) == value


@pytest.mark.parametrize("text", ["", "x", "-1", "nan", "inf", "-PT1S", "2 s"])
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="a number of seconds"):
        duration_of("seconds")(text)


@pytest.mark.parametrize("text", ["0", "1.5", "2147483648", "1m0.0001s", "30d"])
def test_a_whole_duration_is_in_its_range(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="whole number from 1"):
        whole_duration_of("milliseconds", least=1, most=2**31 - 1)(text)


def required(words: list[str]) -> list[str]:
    """Return the required options of a command."""
    return ["--from", "f", "--to", "t"] if words[0] == "pipeline" else []


@pytest.mark.parametrize(
    ("line", "name", "value"),
    [
        ("groups list --timeout 30s", "timeout", 30_000),
        ("groups list --timeout 30", "timeout", 30),
        ("groups watch --interval 1m30s", "interval", 90.0),
        ("pipeline run --keep-hours 7d", "keep_hours", 168),
        ("pipeline run --retention-days 36h", "retention_days", 1.5),
    ],
)
def test_options_take_durations(line: str, name: str, value: float) -> None:
    words = line.split()
    options = make_parser(find_command(words)).parse_args([*words, *required(words)])
    assert vars(options)[name] == value
