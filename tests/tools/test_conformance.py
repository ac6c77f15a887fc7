"""The conformance page says what the tests say, and notices when it no longer does."""

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
    render,
    stale,
    statuses,
)

FIRST = Fact("A-01", "A.1 Requirements", "S", "a | b")
SECOND = Fact("A-02", "A.1 Requirements", "L", "c")
BOTH = (FIRST, SECOND)
PASSED = {"A-01": {"tests/test_a.py::test_one[x]": "passed"}}


def test_all_814_facts_are_listed_once() -> None:
    facts = read_facts(FACTS.read_text(encoding="utf-8"))
    assert len(facts) == len({fact.id for fact in facts}) == 814
    assert all(fact.statement and fact.section for fact in facts)


def test_every_area_holds_some_facts() -> None:
    facts = read_facts(FACTS.read_text(encoding="utf-8"))
    assert all(any(area.holds(fact) for fact in facts) for area in AREAS)


def test_a_fact_with_passing_tests_is_proven() -> None:
    first, second = judge(BOTH, PASSED, {})
    assert (first.status, first.evidence) == (PROVEN, "`test_a.py::test_one`")
    assert (second.status, second.evidence) == (NOT_YET, "")


@pytest.mark.parametrize("outcome", ["failed", "skipped"])
def test_one_test_that_did_not_pass_spoils_the_proof(outcome: str) -> None:
    tests = {"A-01": {"tests/a.py::one": "passed", "tests/a.py::two": outcome}}
    assert judge(BOTH, tests, {})[0].status == NOT_YET


def test_a_deviation_carries_its_reason() -> None:
    deviations = read_deviations("id\treason\nA-02\twe keep v0\n")
    second = judge(BOTH, PASSED, deviations)[1]
    assert (second.status, second.evidence) == (DEVIATION, "we keep v0")


def test_a_mark_of_no_fact_is_an_error() -> None:
    with pytest.raises(ConformanceError, match="A-99"):
        judge(BOTH, {"A-99": {"tests/a.py::one": "passed"}}, {})


def test_a_deviation_that_tests_prove_is_an_error() -> None:
    with pytest.raises(ConformanceError, match="A-01 is proven"):
        judge(BOTH, PASSED, {"A-01": "no longer true"})


def test_the_page_is_read_back_as_it_was_written() -> None:
    page = render(judge(BOTH, PASSED, {}))
    assert "| A-01 | a \\| b | proven | `test_a.py::test_one` |" in page
    assert statuses(page) == {"A-01": PROVEN, "A-02": NOT_YET}


def test_a_changed_status_makes_the_page_stale() -> None:
    page = render(judge(BOTH, {}, {}))
    assert stale(page, judge(BOTH, PASSED, {}), PASSED) == (
        "A-01: the page says not yet, the tests say proven",
    )


def test_a_renamed_test_does_not_make_the_page_stale() -> None:
    page = render(judge(BOTH, PASSED, {}))
    renamed = {"A-01": {"tests/other.py::name": "passed"}}
    assert stale(page, judge(BOTH, renamed, {}), renamed) == ()


def test_a_skipped_test_does_not_make_the_page_stale() -> None:
    page = render(judge(BOTH, PASSED, {}))
    skipped = {"A-01": {"tests/test_a.py::test_one": "skipped"}}
    assert stale(page, judge(BOTH, skipped, {}), skipped) == ()


def test_what_an_area_lacks_is_listed() -> None:
    assert list(missing(judge(BOTH, {}, {}))) == ["A-01\ta | b", "A-02\tc"]
    assert list(missing(judge(BOTH, PASSED, {}))) == ["A-02\tc"]


@pytest.fixture
def house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A tree with two facts, one of them proven, and no page yet."""
    header = "id\tsection\tlayer\tstatement\n"
    rows = "".join("\t".join(fact) + "\n" for fact in BOTH)
    (tmp_path / "facts.tsv").write_text(header + rows)
    (tmp_path / "deviations.tsv").write_text("id\treason\n")
    (tmp_path / "facts.json").write_text(json.dumps(PASSED))
    monkeypatch.setattr(conformance, "FACTS", tmp_path / "facts.tsv")
    monkeypatch.setattr(conformance, "DEVIATIONS", tmp_path / "deviations.tsv")
    monkeypatch.setattr(conformance, "PAGE", tmp_path / "page.md")
    return tmp_path


def run(house: Path, *arguments: str) -> int:
    return main(["--results", str(house / "facts.json"), *arguments])


def test_the_page_that_was_written_passes_its_check(house: Path) -> None:
    assert run(house, "--check") == 1  # there is none yet
    assert run(house) == 0
    assert run(house, "--check") == 0


def test_the_check_names_what_changed_and_what_to_do(
    house: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(house)
    (house / "deviations.tsv").write_text("id\treason\nA-02\tours is better\n")
    assert run(house, "--check") == 1
    said = capsys.readouterr().out
    assert "A-02: the page says not yet, the tests say deviation" in said
    assert "run\n`make conformance`" in said


def test_inputs_that_contradict_each_other_are_an_exit_code_of_their_own(
    house: Path,
) -> None:
    (house / "deviations.tsv").write_text("id\treason\nA-01\tnot so\n")
    assert run(house) == 2
