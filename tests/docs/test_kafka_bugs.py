"""The page of Kafka's bugs and the tests that play them name the same bugs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROW = re.compile(r"^\| ([A-Z]+-\d+) \| [^|]+ \| `([^`]+)` \|$", re.MULTILINE)
ROWS = ROW.findall((ROOT / "docs" / "kafka-bugs.md").read_text(encoding="utf-8"))
TITLE = re.compile(r"^== .*", re.MULTILINE)
MARK = re.compile(r"@pytest\.mark\.bug\(([^)]*)\)")
ID = re.compile(r"\b[A-Z]{4,}-\d+")


def played_in(path: Path) -> set[str]:
    """Return the bugs in titles of scenarios or in marks of tests."""
    text = path.read_text(encoding="utf-8")
    named = (TITLE if path.suffix == ".txt" else MARK).findall(text)
    return {bug for each in named for bug in ID.findall(each)}


@pytest.mark.parametrize(("bug", "test"), ROWS)
def test_the_named_test_plays_the_bug(bug: str, test: str) -> None:
    assert bug in played_in(ROOT / "tests" / test)


def test_every_bug_that_is_played_is_on_the_page() -> None:
    tests = ROOT / "tests"
    paths = [*tests.glob("scenarios/*.txt"), *tests.rglob("test_*.py")]
    assert {bug for path in paths for bug in played_in(path)} == {
        bug for bug, _ in ROWS
    }
