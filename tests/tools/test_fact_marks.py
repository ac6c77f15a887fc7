"""The results file holds every fact mark and its outcome, with and without xdist."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
OUTCOMES = """
import pytest

@pytest.mark.fact("A-10", "A-11")
def test_passes(): pass

@pytest.mark.fact("A-11")
@pytest.mark.parametrize("wrong", [True, False])
def test_may_fail(wrong): assert not wrong

@pytest.mark.fact("A-12")
def test_is_skipped(): pytest.skip("not here")

@pytest.fixture
def broken():
    yield
    raise ValueError

@pytest.mark.fact("A-13")
def test_breaks_after_its_call(broken): pass
"""

OPTIONS = """
[tool.pytest.ini_options]
testpaths = ["tests"]
markers = ["fact: x", "slow: x"]
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A small separate project with the conftest and the facts of this one."""
    (tmp_path / "tests").mkdir()
    (tmp_path / "docs").mkdir()
    shutil.copy(ROOT / "tests" / "conftest.py", tmp_path / "tests")
    (tmp_path / "tests" / "support").mkdir()
    for name in ("compiled.py", "environment.py", "hangs.py", "kafka_python.py"):
        shutil.copy(ROOT / "tests" / "support" / name, tmp_path / "tests" / "support")
    shutil.copy(ROOT / "docs" / "facts.tsv", tmp_path / "docs")
    (tmp_path / "pyproject.toml").write_text(OPTIONS)
    return tmp_path


def run_pytest(project: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pytest", "--fact-results=out.json", *arguments],
        cwd=project,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.mark.slow
@pytest.mark.parametrize("processes", ["0", "2"])
def test_outcomes_are_collected_in_any_number_of_processes(
    project: Path, processes: str
) -> None:
    (project / "tests" / "test_some.py").write_text(OUTCOMES)
    run_pytest(project, "-n", processes)
    name = "tests/test_some.py::"
    assert json.loads((project / "out.json").read_text()) == {
        "A-10": {f"{name}test_passes": "passed"},
        "A-11": {
            f"{name}test_passes": "passed",
            f"{name}test_may_fail[True]": "failed",
            f"{name}test_may_fail[False]": "passed",
        },
        "A-12": {f"{name}test_is_skipped": "skipped"},
        "A-13": {f"{name}test_breaks_after_its_call": "failed"},
    }


@pytest.mark.slow
def test_a_mark_of_an_unknown_fact_stops_the_run(project: Path) -> None:
    text = 'import pytest\n@pytest.mark.fact("A-999")\ndef test_it(): pass\n'
    (project / "tests" / "test_some.py").write_text(text)
    run = run_pytest(project)
    assert run.returncode != 0
    assert "docs/facts.tsv has no fact A-999" in run.stdout + run.stderr


@pytest.mark.slow
def test_a_slow_unit_test_is_reported_unless_marked_slow(project: Path) -> None:
    text = """
import pytest

def busy():
    return sum(range(30_000_000))

def test_long(): busy()

@pytest.mark.slow
def test_long_and_marked(): busy()
"""
    (project / "tests" / "test_some.py").write_text(text)
    output = run_pytest(project).stdout
    assert "s  tests/test_some.py::test_long\n" in output
    assert "test_long_and_marked" not in output
