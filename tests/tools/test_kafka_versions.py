"""The page of Kafka's versions shows the recorded runs."""

from __future__ import annotations

from tests.interop.versions.steps import STEPS
from tools.kafka_versions import (
    PAGE,
    TABLE,
    WORKS,
    markdown,
    page_with,
    read_table,
    write_table,
)

RECORDED = {"0.11": {"a": WORKS, "b, c": "error: no"}, "4.3": {"a": "x", "b, c": "x"}}


def test_the_page_shows_the_recorded_outcomes() -> None:
    outcomes = read_table(TABLE.read_text("utf-8"))
    page = PAGE.read_text("utf-8")
    assert page_with(page, markdown(outcomes)) == page, (
        "regenerate it: python -m tools.kafka_versions"
    )


def test_every_step_was_run_against_every_release() -> None:
    outcomes = read_table(TABLE.read_text("utf-8"))
    assert list(outcomes) == ["0.11", "1.1", "2.8", "3.9", "4.3", "4.4"]
    for release, own in outcomes.items():
        assert list(own) == list(dict.fromkeys(step.name for step in STEPS)), release
        assert "not run" not in own.values()
    assert {*outcomes["4.3"].values(), *outcomes["4.4"].values()} == {WORKS}


def test_a_table_is_read_as_it_was_written() -> None:
    assert read_table(write_table(RECORDED)) == RECORDED


def test_releases_are_in_order_and_a_missing_run_is_named() -> None:
    text = write_table({"4.3": {"a": WORKS}, "0.11": {}})
    assert text == "command\t0.11\t4.3\na\tnot run\tworks\n"


def test_equal_refusals_share_a_note() -> None:
    lines = markdown(RECORDED).splitlines()
    assert lines[0] == "| command | 0.11 | 4.3 |"
    assert lines[2:4] == ["| `a` | yes | no (1) |", "| `b`, c | no (2) | no (1) |"]
    assert lines[-2:] == ["1. `x`", "2. `error: no`"]
