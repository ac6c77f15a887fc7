"""Tests of the list of known failures and of a run compared with it."""

from __future__ import annotations

import pytest

from tests.ecosystem.known import KNOWN, Known, judge, read_known
from tests.ecosystem.results import Outcome
from tests.ecosystem.suites import SUITES

HEADER = "suite\ttest\tfails\treason\n"
PASSED, FAILED, SKIPPED = Outcome.PASSED, Outcome.FAILED, Outcome.SKIPPED


def row(test: str, when: str = "always") -> Known:
    """Return a row of the suite `kgo`."""
    return Known("kgo", test, when, "a reason")


def test_every_listed_failure_is_of_a_suite() -> None:
    rows = read_known(KNOWN.read_text(encoding="utf-8"))
    assert {each.suite for each in rows} <= set(SUITES)


@pytest.mark.parametrize(
    "text",
    [
        "kgo\tA\talways\treason\n",
        HEADER + "kgo\tA\talways\n",
        HEADER + "kgo\tA\tnever\treason\n",
        HEADER + "kgo\t\talways\treason\n",
        HEADER + "kgo\tA\talways\treason\nkgo\tA\tsometimes\treason\n",
    ],
    ids=["no header", "three cells", "another word", "no test", "twice"],
)
def test_a_list_with_a_wrong_line_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"line|listed twice"):
        read_known(text)


def test_listed_failures_are_expected() -> None:
    verdict = judge({"A": PASSED, "B": FAILED, "C": SKIPPED}, [row("B")])
    assert verdict.is_expected
    assert (verdict.passed, verdict.skipped) == (1, 1)
    assert verdict.as_known == ["B"]


def test_a_failure_that_is_not_listed_is_not_expected() -> None:
    verdict = judge({"A": PASSED, "B": FAILED}, [])
    assert not verdict.is_expected
    assert verdict.unknown == ["B"]


@pytest.mark.parametrize("outcome", [PASSED, SKIPPED])
def test_a_listed_test_that_did_not_fail_is_not_expected(outcome: Outcome) -> None:
    verdict = judge({"A": PASSED, "B": outcome}, [row("B")])
    assert not verdict.is_expected
    assert verdict.out_of_date == ["B"]


@pytest.mark.parametrize("outcome", [PASSED, FAILED])
def test_a_test_that_fails_sometimes_may_do_either(outcome: Outcome) -> None:
    assert judge({"A": PASSED, "B": outcome}, [row("B", "sometimes")]).is_expected


def test_a_star_stands_for_all_tests_that_begin_so() -> None:
    verdict = judge({"A": PASSED, "B/1": FAILED, "B/2": FAILED}, [row("B/*")])
    assert verdict.is_expected
    assert verdict.as_known == ["B/1", "B/2"]


def test_tests_that_cannot_run_are_counted_and_not_missed() -> None:
    verdict = judge({"A": PASSED}, [row("B", "cannot run")])
    assert verdict.is_expected
    assert verdict.cannot_run == 1


def test_a_test_that_cannot_run_and_failed_is_not_expected() -> None:
    verdict = judge({"A": PASSED, "B": FAILED}, [row("B", "cannot run")])
    assert verdict.unknown == ["B"]


def test_a_run_in_which_nothing_passed_is_not_expected() -> None:
    assert not judge({"A": FAILED}, [row("A")]).is_expected
