"""`python -m mutation.rules`: run the mutants of rules that no fact of Kafka states.

`mutation/rules/` has a file of mutants for each part of Coterie. A table is one mutant,
named by the rule that it breaks:

    ["A lease ends when no heartbeat is answered in time."]
    file = "gateway/ownership.py"     # below src/coterie
    within = "Lease.is_held"          # optional: the class or function that has `old`
    old = "self._clock() >= self._ends_at_ms"
    new = "False"
    tests = "tests/gateway/test_ownership.py"     # files or tests, separated by spaces

One of its tests must fail on it. The mutants that worlds of the simulation must find
are in sim/mutants.
"""

from __future__ import annotations

import argparse
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from mutation.named import InvalidMutant, NamedMutant
from mutation.sandbox import (
    ROOT,
    Edit,
    Report,
    each_done,
    own_sandbox,
    pool_of_sandboxes,
)

RULES: Final = ROOT / "mutation" / "rules"
KEYS: Final = frozenset({"file", "old", "new", "tests"})
LIMIT_S: Final = 300.0
"""The time of a mutant's tests; one that takes longer counts as killed."""


class RuleMutant(NamedTuple):
    """A change of one file of src that breaks a rule, and the tests that find it."""

    rule: str
    mutant: NamedMutant
    tests: tuple[str, ...]

    def edit(self) -> Edit:
        """Return the changed file. Raises InvalidMutant."""
        path = ROOT / self.mutant.path
        if not path.exists():
            raise InvalidMutant(f"{self.mutant.path} does not exist")
        edit = self.mutant.apply(path.read_text(encoding="utf-8"))
        compile(edit.text, self.mutant.path, "exec")
        return edit

    def run(self) -> Report:
        """Run the tests on the mutant, in a process of the pool."""
        return own_sandbox().run_tests(self.tests, edit=self.edit(), limit_s=LIMIT_S)


def read_rules(folder: Path = RULES) -> list[RuleMutant]:
    """Parse all files of rules. Raises InvalidMutant."""
    return [
        each
        for path in sorted(folder.glob("*.toml"))
        for each in _read(path.name, tomllib.loads(path.read_text(encoding="utf-8")))
    ]


def _read(name: str, tables: Mapping[str, Mapping[str, str]]) -> Iterator[RuleMutant]:
    for rule, table in tables.items():
        if set(table) - {"within"} != KEYS:
            raise InvalidMutant(
                f"{name}: [{rule}] needs file, old, new and tests, and may have within"
            )
        mutant = NamedMutant(
            (rule,),
            table["file"],
            table["old"],
            table["new"],
            table.get("within", ""),
            name,
        )
        yield RuleMutant(rule, mutant, tuple(table["tests"].split()))


def main(words: Sequence[str] | None = None) -> int:
    """Run the command line; return 1 unless every mutant is killed."""
    parser = argparse.ArgumentParser(
        prog="python -m mutation.rules", description="Run the mutants of rules."
    )
    parser.add_argument("--only", default="", help="a part of the file or of the rule")
    parser.add_argument("--jobs", type=int, default=1, help="number of processes")
    given = parser.parse_args(words)
    rules = [
        each
        for each in read_rules()
        if given.only in each.rule or given.only in each.mutant.path
    ]
    survived = 0
    with pool_of_sandboxes(given.jobs) as pool:
        for each, report in each_done(pool, RuleMutant.run, rules):
            survived += report.passed or bool(report.unusable)
            print(f"{each.mutant.file}: {each.rule}\n  {_outcome(report)}", flush=True)
    print(f"{len(rules)} mutants of rules, {survived} not found")
    return bool(survived)


def _outcome(report: Report) -> str:
    if report.unusable:
        return f"UNUSABLE: {report.unusable}"
    if report.passed:
        return "NOT FOUND"
    return report.failed[0] if report.failed else "time limit"


if __name__ == "__main__":
    sys.exit(main())
