"""Each rule of tools.tidy reports violations of it, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import tidy
from tools.sources import Finding, Source, read_sources
from tools.tidy import (
    ASSERTIONS_MIN,
    ONE_IMPORTER_MAX,
    assertion_density,
    assertions,
    decisions_listed,
    find,
    links_resolve,
    main,
    mirrored_tests,
    module_structure,
)

PURE_PATH = "src/coterie/broker/coordinator/a.py"
SHELL_PATH = "src/coterie/broker/runtime/a.py"


def rules_broken(path: str, text: str) -> list[tuple[int, str]]:
    """Return line and rule of each finding in one file."""
    findings = find([Source(path, text)])
    return [(each.line, each.rule) for each in findings if each.path == path]


def test_a_finding_is_printed_with_file_line_rule_and_advice() -> None:
    finding = Finding("a.py", 3, "leftover", "do it")
    assert str(finding) == "a.py:3: leftover: do it"


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
def test_a_pure_package_must_not_import_clocks_or_randomness(
    path: str, text: str
) -> None:
    rules = {rule for _, rule in rules_broken(path, text)}
    assert rules == {"pure package"}


@pytest.mark.parametrize(
    "text",
    [
        "from datetime import datetime",
        "import json\njson.time.sleep(1)",
        "from coterie.broker.coordinator import time_of",
        "random = 3\nrandom.now()",
    ],
)
def test_a_name_that_only_resembles_a_banned_one_is_accepted(text: str) -> None:
    assert rules_broken(PURE_PATH, text) == []


def test_impure_packages_may_use_the_clock() -> None:
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


def test_a_unit_test_may_yield_to_the_event_loop() -> None:
    text = "import asyncio\nasync def f(): await asyncio.sleep(0)"
    assert rules_broken("tests/wire/test_a.py", text) == []


def test_a_test_of_real_clients_may_wait() -> None:
    text = "import time\ntime.sleep(1)"
    assert rules_broken("tests/real_clients/test_a.py", text) == []


@pytest.mark.parametrize(
    "path", ["/" + "tmp/data", "/" + "work/main", "/" + "root/.cache"]
)
def test_a_path_of_one_machine_is_reported(path: str) -> None:
    assert rules_broken("README.md", f"see {path}") == [(1, "machine path")]


@pytest.mark.parametrize(
    ("call", "is_refused"),
    [
        ("p.read_text()", True),
        ('p.read_text(errors="replace")', True),
        ('p.read_text("utf-8")', False),
        ("p.write_text(t)", True),
        ('p.write_text(t, encoding="utf-8")', False),
        ("open(p)", True),
        ('open("w")', True),
        ('open(p, "rb")', False),
        ('open(p, mode="a")', True),
        ('p.open("w")', True),
        ('p.open("wb")', False),
        ('tarfile.open(fileobj=f, mode="w")', False),
        ("lake.open(path)", False),
    ],
)
def test_a_text_file_without_its_encoding_is_reported(
    call: str, is_refused: bool
) -> None:
    for path in (SHELL_PATH, "examples/a.py", "tools/a.py"):
        assert rules_broken(path, call) == [(1, "text encoding")] * is_refused
    assert rules_broken("tests/test_a.py", call) == []


def test_a_relative_path_is_no_machine_path() -> None:
    assert rules_broken("README.md", "see docs/work/tmp and ./tmp/a") == []


def test_a_decision_must_be_in_the_index() -> None:
    decision = Source("docs/decisions/0001-codec.md", "# Codec")
    listing = Source("ARCHITECTURE.md", "- docs/decisions/0001-codec.md")
    assert [each.path for each in decisions_listed([decision])] == [decision.path]
    assert list(decisions_listed([decision, listing])) == []


def test_a_link_to_a_missing_file_is_reported() -> None:
    page = Source(
        "docs/a.md",
        "see [b](b.md#top), [top](../README.md) and\n"
        "[web](https://example.org), [c](c.md)",
    )
    present = [Source("docs/b.md", ""), Source("README.md", "")]
    findings = list(links_resolve([page, *present]))
    assert [(each.line, each.advice) for each in findings] == [(2, "c.md is missing")]


def test_assertions_are_counted_per_function() -> None:
    text = "def f():\n    assert 1\n    assert 2\ndef g(): return 1\n"
    assert assertion_density([Source(PURE_PATH, text)]) == 1.0


def test_a_function_without_a_body_needs_no_assertion() -> None:
    text = 'def f():\n    """Return it."""\ndef g(): ...\ndef h():\n    assert 1\n'
    assert assertion_density([Source(PURE_PATH, text)]) == 1.0


def test_too_few_assertions_in_a_stateful_package_are_reported() -> None:
    source = Source("src/coterie/broker/log/a.py", "def f(): return 1\n")
    assert assertion_density([source]) < ASSERTIONS_MIN
    assert [each.path for each in assertions([source])] == ["src/coterie/broker/log"]


def test_source_files_are_read_and_generated_files_are_not(tmp_path: Path) -> None:
    kept = ["README.md", "src/coterie/a.py", ".ci/run"]
    left = [".venv/lib/a.py", "build/a.txt", "tests/__pycache__/a.py", "docs/a.png"]
    for name in (*kept, *left):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("a")
    assert sorted(each.path for each in read_sources(tmp_path)) == sorted(kept)


def test_a_finding_is_printed_and_fails_the_check(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(tidy, "read_sources", lambda: read_sources(tmp_path))
    assert main() == 0
    path = tmp_path / "src/coterie/wire/a.py"
    path.parent.mkdir(parents=True)
    path.write_text("import time\n")
    assert main() == 1
    assert "src/coterie/wire/a.py:1: pure package" in capsys.readouterr().out


def test_an_import_circle_is_reported() -> None:
    first = Source("src/coterie/wire/a.py", "from coterie.wire import b\n")
    second = Source("src/coterie/wire/b.py", "from coterie.wire.a import c\n")
    findings = list(module_structure([first, second]))
    assert [(each.path, each.rule) for each in findings] == [
        (first.path, "import circle")
    ]


def test_two_classes_of_one_name_in_a_package_are_reported() -> None:
    first = Source("src/coterie/wire/a.py", "class A: ...\n")
    second = Source("src/coterie/wire/b.py", "class A: ...\n")
    elsewhere = Source("src/coterie/auth/b.py", "class A: ...\n")
    findings = list(module_structure([first, second, elsewhere]))
    assert [(each.path, each.rule) for each in findings] == [
        (first.path, "duplicate class")
    ]


def test_small_modules_with_one_importer_are_reported_beyond_the_limit() -> None:
    small = [
        Source(f"src/coterie/wire/m{number}.py", "a = 1\n")
        for number in range(ONE_IMPORTER_MAX + 1)
    ]
    lines = "".join(
        f"from coterie.wire.m{number} import a\n" for number in range(len(small))
    )
    importer = Source("src/coterie/auth/all.py", lines)
    findings = list(module_structure([*small, importer]))
    assert {each.rule for each in findings} == {"one importer"}
    assert len(findings) == len(small)
    fewer = [*small[1:], importer]
    assert list(module_structure(fewer)) == []


@pytest.mark.parametrize(
    "path",
    [
        "tests/wire/test_api.py",
        "tests/wire/test_api_versions.py",
        "tests/wire/api/test_anything.py",
        "tests/wire/test_messages.py",
        "tests/wire/test_wire_formats.py",
        "tests/crash/test_kill.py",
    ],
)
def test_tests_named_after_a_module_are_accepted(path: str) -> None:
    sources = [
        Source("src/coterie/wire/api.py", ""),
        Source("src/coterie/wire/messages/fetch.py", ""),
        Source(path, ""),
    ]
    assert list(mirrored_tests(sources)) == []


def test_tests_named_after_no_module_are_reported() -> None:
    test = Source("tests/wire/test_other.py", "")
    findings = list(mirrored_tests([Source("src/coterie/wire/api.py", ""), test]))
    assert [(each.path, each.rule) for each in findings] == [
        (test.path, "tests mirror src")
    ]
