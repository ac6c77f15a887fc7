"""Each house rule finds what breaks it, says where, and lets the rest alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import tidy
from tools.tidy import (
    ASSERTIONS_MIN,
    FILE_LINES_MAX,
    FUNCTION_LINES_MAX,
    Finding,
    Source,
    assertion_density,
    assertions,
    decisions_listed,
    find,
    leftovers,
    links_lead_somewhere,
    main,
    read_sources,
)

PURE_PATH = "src/coterie/coordinator/a.py"
SHELL_PATH = "src/coterie/runtime/a.py"


def rules_broken(path: str, text: str) -> list[tuple[int, str]]:
    """Line and rule of what one file breaks by itself."""
    findings = find([Source(path, text)])
    return [(each.line, each.rule) for each in findings if each.path == path]


def test_a_finding_reads_as_file_line_rule_and_advice() -> None:
    finding = Finding("a.py", 3, "leftover", "do it")
    assert str(finding) == "a.py:3: leftover: do it"


def test_a_file_may_have_500_lines_and_no_more() -> None:
    line = "a = 1\n"
    assert rules_broken(SHELL_PATH, line * FILE_LINES_MAX) == []
    assert rules_broken(SHELL_PATH, line * (FILE_LINES_MAX + 1)) == [
        (501, "file length")
    ]


def test_a_function_may_have_70_lines_and_no_more() -> None:
    body = "    a = 1\n"
    fits = "def f():\n" + body * (FUNCTION_LINES_MAX - 1)
    assert rules_broken(SHELL_PATH, fits) == []
    assert rules_broken(SHELL_PATH, fits + body) == [(1, "function length")]


def test_a_method_may_take_six_parameters_beside_self() -> None:
    fits = "class A:\n    def f(self, a, b, c, *, d, e, f): ...\n"
    assert rules_broken(SHELL_PATH, fits) == []
    over = fits.replace("f):", "f, **g):")
    assert rules_broken(SHELL_PATH, over) == [(2, "parameters")]


def test_fixtures_of_a_test_are_not_counted() -> None:
    assert rules_broken("tests/test_a.py", "def test(a, b, c, d, e, f, g): ...") == []


@pytest.mark.parametrize(
    "text",
    [
        "import time",
        "from time import monotonic",
        "import asyncio.events as events",
        "from random import Random",
        "import os, uuid",
        "from secrets import token_hex as fresh",
        "import datetime\nnow = datetime.datetime.now()",
        "import datetime as dt\nnow = dt.datetime.now()",
        "from datetime import datetime as when\nnow = when.now()",
    ],
)
@pytest.mark.parametrize("path", [PURE_PATH, "src/coterie/types.py"])
def test_a_pure_package_reaches_no_clock_and_no_chance(path: str, text: str) -> None:
    rules = {rule for _, rule in rules_broken(path, text)}
    assert rules == {"pure package"}


@pytest.mark.parametrize(
    "text",
    [
        "from datetime import datetime",
        "import json\njson.time.sleep(1)",
        "from coterie.coordinator import time_of",
        "random = 3\nrandom.now()",
    ],
)
def test_a_name_that_only_looks_banned_is_let_alone(text: str) -> None:
    assert rules_broken(PURE_PATH, text) == []


def test_the_shell_may_use_the_clock() -> None:
    assert rules_broken(SHELL_PATH, "import asyncio, time\ntime.monotonic()") == []


@pytest.mark.parametrize(
    "text",
    [
        "import time\ntime.sleep(1)",
        "from time import sleep",
        "import asyncio\nasync def f(): await asyncio.sleep(1)",
    ],
)
def test_a_unit_test_does_not_sleep(text: str) -> None:
    rules = {rule for _, rule in rules_broken("tests/wire/test_a.py", text)}
    assert rules == {"no sleep in a unit test"}


def test_a_unit_test_may_let_the_loop_turn() -> None:
    text = "import asyncio\nasync def f(): await asyncio.sleep(0)"
    assert rules_broken("tests/wire/test_a.py", text) == []


def test_a_test_of_real_clients_may_wait() -> None:
    text = "import time\ntime.sleep(1)"
    assert rules_broken("tests/clients/test_a.py", text) == []


@pytest.mark.parametrize("word", ["TO" + "DO", "FIX" + "ME"])
def test_leftovers_are_found_in_any_text(word: str) -> None:
    source = Source("docs/a.md", f"one\n- {word}: later\n")
    assert [each.line for each in leftovers(source)] == [2]


@pytest.mark.parametrize(
    "path", ["/" + "tmp/data", "/" + "work/main", "/" + "root/.cache"]
)
def test_a_path_of_one_machine_is_found(path: str) -> None:
    assert rules_broken("README.md", f"see {path}") == [(1, "machine path")]


def test_a_relative_path_is_no_machine_path() -> None:
    assert rules_broken("README.md", "see docs/work/tmp and ./tmp/a") == []


def test_a_decision_has_to_be_listed() -> None:
    decision = Source("docs/decisions/0001-codec.md", "# Codec")
    listing = Source("ARCHITECTURE.md", "- docs/decisions/0001-codec.md")
    assert [each.path for each in decisions_listed([decision])] == [decision.path]
    assert list(decisions_listed([decision, listing])) == []


def test_a_link_to_a_file_that_is_not_there_is_found() -> None:
    page = Source(
        "docs/a.md",
        "see [b](b.md#top), [top](../README.md) and\n"
        "[web](https://example.org), [c](c.md)",
    )
    there = [Source("docs/b.md", ""), Source("README.md", "")]
    findings = list(links_lead_somewhere([page, *there]))
    assert [(each.line, each.advice) for each in findings] == [(2, "c.md is not there")]


def test_assertions_are_counted_a_function() -> None:
    text = "def f():\n    assert 1\n    assert 2\ndef g(): return 1\n"
    assert assertion_density([Source(PURE_PATH, text)]) == 1.0


def test_a_function_that_does_nothing_needs_no_assertion() -> None:
    text = 'def f():\n    """Says it."""\ndef g(): ...\ndef h():\n    assert 1\n'
    assert assertion_density([Source(PURE_PATH, text)]) == 1.0


def test_too_few_assertions_in_a_package_of_state_are_found() -> None:
    source = Source("src/coterie/log/a.py", "def f(): return 1\n")
    assert assertion_density([source]) < ASSERTIONS_MIN
    assert [each.path for each in assertions([source])] == ["src/coterie/log"]


def test_what_people_write_is_read_and_what_tools_make_is_not(tmp_path: Path) -> None:
    kept = ["README.md", "src/coterie/a.py", ".ci/run"]
    left = [".venv/lib/a.py", "build/a.txt", "tests/__pycache__/a.py", "docs/a.png"]
    for name in (*kept, *left):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("a")
    assert sorted(each.path for each in read_sources(tmp_path)) == sorted(kept)


def test_the_check_fails_on_a_finding_and_prints_it(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(tidy, "ROOT", tmp_path)
    assert main() == 0
    path = tmp_path / "src/coterie/wire/a.py"
    path.parent.mkdir(parents=True)
    path.write_text("import time\n")
    assert main() == 1
    assert "src/coterie/wire/a.py:1: pure package" in capsys.readouterr().out
