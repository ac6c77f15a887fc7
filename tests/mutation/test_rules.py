"""Mutants of rules: each applies, and has tests that may find it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mutation.rules import InvalidMutant, RuleMutant, read_rules
from mutation.sandbox import ROOT

RULES_MIN = 120
RULED = (
    "gateway/log/barrier.py",
    "gateway/log/markers.py",
    "gateway/log/opening.py",
    "gateway/log/shard_log.py",
    "gateway/log/shard_writer.py",
    "gateway/membership.py",
    "gateway/node_assignment.py",
    "gateway/ownership.py",
    "gateway/path/rewriting.py",
    "gateway/transactions.py",
)


@pytest.mark.parametrize("rule", read_rules(), ids=lambda each: each.rule)
def test_each_mutant_of_a_rule_applies_and_has_tests(rule: RuleMutant) -> None:
    assert rule.rule.endswith(".")
    assert rule.edit().path == rule.path
    files = [ROOT / test.partition("::")[0] for test in rule.tests]
    assert files
    assert all(each.exists() for each in files)


def test_the_number_of_rules_does_not_shrink() -> None:
    rules = read_rules()
    assert len(rules) >= RULES_MIN
    assert not set(RULED) - {each.file for each in rules}


@pytest.mark.parametrize(
    "table",
    ['old = "a"\nnew = "b"\ntests = "t"\n', 'file = "f"\nold = "a"\nnew = "b"\n'],
)
def test_a_table_without_all_keys_is_refused(tmp_path: Path, table: str) -> None:
    (tmp_path / "some.toml").write_text(f'["A rule."]\n{table}')
    with pytest.raises(InvalidMutant, match="needs file, old, new and tests"):
        read_rules(tmp_path)


SOURCE = """\
class Epochs:
    def check(self) -> bool:
        return self.epoch > 1

    def other(self) -> bool:
        return self.epoch > 1
"""
MUTANT = RuleMutant(
    "A rule.", "epochs.py", "epoch > 1", "epoch >= 1", ("t",), "Epochs.other"
)


def test_only_the_named_function_is_changed() -> None:
    edit = MUTANT.apply(SOURCE)
    assert edit.path == "src/coterie/epochs.py"
    assert edit.text.splitlines()[2].endswith("> 1")
    assert edit.text.splitlines()[5].endswith(">= 1")


@pytest.mark.parametrize(
    ("changed", "advice"),
    [
        ({"within": ""}, "occurs 2 times in src/coterie/epochs.py: add neighbouring"),
        ({"old": "gone"}, "occurs 0 times in Epochs.other of src/coterie/epochs.py"),
        ({"new": "epoch > 1"}, "are the same"),
        ({"within": "check"}, "has 0 classes or functions check"),
    ],
)
def test_a_mutant_that_does_not_apply_says_what_to_change(
    changed: dict[str, Any], advice: str
) -> None:
    with pytest.raises(InvalidMutant, match=advice):
        MUTANT._replace(**changed).apply(SOURCE)
