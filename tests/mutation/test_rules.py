"""Mutants of rules: each applies, and has tests that may find it."""

from __future__ import annotations

from pathlib import Path

import pytest

from mutation.named import InvalidMutant
from mutation.rules import RuleMutant, read_rules
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
    assert rule.edit().path == rule.mutant.path
    files = [ROOT / test.partition("::")[0] for test in rule.tests]
    assert files
    assert all(each.exists() for each in files)


def test_the_number_of_rules_does_not_shrink() -> None:
    rules = read_rules()
    assert len(rules) >= RULES_MIN
    assert not set(RULED) - {each.mutant.file for each in rules}


@pytest.mark.parametrize(
    "table",
    ['old = "a"\nnew = "b"\ntests = "t"\n', 'file = "f"\nold = "a"\nnew = "b"\n'],
)
def test_a_table_without_all_keys_is_refused(tmp_path: Path, table: str) -> None:
    (tmp_path / "some.toml").write_text(f'["A rule."]\n{table}')
    with pytest.raises(InvalidMutant, match="needs file, old, new and tests"):
        read_rules(tmp_path)
