"""The conformance pages show the outcomes of the tests, and staleness is reported."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from tools import conformance
from tools.conformance import (
    AREAS,
    DIFFERENT,
    FACTS,
    OPEN,
    PROVEN,
    TESTED,
    ConformanceError,
    Fact,
    Inputs,
    Row,
    judge,
    main,
    missing,
    read_deviations,
    read_facts,
    read_mutants,
    render,
    render_rows,
    stale,
    statuses,
)
from tools.kafka_runs import Outcomes, Run

FIRST = Fact("A-01", "A.1 Requirements", "S", "a | b", "4.3.1", "A.java:1")
SECOND = Fact("A-02", "A.1 Requirements", "L", "c", "-", "-")
BOTH = (FIRST, SECOND)
PASSED = {"A-01": {"tests/test_a.py::test_one[x]": "passed"}}
ON_KAFKA = {"A-01": Run("4.3.1", ("test_a.py::test_one",))}
NO_MUTANTS = read_mutants("", [])


def judged(
    outcomes: Outcomes,
    deviations: Mapping[str, str] | None = None,
    runs: Mapping[str, Run] | None = None,
    facts: tuple[Fact, ...] = BOTH,
) -> tuple[Row, ...]:
    return judge(Inputs(facts, outcomes, deviations or {}, runs or {}))


def test_facts_are_listed_once_and_every_column_is_filled() -> None:
    facts = read_facts(FACTS.read_text(encoding="utf-8"))
    assert len(facts) == len({fact.id for fact in facts}) > 700
    assert all(all(fact) for fact in facts)


SOURCE = re.compile(
    r"-|exchange|Coterie|KIP-\d+|([\w-]+/)*\w+\.(java|scala|json)(:\d+)?"
)


def test_every_compared_statement_has_a_source() -> None:
    facts = read_facts(FACTS.read_text(encoding="utf-8"))
    assert [fact.id for fact in facts if not SOURCE.fullmatch(fact.source)] == []
    compared = [fact for fact in facts if fact.checked != "-"]
    assert [fact.id for fact in compared if fact.source == "-"] == []


def test_every_area_contains_facts() -> None:
    facts = read_facts(FACTS.read_text(encoding="utf-8"))
    assert all(any(area.holds(fact) for fact in facts) for area in AREAS)


def test_a_fact_with_passing_tests_is_tested_here() -> None:
    first, second = judged(PASSED)
    assert (first.status, first.evidence) == (TESTED, "`test_a.py::test_one`")
    assert (second.status, second.evidence) == (OPEN, "")


def test_a_fact_with_a_recorded_run_on_kafka_is_proven() -> None:
    first = judged(PASSED, runs=ON_KAFKA)[0]
    assert (first.status, first.kafka) == (PROVEN, "4.3.1")


def test_a_run_of_a_test_that_lost_its_mark_proves_nothing() -> None:
    runs = {"A-01": Run("4.3.1", ("test_a.py::test_other",))}
    assert judged(PASSED, runs=runs)[0].status == TESTED


def test_a_run_of_a_test_that_needs_apaches_tools_proves_a_fact() -> None:
    runs = {"A-01": Run("4.3.1", ("test_tools.py::test_other",))}
    first = judged(PASSED, runs=runs)[0]
    assert first.status == PROVEN
    assert first.evidence == "`test_tools.py::test_other`, `test_a.py::test_one`"


def test_a_run_on_kafka_proves_nothing_if_a_test_fails_here() -> None:
    tests = {"A-01": {**PASSED["A-01"], "tests/b.py::test_two": "failed"}}
    assert judged(tests, runs=ON_KAFKA)[0].status == OPEN


def test_tests_that_ran_on_kafka_are_named_first() -> None:
    names = ("a", "b", "c", "test_a")
    tests = {"A-01": {f"tests/{name}.py::test_one": "passed" for name in names}}
    assert judged(tests, runs=ON_KAFKA)[0].evidence == (
        "`test_a.py::test_one`, `a.py::test_one`, `b.py::test_one` and 1 more"
    )


@pytest.mark.parametrize("outcome", ["failed", "skipped"])
def test_a_fact_with_a_test_that_did_not_pass_is_open(outcome: str) -> None:
    tests = {"A-01": {"tests/a.py::one": "passed", "tests/a.py::two": outcome}}
    assert judged(tests)[0].status == OPEN


def test_a_deviation_is_different_and_has_its_reason() -> None:
    deviations = read_deviations("id\treason\nA-02\twe keep v0\n")
    second = judged(PASSED, deviations)[1]
    assert (second.status, second.evidence) == (DIFFERENT, "we keep v0")


def test_a_deviation_without_a_reason_is_an_error() -> None:
    with pytest.raises(ConformanceError, match="A-02 has no reason"):
        judged(PASSED, {"A-02": ""})


@pytest.mark.parametrize("named", ["mark", "run"])
def test_an_unknown_fact_is_an_error(named: str) -> None:
    marks = {"A-99": PASSED["A-01"]} if named == "mark" else {}
    runs = {"A-99": ON_KAFKA["A-01"]} if named == "run" else {}
    with pytest.raises(ConformanceError, match="A-99"):
        judged(marks, runs=runs)


@pytest.mark.parametrize("runs", [{}, ON_KAFKA])
def test_a_deviation_that_tests_show_is_an_error(runs: dict[str, Run]) -> None:
    with pytest.raises(ConformanceError, match="A-01 is shown"):
        judged(PASSED, {"A-01": "no longer true"}, runs)


def test_a_tested_fact_that_refers_to_a_deviation_is_an_error() -> None:
    third = FIRST._replace(id="A-03", statement="as A-02, and more")
    passed = {"A-03": PASSED["A-01"]}
    with pytest.raises(
        ConformanceError, match="A-03 is tested here and refers to A-02"
    ):
        judged(passed, {"A-02": "we differ"}, facts=(*BOTH, third))
    assert judged({}, {"A-02": "we differ"}, facts=(*BOTH, third))[2].status == OPEN


def test_the_statuses_of_a_written_page_are_parsed_back() -> None:
    page = render_rows("A", judged(PASSED), {"A-02"})
    assert (
        "| A-01 | a \\| b | tested here | 4.3.1 | A.java:1 | - | `test_a.py::test_one`"
    ) in page
    assert "| A-02 | c | open | - | - | yes |  |" in page
    assert statuses(page) == {"A-01": TESTED, "A-02": OPEN}


def test_the_page_counts_statuses_comparisons_and_runs() -> None:
    page = render(judged(PASSED, runs=ON_KAFKA), NO_MUTANTS)
    assert "**2 facts: 1 proven, 0 tested here, 0 different, 1 open.**" in page
    assert "Compared with Kafka 4.3.1, by source or broker: 1 facts" in page
    assert "Not yet compared, without a source: 1." in page
    assert "Choices of Coterie" not in page
    assert "Proven by runs on Kafka 4.3.1: 1." in page
    assert "| A.1 Requirements | 2 | 1 | 0 | 0 | 1 |" in page


def test_the_page_counts_rows_that_have_no_version_of_kafka() -> None:
    own = SECOND._replace(source="KIP-181")
    page = render(judged(PASSED, facts=(FIRST, own)), NO_MUTANTS)
    assert "and fields of KIPs that Kafka lacks: 1." in page
    assert "Not yet compared" not in page


def test_the_page_has_the_shares_of_mutants_killed() -> None:
    figures = "package\tmutants\tkilled\tequivalent\tseed\tdate\n"
    figures += "coordinator\t210\t195\t10\t7\t2026-11-23\n"
    named = ['["A-01, A-03"]\nfile = "a.py"\n', '["A-02"]\nfile = "b.py"\n']
    mutants = read_mutants(figures, named)
    assert mutants.named == {"A-01", "A-02", "A-03"}
    page = render(judged(PASSED), mutants)
    assert "1 of the 1 proven or tested facts have a named mutant" in page
    assert "| coordinator | 210 | 195 | 10 | 97.5 % | 7 | 2026-11-23 |" in page


def test_a_changed_status_makes_the_page_stale() -> None:
    page = render_rows("A", judged({}), ())
    assert stale(page, judged(PASSED), PASSED) == (
        "A-01: the page says open, the tests say tested here",
    )


def test_a_renamed_test_does_not_make_the_page_stale() -> None:
    page = render_rows("A", judged(PASSED), ())
    renamed = {"A-01": {"tests/other.py::name": "passed"}}
    assert stale(page, judged(renamed), renamed) == ()


def test_a_skipped_test_does_not_make_the_page_stale() -> None:
    page = render_rows("A", judged(PASSED), ())
    skipped = {"A-01": {"tests/test_a.py::test_one": "skipped"}}
    assert stale(page, judged(skipped), skipped) == ()


def test_open_facts_of_an_area_are_listed() -> None:
    assert list(missing(judged({}))) == ["A-01\ta | b", "A-02\tc"]
    assert list(missing(judged(PASSED))) == ["A-02\tc"]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A tree with two facts, one of them tested, and no pages yet."""
    header = "id\tsection\tlayer\tstatement\tchecked\tsource\n"
    rows = "".join("\t".join(fact) + "\n" for fact in BOTH)
    (tmp_path / "facts.tsv").write_text(header + rows)
    (tmp_path / "deviations.tsv").write_text("id\treason\n")
    (tmp_path / "runs.tsv").write_text("fact\tkafka\ttests\n")
    (tmp_path / "facts.json").write_text(json.dumps(PASSED))
    monkeypatch.setattr(conformance, "RUNS", tmp_path / "runs.tsv")
    monkeypatch.setattr(conformance, "FACTS", tmp_path / "facts.tsv")
    monkeypatch.setattr(conformance, "DEVIATIONS", tmp_path / "deviations.tsv")
    monkeypatch.setattr(conformance, "PAGE", tmp_path / "page.md")
    monkeypatch.setattr(conformance, "ROWS", tmp_path / "rows")
    return tmp_path


def run(project: Path, *arguments: str) -> int:
    return main(["--results", str(project / "facts.json"), *arguments])


def test_freshly_written_pages_pass_the_check(project: Path) -> None:
    assert run(project, "--check") == 1  # no page has been written
    assert run(project) == 0
    assert run(project, "--check") == 0


def test_the_check_reports_changed_facts_and_the_remedy(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(project)
    (project / "deviations.tsv").write_text("id\treason\nA-02\tours is better\n")
    assert run(project, "--check") == 1
    output = capsys.readouterr().out
    assert "A-02: the page says open, the tests say different" in output
    assert "run\n`make conformance`" in output


def test_contradictory_inputs_exit_with_code_2(
    project: Path,
) -> None:
    (project / "deviations.tsv").write_text("id\treason\nA-01\tnot so\n")
    assert run(project) == 2
