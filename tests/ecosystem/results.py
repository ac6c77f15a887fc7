"""Outcomes of tests, read from the output of `go test -json` and of pytest's JUnit XML.

Both are mappings from a test's id to its outcome. The id of a Go test is
`PACKAGE.TestName/case`, with the last part of the package's import path; that of a
Python test is the node id of pytest.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Final
from xml.etree import ElementTree as ET

PACKAGE_FAILED: Final = "(package)"
"""Stands for a Go package that failed without a failed test, as by a compiler error."""


class Outcome(StrEnum):
    """The outcome of one test."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"


_OF_ACTION: Final = {
    "pass": Outcome.PASSED,
    "fail": Outcome.FAILED,
    "skip": Outcome.SKIPPED,
}


def go_outcomes(lines: Iterable[str]) -> dict[str, Outcome]:
    """Return the outcomes of the tests of `go test -json`.

    A test with cases counts as its cases, unless it failed and none of them did. A test
    that began and has no outcome failed: its package panicked or ran out of time.
    """
    tests: dict[str, Outcome] = {}
    packages: dict[str, Outcome] = {}
    for line in lines:
        event = _event(line)
        action = event.get("Action", "")
        package = event.get("Package", "").rpartition("/")[2]
        if "Test" not in event:
            if action in _OF_ACTION:
                packages[package] = _OF_ACTION[action]
            continue
        name = f"{package}.{event['Test']}"
        if action == "run":
            tests[name] = Outcome.FAILED
        elif action in _OF_ACTION:
            tests[name] = _OF_ACTION[action]
    failed = {name for name, outcome in tests.items() if outcome is Outcome.FAILED}
    parents = _parents(tests)
    counted = {
        name: outcome
        for name, outcome in tests.items()
        if name not in parents or (name in failed and name not in _parents(failed))
    }
    for package, outcome in packages.items():
        prefix = f"{package}."
        if outcome is Outcome.FAILED and not any(
            name.startswith(prefix) for name in failed
        ):
            counted[prefix + PACKAGE_FAILED] = Outcome.FAILED
    return counted


def junit_outcomes(text: str) -> dict[str, Outcome]:
    """Return the outcomes of the tests of a JUnit file that pytest wrote as xunit1.

    A test that passed and failed at its end, as in a fixture, failed.
    """
    outcomes: dict[str, Outcome] = {}
    for case in ET.fromstring(text).iter("testcase"):
        name = _node_id(case.attrib)
        if case.find("failure") is not None or case.find("error") is not None:
            outcomes[name] = Outcome.FAILED
        elif name not in outcomes:
            skipped = case.find("skipped") is not None
            outcomes[name] = Outcome.SKIPPED if skipped else Outcome.PASSED
    return outcomes


def _event(line: str) -> dict[str, str]:
    """Return an event of `go test -json`; the compiler's lines are none."""
    if not line.startswith("{"):
        return {}
    try:
        event = json.loads(line)
    except json.JSONDecodeError:  # the last line of a process that was killed
        return {}
    return event if isinstance(event, dict) else {}


def _parents(tests: Iterable[str]) -> set[str]:
    """Return the names of all tests that have one of these tests as a case."""
    parents = set()
    for name in tests:
        parts = name.split("/")
        parents |= {"/".join(parts[:size]) for size in range(1, len(parts))}
    return parents


def _node_id(case: Mapping[str, str]) -> str:
    """Return pytest's node id of a test case.

    An error of collection has neither a file nor a class; its name is the module.
    """
    file, classes, name = case.get("file", ""), case.get("classname", ""), case["name"]
    if not file:
        return "::".join(filter(None, (classes, name)))
    module = file.removesuffix(".py").replace("/", ".")
    inner = classes.removeprefix(module).strip(".")
    return "::".join((file, *filter(None, inner.split(".")), name))
