"""tools/setup.sh installs what a lock names, whatever was published since.

The index of these tests is a directory with two empty distributions of each package
that a lock names: one with the version and the requirements of the real one, and one
with a newer version. They are installed with the pip that Python brings, with the newer
one of the lock, and with uv.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest
from uv import find_uv_bin

from tests.support.package_index import (
    BACKEND,
    PROJECT,
    Index,
    create_environment,
    installed,
    newest_pip,
    own_pip,
    site_packages,
)
from tools.locks import Pin, lock_file, read_lock, requirements_of
from tools.sources import ROOT

pytestmark = pytest.mark.slow

NEWER = "9999.0"
SETUP_S = 300.0
KEPT = ("pip",)
"""Packages that no imitation replaces, because they run the installation."""
NO_WHEEL = "pyspark"
"""A package that is published as source only."""


def imitate(index: Index, pins: list[Pin]) -> str:
    """Add each package of a lock twice, once newer; return the lock of these."""
    lines = []
    for pin in pins:
        name = pin.requirement.name
        try:
            requires = list(requirements_of(pin))
        except PackageNotFoundError:  # for another platform or Python
            requires = []
        if name == NO_WHEEL:
            content = index.add_source(name, pin.version)
        else:
            content = index.add_wheel(name, pin.version, requires)
        index.add_wheel(name, NEWER, requires)
        digest = hashlib.sha256(content).hexdigest()
        lines.append(f"{pin.requirement} \\\n    --hash=sha256:{digest}\n")
    return "".join(lines)


@pytest.fixture(scope="module")
def pips(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return the directories of two versions of pip."""
    old = tmp_path_factory.mktemp("pip") / "venv"
    return {"Python's pip": own_pip(old), "the newest pip": newest_pip()}


@pytest.fixture(params=["Python's pip", "the newest pip", "uv"])
def environment(
    request: pytest.FixtureRequest,
    pips: dict[str, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Path:
    """Return a virtual environment with one of two versions of pip, or choose uv."""
    monkeypatch.setenv("INSTALLER", find_uv_bin() if request.param == "uv" else "")
    home = tmp_path / "venv"
    create_environment(home, pips.get(request.param, pips["Python's pip"]))
    return home


def set_up(
    environment: Path, project: Path, index: Index, *kinds: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", str(ROOT / "tools" / "setup.sh"), str(environment), *kinds],
        cwd=project,
        env={
            **os.environ,
            "PIP_NO_INDEX": "1",
            "PIP_FIND_LINKS": index.directory.as_uri(),  # it is split at spaces
            "UV_NO_INDEX": "1",
            "UV_FIND_LINKS": index.directory.as_uri(),
            "UV_CACHE_DIR": str(project.parent / "cache"),
            "PYTHON": sys.executable,
        },
        capture_output=True,
        text=True,
        timeout=SETUP_S,
        check=False,
    )


@pytest.fixture
def index(tmp_path: Path) -> Index:
    return Index(tmp_path / "index")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return a project that its own backend builds."""
    home = tmp_path / "project"
    home.mkdir()
    (home / "pyproject.toml").write_text(PROJECT)
    (home / "backend.py").write_text(BACKEND.format(name="own", version="1"))
    return home


@pytest.mark.parametrize(
    "kinds", [("dev", "lowest"), ("demo", "pipeline"), ("spark-4.2",)], ids="+".join
)
def test_locks_are_installed_though_all_their_packages_have_newer_releases(
    kinds: Sequence[str], environment: Path, index: Index, project: Path
) -> None:
    expected = {}
    for kind in kinds:
        lock = read_lock(lock_file(kind))
        pins = [each for each in lock if each.name not in KEPT]
        (project / f"requirements-{kind}.txt").write_text(imitate(index, pins))
        for pin in pins:
            marker = pin.requirement.marker
            if marker is None or marker.evaluate():
                expected[pin.name] = pin.version
    done = set_up(environment, project, index, *kinds)
    assert done.returncode == 0, done.stdout + done.stderr
    found = installed(environment)
    assert {name: found.get(name) for name in expected} == expected
    for built_with in site_packages(environment).glob("*.dist-info/built_with"):
        assert built_with.read_text() == expected["setuptools"]


def test_an_incomplete_lock_is_reported(
    environment: Path, index: Index, project: Path
) -> None:
    content = index.add_wheel("setuptools", "80.0", ["absent"])
    digest = hashlib.sha256(content).hexdigest()
    lock = f"setuptools==80.0 \\\n    --hash=sha256:{digest}\n"
    (project / "requirements-dev.txt").write_text(lock)
    done = set_up(environment, project, index)
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        "setuptools 80.0 requires absent, which is not installed.",
        "requirements-dev.txt lacks what this platform needs: report it, please.",
    ]


def test_a_package_with_other_bytes_is_refused(
    environment: Path, index: Index, project: Path
) -> None:
    index.add_wheel("setuptools", "80.0", [])
    digest = hashlib.sha256(b"other").hexdigest()
    lock = f"setuptools==80.0 \\\n    --hash=sha256:{digest}\n"
    (project / "requirements-dev.txt").write_text(lock)
    done = set_up(environment, project, index)
    assert done.returncode == 1
    assert installed(environment).get("setuptools") != "80.0"
