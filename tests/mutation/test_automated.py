"""Drawn mutants: the sample, its tests, known equivalents and the figures."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from rich.progress import Progress

from mutation import automated, figures
from mutation.automated import (
    EQUIVALENT,
    EQUIVALENTS,
    KILLED,
    PACKAGES,
    SURVIVED,
    MutantResult,
    Package,
    choose_tests,
    counts_of,
    draw,
    key_of,
    read_equivalents,
    run_package,
    share,
)
from mutation.covered import Coverage, measure
from mutation.figures import write_figures
from mutation.operators import mutants_of
from mutation.sandbox import ROOT, pool_of_sandboxes

FILE = "src/coterie/broker/coordinator/consumer/reconcile.py"
TEXT = (ROOT / FILE).read_text(encoding="utf-8")
MUTANTS = mutants_of(FILE, TEXT)
OWN = "tests/broker/coordinator/consumer/test_reconcile.py::test_a"
SLOW_OWN = "tests/broker/coordinator/consumer/test_reconcile.py::test_b"
OTHER = "tests/broker/coordinator/classic/test_join.py::test_c"
SCENARIO = "tests/scenarios/test_scenarios.py::test_d"
SECONDS = {OWN: 0.1, SLOW_OWN: 50.0, OTHER: 0.01, SCENARIO: 0.001}
LINES = range(1, len(TEXT.splitlines()) + 1)
EVERYWHERE = Coverage({FILE: dict.fromkeys(LINES, frozenset(SECONDS))}, SECONDS)
COORDINATOR = PACKAGES[0]


def results_of(**statuses: int) -> list[MutantResult]:
    return [
        MutantResult(MUTANTS[0], status, "")
        for status, count in statuses.items()
        for _ in range(count)
    ]


def test_the_packages_and_their_tests_exist() -> None:
    for package in PACKAGES:
        assert (ROOT / "src/coterie" / package.name).is_dir()
        assert all((ROOT / folder).is_dir() for folder in package.tests)


@pytest.mark.slow
def test_a_sample_depends_on_its_seed_and_has_covered_lines_only() -> None:
    consumer = Package("broker/coordinator/consumer", ())
    drawn = draw(consumer, 20, 7, EVERYWHERE)
    assert draw(consumer, 20, 7, EVERYWHERE) == drawn
    assert draw(consumer, 20, 8, EVERYWHERE) != drawn
    assert {each.path for each in drawn} == {FILE}
    assert draw(consumer, 20, 7, Coverage({}, {})) == []


def test_tests_of_the_file_run_first_and_their_time_is_bounded() -> None:
    assert choose_tests(MUTANTS[-1], COORDINATOR, EVERYWHERE) == (OWN,)
    quick = Coverage(EVERYWHERE.lines, {**SECONDS, SLOW_OWN: 5.0})
    tests = choose_tests(MUTANTS[-1], COORDINATOR, quick)
    assert tests == (OWN, SLOW_OWN, OTHER, SCENARIO)


def test_a_place_that_runs_at_import_is_tested_by_all_tests_of_the_file() -> None:
    lines = {FILE: {900: frozenset({OWN}), 901: frozenset({OTHER})}}
    covered = Coverage(lines, SECONDS)
    (at_import,) = [each for each in MUTANTS if each.new == "FREE: Final = -(0)"]
    assert covered.tests_of(at_import) == {OWN, OTHER}
    assert covered.tests_of(MUTANTS[-1]) == frozenset()


def test_equivalent_mutants_have_a_reason_and_do_not_count() -> None:
    assert share(results_of(killed=19, survived=1, equivalent=5)) == 0.95
    assert share(results_of(equivalent=5)) == 1.0
    text = EQUIVALENTS.read_text(encoding="utf-8")
    assert all(len(line.split("\t")) == 5 for line in text.splitlines())
    for (path, _, old, new), reason in read_equivalents(text).items():
        assert (ROOT / path).is_file()
        assert old != new
        assert reason.endswith(".")


@pytest.mark.slow
def test_mutants_are_killed_or_equivalent_or_survive(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    tests = "tests/broker/coordinator/consumer/test_reconcile.py"
    package = Package("broker/coordinator", (tests,))
    keeps = "if p not in target}"
    chosen = [each for each in MUTANTS if each.within == "_lost_topic"]
    chosen += [each for each in MUTANTS if keeps in each.old and "not in" in each.old]
    known = tmp_path / "equivalent.tsv"
    row = "\t".join((*key_of(chosen[0]), "a reason."))
    known.write_text(f"heading\n{row}\n")
    monkeypatch.setattr(automated, "EQUIVALENTS", known)
    with pool_of_sandboxes(1) as pool, Progress(disable=True) as progress:
        covered = pool.submit(measure, (tests,), (tests,)).result()
        assert all(covered.tests_of(mutant) for mutant in chosen)
        results = run_package(package, chosen, covered, pool, progress)
    statuses = {result.mutant: result.status for result in results}
    assert statuses.pop(chosen[0]) == EQUIVALENT
    assert set(statuses.values()) <= {KILLED, SURVIVED}
    assert list(statuses.values()).count(KILLED) > 2


def test_figures_of_other_packages_are_kept(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "mutants.tsv"
    monkeypatch.setattr(figures, "FIGURES", file)
    write_figures({"operations": counts_of(results_of(killed=2, survived=1))}, 7)
    write_figures({"broker/log": counts_of(results_of(killed=1, equivalent=2))}, 8)
    write_figures({"operations": counts_of(results_of(killed=3))}, 9)
    heading, log, operations = file.read_text().splitlines()
    assert heading == "package\tmutants\tkilled\tequivalent\tseed\tdate"
    assert log.split("\t")[:5] == ["broker/log", "3", "1", "2", "8"]
    assert operations.split("\t")[:5] == ["operations", "3", "3", "0", "9"]


def test_survivors_of_a_file_can_be_run_again(tmp_path: Path) -> None:
    file = tmp_path / "results.json"
    found = [
        MutantResult(MUTANTS[0], KILLED, "t"),
        MutantResult(MUTANTS[1], SURVIVED, ""),
    ]
    automated._write_json(file, 7, {"broker/coordinator": found})
    assert automated._survivors(file) == {key_of(MUTANTS[1])}
    assert json.loads(file.read_text())["shares"] == {"broker/coordinator": 0.5}
