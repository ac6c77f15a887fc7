"""tools/setup.sh installs what a lock names, whatever was published since.

The index of these tests is a directory with two empty distributions of each package
that a lock names: one with the version and the requirements of the real one, and one
with a newer version. They are installed with the pip that Python brings, and with the
newer one of the lock.
"""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest

from tools.locks import Pin, lock_file, read_lock, requirements_of
from tools.sources import ROOT

pytestmark = pytest.mark.slow

NEWER = "9999.0"
SETUP_S = 300.0
KEPT = ("pip",)
"""Packages that no imitation replaces, because they run the installation."""
BACKEND = """
import base64, hashlib, pathlib, zipfile

NAME, VERSION = {name!r}, {version!r}

def build_wheel(directory, settings=None, metadata=None):
    import setuptools  # the imitation says its version
    name = f"{{NAME}}-{{VERSION}}-py3-none-any.whl"
    info = f"{{NAME}}-{{VERSION}}.dist-info"
    with zipfile.ZipFile(pathlib.Path(directory, name), "w") as wheel:
        wheel.writestr(
            f"{{info}}/METADATA",
            f"Metadata-Version: 2.1\\nName: {{NAME}}\\nVersion: {{VERSION}}\\n",
        )
        wheel.writestr(
            f"{{info}}/WHEEL",
            "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n",
        )
        wheel.writestr(f"{{info}}/built_with", setuptools.VERSION)
        wheel.writestr(f"{{info}}/RECORD", "")
    return name

build_editable = build_wheel
"""
PROJECT = """
[build-system]
requires = ["setuptools"]
build-backend = "backend"
backend-path = ["."]
"""
NO_WHEEL = "pyspark"
"""A package that is published as source only."""


class Index:
    """A directory of distributions without content."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        directory.mkdir()

    def add_wheel(self, name: str, version: str, requires: list[str]) -> bytes:
        """Add a wheel; return its bytes."""
        module = name.replace("-", "_").replace(".", "_")
        info = f"{module}-{version}.dist-info"
        metadata = "".join(
            [
                f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
                *(f"Provides-Extra: {each}\n" for each in extras(requires)),
                *(f"Requires-Dist: {each}\n" for each in requires),
            ]
        )
        kind = "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        contents = {
            f"{info}/METADATA": metadata,
            f"{info}/WHEEL": kind,
            f"{info}/RECORD": "",
        }
        if name == "setuptools":
            contents["setuptools/__init__.py"] = f"VERSION = {version!r}\n"
        file = self.directory / f"{module}-{version}-py3-none-any.whl"
        with zipfile.ZipFile(file, "w") as wheel:
            for path, text in contents.items():
                # Without the time of day, two locks name the same bytes.
                wheel.writestr(zipfile.ZipInfo(path), text)
        return file.read_bytes()

    def add_source(self, name: str, version: str) -> bytes:
        """Add a source distribution; return its bytes."""
        file = self.directory / f"{name}-{version}.tar.gz"
        contents = {
            "pyproject.toml": PROJECT,
            "backend.py": BACKEND.format(name=name, version=version),
            "PKG-INFO": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        }
        with tarfile.open(file, "w:gz") as archive:
            for path, text in contents.items():
                member = tarfile.TarInfo(f"{name}-{version}/{path}")
                member.size = len(text)
                archive.addfile(member, io.BytesIO(text.encode()))
        return file.read_bytes()

    def imitate(self, pins: list[Pin]) -> str:
        """Add each package of a lock twice, once newer; return the lock of these."""
        lines = []
        for pin in pins:
            name = pin.requirement.name
            try:
                requires = list(requirements_of(pin))
            except PackageNotFoundError:  # for another platform or Python
                requires = []
            if name == NO_WHEEL:
                content = self.add_source(name, pin.version)
            else:
                content = self.add_wheel(name, pin.version, requires)
            self.add_wheel(name, NEWER, requires)
            digest = hashlib.sha256(content).hexdigest()
            lines.append(f"{pin.requirement} \\\n    --hash=sha256:{digest}\n")
        return "".join(lines)


def extras(requires: list[str]) -> set[str]:
    """Return the extras that requirements name in their markers."""
    parts = [each.partition("extra ==")[2].strip() for each in requires]
    return {each.split()[0].strip("\"'") for each in parts if each}


@pytest.fixture(params=["Python's pip", "the newest pip"])
def environment(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Return a virtual environment with one of two versions of pip."""
    home = tmp_path / "venv"
    own = request.param == "Python's pip"
    venv.create(home, with_pip=own, symlinks=True)
    (site,) = home.glob("lib/python*/site-packages")
    for each in () if own else ("pip", f"pip-{version('pip')}.dist-info"):
        shutil.copytree(Path(sysconfig.get_path("purelib"), each), site / each)
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
            "PIP_FIND_LINKS": str(index.directory),
            "PYTHON": sys.executable,
        },
        capture_output=True,
        text=True,
        timeout=SETUP_S,
        check=False,
    )


def installed(environment: Path) -> dict[str, str]:
    """Return the versions of what is installed, by name."""
    (site,) = environment.glob("lib/python*/site-packages")
    names = [each.name.removesuffix(".dist-info") for each in site.glob("*.dist-info")]
    parts = [each.partition("-") for each in names]
    return {name.replace("_", "-").lower(): version for name, _, version in parts}


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
        (project / f"requirements-{kind}.txt").write_text(index.imitate(pins))
        for pin in pins:
            marker = pin.requirement.marker
            if marker is None or marker.evaluate():
                expected[pin.name] = pin.version
    done = set_up(environment, project, index, *kinds)
    assert done.returncode == 0, done.stdout + done.stderr
    found = installed(environment)
    assert {name: found.get(name) for name in expected} == expected
    (site,) = environment.glob("lib/python*/site-packages")
    for built_with in site.glob("*.dist-info/built_with"):
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
