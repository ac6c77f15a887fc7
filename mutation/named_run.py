"""Run named mutants: does a test of each row fail on the mutant of the row?"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import Final, NamedTuple

from mutation.marks import collect, files_to_collect, group_by_fact, mentioned
from mutation.named import InvalidMutant, NamedMutant
from mutation.sandbox import ROOT, Edit, Report, each_done, own_sandbox

KILLED: Final = "killed"
SURVIVED: Final = "survived"
NO_MUTANT: Final = "no mutant"
NO_TEST: Final = "no test"
FAILS_ALREADY: Final = "its tests fail without the mutant"
UNUSABLE: Final = "unusable"

FACTS: Final = ROOT / "docs" / "facts.tsv"
DEVIATIONS: Final = ROOT / "docs" / "deviations.tsv"
LIMIT_S: Final = 60.0
"""The least time for the tests of a mutant; one that takes longer counts as killed."""
SLOWER_MAX: Final = 10
"""A mutant may make its tests this many times as slow."""
TESTS_A_RUN: Final = 400


class RowResult(NamedTuple):
    """The result for a row of docs/facts.tsv: its status and the test or the reason."""

    fact: str
    status: str
    detail: str = ""
    seconds: float = 0.0

    def __str__(self) -> str:
        detail = f": {self.detail}" if self.detail else ""
        return f"{self.fact:8} {self.status}{detail}"


def draw_rows(count: int, seed: int) -> list[str]:
    """Draw rows at random among those that a test names and that are no deviation."""
    tested = set(mentioned())
    differs = _first_column(DEVIATIONS.read_text(encoding="utf-8"))
    rows = [
        fact
        for fact in _first_column(FACTS.read_text(encoding="utf-8"))
        if fact in tested and fact not in differs
    ]
    return sorted(random.Random(seed).sample(rows, min(count, len(rows))))  # noqa: S311


def _first_column(text: str) -> list[str]:
    return [line.partition("\t")[0] for line in text.splitlines()[1:]]


class Preparation(NamedTuple):
    """The tests of each fact, and their outcome without a mutant."""

    tests: Mapping[str, Sequence[str]]
    failed: frozenset[str]
    seconds: Mapping[str, float]


def prepare(
    facts: Collection[str], pool: ProcessPoolExecutor, processes: int
) -> Preparation:
    """Find the tests of these facts, and run them without a mutant."""
    files = files_to_collect(facts)
    if not files:
        return Preparation({}, frozenset(), {})
    marks: dict[str, list[str]] = {}
    # Collection of all files takes longer than the start of a second process.
    for _, found in each_done(pool, collect, _parts(files, processes)):
        marks |= found
    tests = {
        fact: those for fact, those in group_by_fact(marks).items() if fact in facts
    }
    needed = sorted({test for those in tests.values() for test in those})
    failed: set[str] = set()
    seconds: dict[str, float] = {}
    parts = _parts(needed, max(processes, len(needed) // TESTS_A_RUN))
    for part, report in each_done(pool, _run_unchanged, parts):
        if report.unusable:
            raise RuntimeError(f"pytest cannot run the tests: {report.unusable}")
        seconds |= report.seconds
        failed |= set(report.failed) | (set(part) - set(report.seconds))
    return Preparation(tests, frozenset(failed), seconds)


def _parts(items: list[str], count: int) -> list[list[str]]:
    """Divide items into up to `count` runs of neighbours."""
    size = -(-len(items) // count)
    return [items[at : at + size] for at in range(0, len(items), size)]


def _run_unchanged(tests: list[str]) -> Report:
    return own_sandbox().run_tests(tests, to_the_end=True)


class MutantRun(NamedTuple):
    """The tests to run on one mutant, and their durations without it."""

    facts: tuple[str, ...]
    edit: Edit
    tests: tuple[str, ...]
    seconds: Mapping[str, float]

    def run(self) -> Report:
        """Run the tests on the mutant; in a process of the pool."""
        usual = sum(self.seconds.values())
        return own_sandbox().run_tests(
            self.tests,
            edit=self.edit,
            limit_s=LIMIT_S + SLOWER_MAX * usual,
            order=self.seconds,
        )


def run_rows(
    facts: Sequence[str],
    mutants: Sequence[NamedMutant],
    prepared: Preparation,
    pool: ProcessPoolExecutor,
) -> Iterator[RowResult]:
    """Yield the result of each row, in no order."""
    named = {fact: mutant for mutant in mutants for fact in mutant.facts}
    runs = []
    for fact in facts:
        answer = _plan(fact, named.get(fact), prepared)
        if isinstance(answer, RowResult):
            yield answer
        else:
            runs.append(answer)
    for run, report in each_done(pool, MutantRun.run, runs):
        (fact,) = run.facts
        seconds = round(sum(report.seconds.values()), 2)
        if report.unusable:
            yield RowResult(fact, UNUSABLE, report.unusable, seconds)
        elif report.passed:
            detail = f"{len(run.tests)} tests pass: {', '.join(run.tests[:3])}"
            yield RowResult(fact, SURVIVED, detail, seconds)
        else:
            detail = report.failed[0] if report.failed else "time limit"
            yield RowResult(fact, KILLED, detail, seconds)


def _plan(
    fact: str, mutant: NamedMutant | None, prepared: Preparation
) -> RowResult | MutantRun:
    """Return the tests to run for a row, or why none can run."""
    tests = prepared.tests.get(fact, ())
    if not tests:
        return RowResult(fact, NO_TEST, "no test has its mark")
    if broken := [test for test in tests if test in prepared.failed]:
        return RowResult(fact, FAILS_ALREADY, broken[0])
    if mutant is None:
        return RowResult(fact, NO_MUTANT)
    try:
        text = (ROOT / mutant.path).read_text(encoding="utf-8")
        edit = mutant.apply(text)
        if mutant.path.endswith(".py"):
            compile(edit.text, mutant.path, "exec")
    except (OSError, InvalidMutant, SyntaxError) as error:
        return RowResult(fact, UNUSABLE, str(error))
    seconds = {test: prepared.seconds[test] for test in tests}
    return MutantRun((fact,), edit, tuple(tests), seconds)
