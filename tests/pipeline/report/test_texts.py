"""Texts of the report: times, numbers, shortened names, commands."""

from __future__ import annotations

import subprocess
from datetime import timedelta

import pytest

from coterie.pipeline.report import texts
from tests.pipeline.lakes import AS_OF
from tests.pipeline.story import HOSTILE


@pytest.mark.parametrize(
    ("ms", "expected"),
    [
        (None, "–"),
        (0, "0 ms"),
        (12_340, "12.3 s"),
        (60_000, "1 min"),
        (312_000, "5 min 12 s"),
        (7_500_000, "2 h 5 min"),
        (-273_600_000, "−3 d 4 h"),
    ],
)
def test_durations_are_formatted_in_at_most_two_units(
    ms: int | None, expected: str
) -> None:
    assert texts.span(ms) == expected


def test_a_past_time_is_relative_to_the_newest_record() -> None:
    assert texts.ago(AS_OF - timedelta(minutes=5), AS_OF) == "5 min ago"
    assert texts.ago(None, AS_OF) == "–"


def test_a_number_is_formatted_with_its_noun() -> None:
    assert texts.plural(1, "group") == "1 group"
    assert texts.plural(1_200, "group") == "1\u202f200 groups"
    assert texts.plural(2, "group exists", "groups exist") == "2 groups exist"


def test_a_short_name_is_not_changed() -> None:
    assert texts.short_name("billing") == "billing"
    assert texts.short_name("x" * 34) == "x" * 34


def test_a_long_name_is_shortened_in_the_middle() -> None:
    name = "com.example.orders.projection.service-eu-central-1-0042"
    short = texts.short_name(name)
    assert len(short) == 34
    start, end = short.split("…")
    assert name.startswith(start)
    assert name.endswith(end)
    assert len(end) == 11


def test_wide_characters_count_twice_and_accents_stay_with_their_letter() -> None:
    wide = texts.short_name("注文処理サービス東京リージョン本番環境二号機", 21)
    assert wide.startswith("注文処理")
    assert wide.endswith("号機")
    cells = sum(1 if each == "…" else 2 for each in wide)
    assert cells <= 21
    accented = "e\u0301" * 60
    short = texts.short_name(accented, 20)
    assert len(short) == 19 * 2 + 1
    for part in short.split("…"):
        assert not part.startswith("\u0301")


def test_invisible_characters_of_a_shortened_name_are_escaped() -> None:
    assert texts.short_name("a\u202eb") == "a\\u202eb"


@pytest.mark.slow
@pytest.mark.parametrize(
    "group", ["billing", "a b", "it's", HOSTILE, "-rf", "a\nb\x1b[2J\\'", "$(id)`id`"]
)
def test_a_copied_command_quotes_the_group_id(group: str) -> None:
    command = texts.delete_command(group)
    assert command.isprintable()
    words = command.removeprefix("coterie groups delete ").removeprefix("-- ")
    done = subprocess.run(
        ["bash", "-c", f"printf %s {words}"],
        check=True,
        capture_output=True,
        text=True,
        env={"LC_ALL": "C.UTF-8"},
    )
    assert done.stdout == group
