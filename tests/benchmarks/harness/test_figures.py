"""Benchmark rounds, figures, and the verdict of each figure."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from benchmarks.harness.figures import (
    Bar,
    Figure,
    Rounds,
    alternate,
    median_ratio,
    reported,
    take_turns,
)


@pytest.mark.parametrize(
    ("value", "side", "verdict"),
    [
        (1.0, Bar.AT_LEAST, "met"),
        (0.9, Bar.AT_LEAST, "close"),
        (0.8, Bar.AT_LEAST, "MISSED"),
        (1.0, Bar.AT_MOST, "met"),
        (1.1, Bar.AT_MOST, "close"),
        (1.2, Bar.AT_MOST, "MISSED"),
    ],
)
def test_a_bar_is_missed_only_beyond_the_tolerance(
    value: float, side: Bar, verdict: str
) -> None:
    assert Figure(name="x", value=value, bar=1.0, side=side).verdict == verdict


def test_a_figure_without_a_bar_has_no_verdict() -> None:
    assert Figure(name="x", value=1.0).verdict == "-"


def test_a_bar_of_zero_is_missed_by_one() -> None:
    assert Figure(name="x", value=1, bar=0, side=Bar.AT_MOST).verdict == "MISSED"


def test_the_compared_sides_alternate_in_pairs() -> None:
    order: list[str] = []

    def side(name: str) -> str:
        order.append(name)
        return name

    pairs = alternate(Rounds(3, 1.0), lambda: side("ours"), lambda: side("theirs"))
    assert order == ["ours", "theirs", "theirs", "ours", "ours", "theirs"]
    assert pairs == [("ours", "theirs")] * 3


def test_one_outlier_does_not_change_the_median() -> None:
    assert median_ratio([(1.0, 2.0), (2.0, 4.0), (9.0, 1.0)]) == 0.5


def test_each_round_starts_with_another_side() -> None:
    order: list[str] = []

    def side(name: str) -> str:
        order.append(name)
        return name.upper()

    sides = {name: lambda name=name: side(name) for name in ("a", "b", "c")}
    results = take_turns(Rounds(2, 1.0), sides)
    assert order == ["a", "b", "c", "b", "c", "a"]
    assert results == [{"a": "A", "b": "B", "c": "C"}] * 2


def test_rows_are_selected_by_a_regular_expression_in_any_case() -> None:
    assert Rounds(1, 1.0).includes("anything")
    assert Rounds(1, 1.0, "kip-848").includes("KIP-848 heartbeats")
    assert not Rounds(1, 1.0, "^commit").includes("KIP-848 heartbeats")


def test_an_error_is_a_missed_figure_after_those_before_it() -> None:
    def figures() -> Iterator[Figure]:
        yield Figure(name="first", value=1.0)
        raise RuntimeError("refused")

    first, failure = reported("groups", figures())
    assert first.name == "first"
    assert (failure.verdict, failure.detail) == ("MISSED", "refused")
