"""A mark names a fact that exists, and slow unit tests are reported."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
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
        [sys.executable, "-m", "pytest", *arguments],
        cwd=project,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


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
