"""Tests of reading outcomes from `go test -json` and JUnit files."""

from __future__ import annotations

import json

from tests.ecosystem.results import Outcome, go_outcomes, junit_outcomes

PASSED, FAILED, SKIPPED = Outcome.PASSED, Outcome.FAILED, Outcome.SKIPPED
PACKAGE = "example.com/mod/kgo"


def events(*pairs: tuple[str, str]) -> list[str]:
    """Return lines of `go test -json`; a pair without a test is of the package."""
    return [
        json.dumps(
            {"Action": action, "Package": PACKAGE, **({"Test": test} if test else {})}
        )
        for test, action in pairs
    ]


def test_go_test_with_cases_counts_as_its_cases() -> None:
    lines = events(
        ("TestA", "run"),
        ("TestA/one", "run"),
        ("TestA/two", "run"),
        ("TestA/one", "pass"),
        ("TestA/two", "skip"),
        ("TestA", "pass"),
        ("", "pass"),
    )
    assert go_outcomes(lines) == {"kgo.TestA/one": PASSED, "kgo.TestA/two": SKIPPED}


def test_go_test_that_fails_by_a_case_counts_once() -> None:
    lines = events(
        ("TestA", "run"),
        ("TestA/one", "run"),
        ("TestA/one", "fail"),
        ("TestA", "fail"),
        ("", "fail"),
    )
    assert go_outcomes(lines) == {"kgo.TestA/one": FAILED}


def test_go_test_that_fails_after_its_cases_counts_beside_them() -> None:
    lines = events(
        ("TestA", "run"), ("TestA/one", "run"), ("TestA/one", "pass"), ("TestA", "fail")
    )
    assert go_outcomes(lines) == {"kgo.TestA": FAILED, "kgo.TestA/one": PASSED}


def test_go_test_without_an_outcome_failed() -> None:
    lines = events(("TestA", "run"), ("TestB", "run"), ("TestA", "pass"))
    assert go_outcomes(lines) == {"kgo.TestA": PASSED, "kgo.TestB": FAILED}


def test_go_package_that_does_not_compile_failed() -> None:
    lines = ["# example.com/mod/kgo", "a.go:1: undefined: b", *events(("", "fail"))]
    assert go_outcomes(lines) == {"kgo.(package)": FAILED}


def test_go_output_of_a_killed_process_is_read_to_its_end() -> None:
    lines = [*events(("TestA", "run"), ("TestA", "pass")), '{"Action":"ru']
    assert go_outcomes(lines) == {"kgo.TestA": PASSED}


def test_junit_names_are_node_ids_of_pytest() -> None:
    text = """<testsuites><testsuite>
      <testcase file="t/test_a.py" classname="t.test_a.TestIt" name="test_one[x/y]"/>
      <testcase file="t/test_a.py" classname="t.test_a" name="test_two">
        <skipped/></testcase>
      <testcase file="t/test_a.py" classname="t.test_a" name="test_three">
        <failure/></testcase>
      <testcase classname="" name="t.test_b"><error/></testcase>
    </testsuite></testsuites>"""
    assert junit_outcomes(text) == {
        "t/test_a.py::TestIt::test_one[x/y]": PASSED,
        "t/test_a.py::test_two": SKIPPED,
        "t/test_a.py::test_three": FAILED,
        "t.test_b": FAILED,
    }


def test_junit_error_after_a_test_passed_is_a_failure() -> None:
    case = '<testcase file="a.py" classname="a" name="test"'
    for cases in (
        f"{case}/>{case}><error/></testcase>",
        f"{case}><error/></testcase>{case}/>",
    ):
        assert junit_outcomes(f"<s>{cases}</s>") == {"a.py::test": FAILED}
