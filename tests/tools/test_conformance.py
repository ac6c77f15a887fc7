"""The conformance page has the status of each fact, by the marks of the tests."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from tools.conformance import (
    DIFFERENT,
    FACTS,
    MUTANTS,
    OPEN,
    PAGE,
    PROVEN,
    SUBJECTS,
    TESTED,
    ConformanceError,
    Fact,
    Marks,
    Row,
    judge,
    read_deviations,
    read_facts,
    read_marks,
    read_rows,
    render,
    render_rows,
)

FIRST = Fact("A-01", "A.2 Wire format", "S", "a | b", "4.3.1", "A.java:1")
SECOND = Fact("A-02", "A.2 Wire format", "L", "c", "-", "-")
BOTH = (FIRST, SECOND)
HERE = {"A-01": {"test_a.py::test_one": False}}
ON_KAFKA = {"A-01": {"interop/test_b.py::test_two": True, **HERE["A-01"]}}
SOURCE = re.compile(
    r"-|exchange|Coterie|(KIP|KAFKA)-\d+|([\w-]+/)*\w+\.(java|scala|json)(:\d+)?"
)


def judged(
    marks: Marks,
    deviations: Mapping[str, str] | None = None,
    facts: tuple[Fact, ...] = BOTH,
) -> tuple[Row, ...]:
    return judge(facts, marks, deviations or {})


def test_facts_are_listed_once_and_every_column_is_filled() -> None:
    facts = read_facts(FACTS.read_text(encoding="utf-8"))
    assert len(facts) == len({fact.id for fact in facts}) > 700
    assert all(all(fact) for fact in facts)


def test_every_compared_statement_has_a_source() -> None:
    facts = read_facts(FACTS.read_text(encoding="utf-8"))
    assert [fact.id for fact in facts if not SOURCE.fullmatch(fact.source)] == []
    compared = [fact for fact in facts if fact.checked != "-"]
    assert [fact.id for fact in compared if fact.source == "-"] == []


def test_every_fact_has_one_subject() -> None:
    facts = read_facts(FACTS.read_text(encoding="utf-8"))
    subjects = {
        fact.id: [each.name for each in SUBJECTS if each.holds(fact)] for fact in facts
    }
    assert {fact: some for fact, some in subjects.items() if len(some) != 1} == {}


@pytest.mark.slow  # it reads all tests
def test_the_page_is_up_to_date() -> None:
    page = render(read_rows(), MUTANTS.read_text(encoding="utf-8"))
    assert PAGE.read_text(encoding="utf-8") == page, "run `make conformance`"


def test_marks_are_read_from_tests_and_scenarios(tmp_path: Path) -> None:
    tests = tmp_path / "tests"
    for name, text in {
        "test_a.py": '@pytest.mark.fact("A-01", "A-02")\ndef test_one(): pass\n',
        "interop/test_b.py": 'def test_two(): pytest.param(marks=mark.fact("A-01"))\n',
        "scenarios/c.txt": "== A-02 A title\nm joins\n== A-03 B\nonly shard: why\n",
    }.items():
        (tests / name).parent.mkdir(parents=True, exist_ok=True)
        (tests / name).write_text(text)
    assert read_marks(tests) == {
        "A-01": {"test_a.py::test_one": False, "interop/test_b.py::test_two": True},
        "A-02": {"test_a.py::test_one": False, "scenarios/c.txt": True},
        "A-03": {"scenarios/c.txt": False},
    }


def test_a_fact_with_tests_is_tested_here_or_proven() -> None:
    first, second = judged(HERE)
    assert (first.status, first.evidence) == (TESTED, "`test_a.py::test_one`")
    assert (second.status, second.evidence) == (OPEN, "")
    first = judged(ON_KAFKA)[0]
    assert first.status == PROVEN
    assert first.evidence == "`interop/test_b.py::test_two`, `test_a.py::test_one`"


def test_a_deviation_is_different_and_has_its_reason() -> None:
    deviations = read_deviations("id\treason\nA-02\twe keep v0\n")
    second = judged(HERE, deviations)[1]
    assert (second.status, second.evidence) == (DIFFERENT, "we keep v0")
    with pytest.raises(ConformanceError, match="A-02 has no reason"):
        judged(HERE, {"A-02": ""})


def test_an_unknown_fact_is_an_error() -> None:
    with pytest.raises(ConformanceError, match="A-99"):
        judged({"A-99": HERE["A-01"]})


def test_a_deviation_that_tests_show_is_an_error() -> None:
    with pytest.raises(ConformanceError, match="A-01 is shown"):
        judged(HERE, {"A-01": "no longer true"})


def test_a_tested_fact_that_refers_to_a_deviation_is_an_error() -> None:
    third = FIRST._replace(id="A-03", statement="as A-02, and more")
    facts = (*BOTH, third)
    with pytest.raises(
        ConformanceError, match="A-03 is tested here and refers to A-02"
    ):
        judged({"A-03": HERE["A-01"]}, {"A-02": "we differ"}, facts)
    assert judged({}, {"A-02": "we differ"}, facts)[2].status == OPEN


def test_the_page_counts_statuses_and_lists_gaps() -> None:
    page = render(judged(ON_KAFKA), "package\tmutants\nbroker\t3\n")
    assert "**2 facts: 1 proven, 0 tested here, 0 different, 1 open.**" in page
    assert "| OffsetFetch: KIP-88 | 2 | 1 |  |  | 1 | `" in page
    assert "- **A-02** open. c *no test shows it*" in page
    assert "| broker | 3 |" in page


def test_the_site_has_the_tests_of_each_fact() -> None:
    page = render_rows("A", judged(HERE))
    assert (
        "| A-01 | a &#124; b | tested here | 4.3.1 | A.java:1 | `test_a.py::test_one` |"
    ) in page
