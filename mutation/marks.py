"""Find the tests that carry the mark of a fact."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from mutation.sandbox import ROOT, own_sandbox

TESTS: Final = ROOT / "tests"
ID: Final = re.compile(r"\b[A-K]\d*-\d+[a-z]?\b")
TEXT: Final = frozenset({".py", ".txt", ".tsv", ".toml"})
PROCESS_TESTS: Final = ("tests/real_clients/", "tests/crash/", "tests/interop/test_")
"""Tests of whole processes: they run only for facts that no other test carries."""
COLLECTION_S: Final = 300.0


@dataclass(slots=True, eq=False)
class Collector:
    """A pytest plugin: records the facts of each collected test."""

    facts: dict[str, list[str]] = field(default_factory=dict)

    def pytest_collection_finish(self, session: Any) -> None:
        for item in session.items:
            marks = item.iter_markers("fact")
            if ids := sorted({fact for mark in marks for fact in mark.args}):
                self.facts[item.nodeid] = ids

    def result(self) -> Any:
        """Return the facts of each test."""
        return self.facts


def mentioned(root: Path = TESTS) -> dict[str, set[str]]:
    """Return the test files that may carry the mark of each fact, from their text.

    A file of data or a module with a table of cases counts for the test files beside
    it.
    """
    files: dict[str, set[str]] = {}
    for path in sorted(root.rglob("*")):
        if path.suffix not in TEXT or "__pycache__" in path.parts:
            continue
        is_test = path.name.startswith("test_") and path.suffix == ".py"
        beside = [path] if is_test else path.parent.glob("test_*.py")
        names = {each.relative_to(root.parent).as_posix() for each in beside}
        tests = {name for name in names if "/test_" in name}
        for fact in set(ID.findall(path.read_text(encoding="utf-8"))):
            files.setdefault(fact, set()).update(tests)
    return files


def files_to_collect(facts: Collection[str]) -> list[str]:
    """Return the test files that may carry the marks of these facts."""
    where = mentioned()
    return sorted({file for fact in facts for file in where.get(fact, ())})


def collect(files: list[str]) -> dict[str, list[str]]:
    """Return the facts of each test in these files; run in a process of the pool.

    Raises:
        RuntimeError: pytest cannot collect the files.
    """
    plugin = Collector()
    ended = own_sandbox().pytest(["--collect-only", *files], plugin, COLLECTION_S)
    if ended is None or ended[0]:
        raise RuntimeError(f"pytest cannot collect the tests: {ended and ended[2]}")
    facts: dict[str, list[str]] = ended[1]
    return facts


def group_by_fact(marks: dict[str, list[str]]) -> dict[str, list[str]]:
    """Return the tests to run for each fact, those of whole processes only when there
    is no other.
    """
    tests: dict[str, list[str]] = {}
    for test, facts in marks.items():
        for fact in facts:
            tests.setdefault(fact, []).append(test)
    return {
        fact: [each for each in those if not each.startswith(PROCESS_TESTS)] or those
        for fact, those in tests.items()
    }
