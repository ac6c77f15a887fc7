"""Tests for the generated reference pages of the docs site."""

from __future__ import annotations

import pytest

from coterie.cli.registry import COMMANDS
from coterie.settings import Settings
from tools.docs_reference import (
    commands_page,
    error_codes_page,
    generated,
    settings_of_source,
    settings_page,
)


def test_every_command_has_a_section() -> None:
    headings = [line for line in commands_page().splitlines() if line.startswith("#")]
    for entry in COMMANDS:
        assert any(line.endswith(f" coterie {entry.name}") for line in headings)


def test_an_option_has_its_meaning_and_its_default_once() -> None:
    rows = commands_page().splitlines()
    row = next(each for each in rows if each.startswith("| `--listen "))
    assert row.count("127.0.0.1:9092") == 1
    assert row.endswith("| `127.0.0.1:9092` |")


def test_every_setting_is_listed_with_kafkas_name() -> None:
    names = [each.name for each in settings_of_source()]
    assert names == [each.replace("_", ".") for each in Settings.__dataclass_fields__]


def test_a_setting_has_type_default_unit_and_meaning() -> None:
    settings = {each.name: each for each in settings_of_source()}
    delay = settings["group.initial.rebalance.delay.ms"]
    assert (delay.kind, delay.default, delay.unit) == ("integer", "`3000`", "ms")
    assert delay.section == "Classic groups"
    assert delay.meaning.startswith("Time for which the first rebalance")
    assert not delay.is_only_here
    assert settings["max.partitions"].is_only_here


def test_a_secret_has_no_default() -> None:
    settings = {each.name: each for each in settings_of_source()}
    assert settings["ssl.key.password"].default == "none"


def test_marks_are_replaced() -> None:
    page = generated("before\n<!-- generated: error codes -->\nafter")
    assert page == f"before\n{error_codes_page()}\nafter"
    assert "| 16 | `NOT_COORDINATOR` |" in page
    with pytest.raises(KeyError):
        generated("<!-- generated: nothing -->")


def test_tables_have_one_row_for_each_setting() -> None:
    rows = [line for line in settings_page().splitlines() if line.startswith("| `")]
    assert len(rows) == len(Settings.__dataclass_fields__)
