"""The conformance pages show the outcomes of the tests, and staleness is reported."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tools import conformance
from tools.conformance import (
    AREAS,
    DEVIATION,
    FACTS,
    NOT_YET,
    PROVEN,
    ConformanceError,
    Fact,
    judge,
    main,
    missing,
    read_deviations,
    read_facts,
    render_rows,
    stale,
    statuses,
)

FIRST = Fact("A-01", "A.1 Requirements", "S", "a | b", "4.3.1", "A.java:1")
SECOND = Fact("A-02", "A.1 Requirements", "L", "c", "-", "-")
BOTH = (FIRST, SECOND)
PASSED = {"A-01": {"tests/test_a.py::test_one[x]": "passed"}}


def test_facts_are_listed_once_and_every_column_is_filled() -> None:
    facts = read_facts(FACTS.read_text(encoding="utf-8"))
    assert len(facts) == len({fact.id for fact in facts}) > 700
    assert all(all(fact) for fact in facts)


def test_every_area_contains_facts() -> None:
    facts = read_facts(FACTS.read_text(encoding="utf-8"))
    assert all(any(area.holds(fact) for fact in facts) for area in AREAS)


def test_a_fact_with_passing_tests_is_proven() -> None:
    first, second = judge(BOTH, PASSED, {})
    assert (first.status, first.evidence) == (PROVEN, "`test_a.py::test_one`")
    assert (second.status, second.evidence) == (NOT_YET, "")


@pytest.mark.parametrize("outcome", ["failed", "skipped"])
def test_a_fact_with_a_test_that_did_not_pass_is_not_proven(outcome: str) -> None:
    tests = {"A-01": {"tests/a.py::one": "passed", "tests/a.py::two": outcome}}
    assert judge(BOTH, tests, {})[0].status == NOT_YET


def test_a_deviation_has_its_reason() -> None:
    deviations = read_deviations("id\treason\nA-02\twe keep v0\n")
    second = judge(BOTH, PASSED, deviations)[1]
    assert (second.status, second.evidence) == (DEVIATION, "we keep v0")


def test_a_mark_of_an_unknown_fact_is_an_error() -> None:
    with pytest.raises(ConformanceError, match="A-99"):
        judge(BOTH, {"A-99": {"tests/a.py::one": "passed"}}, {})


def test_a_deviation_that_tests_prove_is_an_error() -> None:
    with pytest.raises(ConformanceError, match="A-01 is proven"):
        judge(BOTH, PASSED, {"A-01": "no longer true"})


def test_the_statuses_of_a_written_page_are_parsed_back() -> None:
    page = render_rows("A", judge(BOTH, PASSED, {}))
    assert "| A-01 | a \\| b | proven | `test_a.py::test_one` |" in page
    assert statuses(page) == {"A-01": PROVEN, "A-02": NOT_YET}


def test_a_changed_status_makes_the_page_stale() -> None:
    page = render_rows("A", judge(BOTH, {}, {}))
    assert stale(page, judge(BOTH, PASSED, {}), PASSED) == (
        "A-01: the page says not yet, the tests say proven",
    )


def test_a_renamed_test_does_not_make_the_page_stale() -> None:
    page = render_rows("A", judge(BOTH, PASSED, {}))
    renamed = {"A-01": {"tests/other.py::name": "passed"}}
    assert stale(page, judge(BOTH, renamed, {}), renamed) == ()


def test_a_skipped_test_does_not_make_the_page_stale() -> None:
    page = render_rows("A", judge(BOTH, PASSED, {}))
    skipped = {"A-01": {"tests/test_a.py::test_one": "skipped"}}
    assert stale(page, judge(BOTH, skipped, {}), skipped) == ()


def test_unproven_facts_of_an_area_are_listed() -> None:
    assert list(missing(judge(BOTH, {}, {}))) == ["A-01\ta | b", "A-02\tc"]
    assert list(missing(judge(BOTH, PASSED, {}))) == ["A-02\tc"]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A tree with two facts, one of them proven, and no pages yet."""
    header = "id\tsection\tlayer\tstatement\tchecked\tsource\n"
    rows = "".join("\t".join(fact) + "\n" for fact in BOTH)
    (tmp_path / "facts.tsv").write_text(header + rows)
    (tmp_path / "deviations.tsv").write_text("id\treason\n")
    (tmp_path / "facts.json").write_text(json.dumps(PASSED))
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
    assert "A-02: the page says not yet, the tests say deviation" in output
    assert "run\n`make conformance`" in output


def test_contradictory_inputs_exit_with_code_2(
    project: Path,
) -> None:
    (project / "deviations.tsv").write_text("id\treason\nA-01\tnot so\n")
    assert run(project) == 2
