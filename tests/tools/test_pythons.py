"""tools/pythons.sh runs tests on the Pythons that it finds, and reports missing ones.

The Pythons here are scripts that print a version. The set-up is a script, too: it makes
an environment that prints its arguments, and fails where a file named "fails" exists.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tools.sources import ROOT

COMMANDS = ("bash", "sh", "rm", "mkdir", "touch", "chmod", "cat")
SETUP = """
echo "set up $1 with $PYTHON and $INSTALLER"
mkdir -p "$1/bin"
cat >"$1/bin/python" <<END
#!/bin/sh
echo "$1: \\$*"
[ ! -e "$1/fails" ]
END
chmod +x "$1/bin/python"
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return a project whose commands are in `bin`, where no Python is."""
    (tmp_path / "bin").mkdir()
    for name in COMMANDS:
        command = shutil.which(name)
        assert command is not None
        (tmp_path / "bin" / name).symlink_to(command)
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "setup.sh").write_text(SETUP)
    for name in ("pyproject.toml", "requirements-dev.txt"):
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (1, 1))
    return tmp_path


def add_python(path: Path, script: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def run(project: Path, pythons: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", str(ROOT / "tools" / "pythons.sh"), "-k", "one and two"],
        cwd=project,
        env={
            "PATH": str(project / "bin"),
            "PYENV_ROOT": str(project / "pyenv"),
            "PYTHONS": pythons,
        },
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.fixture
def both(project: Path) -> Path:
    """Return a project with Python 3.12 on PATH, and an inactive 3.13 of pyenv."""
    add_python(project / "bin" / "python3.12", "echo 3.12")
    add_python(project / "bin" / "python3.13", "echo pyenv: not found >&2; exit 127")
    add_python(project / "pyenv/versions/3.13.0/bin/python", "echo 3.13")
    return project


def test_tests_run_on_pythons_of_path_and_of_pyenv(both: Path) -> None:
    done = run(both)
    assert done.returncode == 0, done.stderr
    inactive = both / "pyenv/versions/3.13.0/bin/python"
    assert done.stdout.splitlines() == [
        "set up build/python-3.12 with python3.12 and .venv/bin/uv",
        "build/python-3.12: -m pytest -k one and two",
        f"set up build/python-3.13 with {inactive} and .venv/bin/uv",
        "build/python-3.13: -m pytest -k one and two",
    ]


def test_a_missing_python_fails_before_any_test(project: Path) -> None:
    add_python(project / "bin" / "python3.12", "echo 3.12")
    done = run(project)
    assert (done.returncode, done.stdout) == (1, "")
    assert "Python 3.13 is missing. Install it (`pyenv install 3.13`" in done.stderr


def test_a_failure_on_one_python_does_not_stop_the_next(both: Path) -> None:
    run(both)
    (both / "build/python-3.12/fails").touch()
    done = run(both)
    assert done.returncode == 1
    assert [line.partition(":")[0] for line in done.stdout.splitlines()] == [
        "build/python-3.12",
        "build/python-3.13",
    ]


def test_an_environment_is_made_again_after_a_change_of_the_lock(both: Path) -> None:
    assert "set up" in run(both).stdout
    assert "set up" not in run(both).stdout
    ready = (both / "build/python-3.12/.ready").stat()
    os.utime(both / "requirements-dev.txt", ns=(0, ready.st_mtime_ns + 1))
    assert "set up build/python-3.12" in run(both).stdout


def test_other_pythons_are_tested_by_path(project: Path) -> None:
    add_python(project / "other/python", "echo 3.14")
    done = run(project, "other/python")
    assert "build/python-3.14: -m pytest" in done.stdout
    done = run(project, "other/python absent/python")
    assert done.returncode == 1
    assert done.stderr == (
        "absent/python of PYTHONS does not run: give the path of a Python.\n"
    )
