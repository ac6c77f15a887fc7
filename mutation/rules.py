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
import ast
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from mutation.sandbox import (
    ROOT,
    Edit,
    Report,
    each_done,
    own_sandbox,
    pool_of_sandboxes,
)

RULES: Final = ROOT / "mutation" / "rules"
SOURCES: Final = "src/coterie/"
KEYS: Final = frozenset({"file", "old", "new", "tests"})
LIMIT_S: Final = 300.0
"""The time of a mutant's tests; one that takes longer counts as killed."""


class InvalidMutant(Exception):
    """A mutant that cannot be applied; the message says what to change."""


class RuleMutant(NamedTuple):
    """A change of one file of src that breaks a rule, and the tests that find it."""

    rule: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]
    within: str = ""

    @property
    def path(self) -> str:
        """The path of the changed file, relative to the root."""
        return SOURCES + self.file

    def edit(self) -> Edit:
        """Return the changed file. Raises InvalidMutant."""
        path = ROOT / self.path
        if not path.exists():
            raise InvalidMutant(f"{self.path} does not exist")
        edit = self.apply(path.read_text(encoding="utf-8"))
        compile(edit.text, self.path, "exec")
        return edit

    def apply(self, text: str) -> Edit:
        """Return the changed text of the file.

        Raises:
            InvalidMutant: `old` does not occur exactly once.
        """
        start, end = 0, len(text)
        if self.within:
            start, end = _extent(text, self)
        count = text.count(self.old, start, end)
        if count != 1:
            place = f"{self.within} of {self.path}" if self.within else self.path
            advice = "adapt `old` and `new` to it, so that they break the rule again"
            if count:
                advice = (
                    "add neighbouring lines to both, or name the function, `within`"
                )
            raise InvalidMutant(f"`old` occurs {count} times in {place}: {advice}")
        if self.old == self.new:
            raise InvalidMutant("`old` and `new` are the same: write what breaks it")
        at = text.index(self.old, start, end)
        return Edit(self.path, text[:at] + self.new + text[at + len(self.old) :])

    def run(self) -> Report:
        """Run the tests on the mutant, in a process of the pool."""
        return own_sandbox().run_tests(self.tests, edit=self.edit(), limit_s=LIMIT_S)


def _extent(text: str, mutant: RuleMutant) -> tuple[int, int]:
    """Return the start and end of a class or function in the text of its file."""
    name = mutant.within
    found = [node for path, node in _definitions(ast.parse(text)) if path == name]
    if len(found) != 1:
        raise InvalidMutant(
            f"{mutant.path} has {len(found)} classes or functions {name}: write "
            " `within` as NAME or CLASS.METHOD, or leave it out"
        )
    (node,) = found
    lines = text.splitlines(keepends=True)
    first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
    start = sum(map(len, lines[: first - 1]))
    return start, start + sum(map(len, lines[first - 1 : node.end_lineno]))


Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def _definitions(node: ast.AST, prefix: str = "") -> Iterator[tuple[str, Definition]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, Definition):
            yield prefix + child.name, child
            yield from _definitions(child, f"{prefix}{child.name}.")
        else:
            yield from _definitions(child, prefix)


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
        tests = tuple(table["tests"].split())
        yield RuleMutant(rule, **{**table, "tests": tests})  # type: ignore[arg-type]


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
        if given.only in each.rule or given.only in each.path
    ]
    survived = 0
    with pool_of_sandboxes(given.jobs) as pool:
        for each, report in each_done(pool, RuleMutant.run, rules):
            survived += report.passed or bool(report.unusable)
            print(f"{each.file}: {each.rule}\n  {_outcome(report)}", flush=True)
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
