"""The table of both builds: cells, bars, and the builds that are not measured."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from benchmarks.harness.figures import Bar, Figure
from benchmarks.harness.table import (
    cpu_table,
    markdown,
    rows_of,
    side_by_side,
    value_text,
)

PURE = Figure(
    name="commits: of Kafka",
    value=0.25,
    bar=0.8,
    build="pure",
    ours="7,000/s",
    other="Kafka 28,000/s",
    cpu_us=120.0,
    other_cpu_us=32.0,
)
COMPILED = Figure(
    name="commits: of Kafka",
    value=1.6,
    bar=1.5,
    build="compiled",
    ours="45,000/s",
    other="Kafka 28,000/s",
    cpu_us=16.0,
    other_cpu_us=32.0,
)


def printed(table: Table) -> str:
    console = Console(width=200)
    with console.capture() as capture:
        console.print(table)
    return capture.get()


def test_the_builds_of_one_name_are_one_row() -> None:
    (row,) = rows_of([PURE, COMPILED, Figure(name="without a build", value=1.0)])
    assert row.cells == {"pure": PURE, "compiled": COMPILED}


def test_markdown_has_the_bar_of_each_build_and_marks_the_missed_one() -> None:
    assert markdown([PURE, COMPILED]).splitlines()[-1] == (
        "| commits: of Kafka | Kafka 28,000/s | **0.25, missed** (7,000/s) "
        "| 0.8 or more | 1.60 (45,000/s) | 1.5 or more |"
    )


def test_a_figure_within_the_tolerance_of_its_bar_is_marked_missed() -> None:
    close = Figure(name="x", value=0.79, bar=0.8, build="pure")
    assert close.verdict == "close"
    assert "**0.79, missed**" in markdown([close])


def test_a_run_without_the_compiled_build_says_how_to_build_it() -> None:
    assert "not built: make compiled" in markdown([PURE])
    assert "not built: make compiled" in printed(side_by_side([PURE]))


def test_one_missing_cell_is_not_taken_for_a_missing_build() -> None:
    other = Figure(name="other", value=1.0, build="pure")
    assert markdown([PURE, COMPILED, other]).splitlines()[-1] == (
        "| other |  | 1.00 | - | not measured | - |"
    )


def test_a_terminal_shows_what_is_missed() -> None:
    assert "0.25 MISSED (7,000/s)" in printed(side_by_side([PURE, COMPILED]))


def test_the_cpu_view_has_all_sides_and_only_rows_with_cpu_times() -> None:
    text = printed(cpu_table([PURE, COMPILED, Figure(name="y", value=1, build="pure")]))
    assert text.splitlines()[-1].split()[-3:] == ["32.0", "120.0", "16.0"]


def test_values_have_units_and_few_digits() -> None:
    figure = Figure(name="x", value=1234.5, unit="us", side=Bar.AT_MOST)
    assert value_text(figure) == "1,234 us"
    assert value_text(Figure(name="x", value=12.34, unit="s")) == "12.3 s"
    assert value_text(Figure(name="x", value=0.256)) == "0.26"


def test_a_value_just_below_its_bar_has_a_third_digit() -> None:
    assert value_text(Figure(name="x", value=0.797, bar=0.8)) == "0.797"
    assert value_text(Figure(name="x", value=0.79, bar=0.8)) == "0.79"
