"""A package index in a directory, to install from without a network.

Its distributions are imitations, which have the metadata of a package and no content,
or real ones, which are made of the packages of this environment.
"""

from __future__ import annotations

import gzip
import io
import re
import shutil
import sysconfig
import tarfile
import venv
import zipfile
from importlib.metadata import distribution
from pathlib import Path
from typing import Final

BACKEND: Final = """
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
PROJECT: Final = """
[build-system]
requires = ["setuptools"]
build-backend = "backend"
backend-path = ["."]
"""
OF_PIP: Final = ("INSTALLER", "REQUESTED", "direct_url.json")
"""Files that pip adds to the metadata of a package."""


class Index:
    """A directory of distributions. An imitation has the same bytes whenever it is
    made, as locks have their hashes."""

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
                *(f"Provides-Extra: {each}\n" for each in sorted(extras(requires))),
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
                wheel.writestr(zipfile.ZipInfo(path), text)  # without the time
        return file.read_bytes()

    def add_source(self, name: str, version: str) -> bytes:
        """Add a source distribution; return its bytes."""
        file = self.directory / f"{name}-{version}.tar.gz"
        contents = {
            "pyproject.toml": PROJECT,
            "backend.py": BACKEND.format(name=name, version=version),
            "PKG-INFO": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        }
        content = io.BytesIO()
        with tarfile.open(fileobj=content, mode="w") as archive:
            for path, text in contents.items():
                member = tarfile.TarInfo(f"{name}-{version}/{path}")
                member.size = len(text)
                archive.addfile(member, io.BytesIO(text.encode()))
        file.write_bytes(gzip.compress(content.getvalue(), mtime=0))
        return file.read_bytes()

    def add_real(self, name: str) -> None:
        """Add a wheel with the files of a package of this environment."""
        found = distribution(name)
        described = found.read_text("WHEEL") or ""
        tags = [
            line.removeprefix("Tag: ").split("-")
            for line in described.splitlines()
            if line.startswith("Tag: ")
        ]
        tag = "-".join(".".join(sorted(set(each))) for each in zip(*tags, strict=True))
        name = re.sub(r"[-_.]+", "_", found.name)
        with zipfile.ZipFile(
            self.directory / f"{name}-{found.version}-{tag}.whl", "w"
        ) as wheel:
            for each in found.files or ():
                # pip wrote these, and the scripts outside of the packages' directory.
                is_generated = each.suffix == ".pyc" or each.name in OF_PIP
                if not is_generated and ".." not in each.parts:
                    wheel.write(str(each.locate()), each.as_posix())


def extras(requires: list[str]) -> set[str]:
    """Return the extras that requirements name in their markers."""
    parts = [each.partition("extra ==")[2].strip() for each in requires]
    return {each.split()[0].strip("\"'") for each in parts if each}


def own_pip(directory: Path) -> Path:
    """Make a directory that contains the pip that Python brings; return it."""
    venv.create(directory, with_pip=True, symlinks=True)
    return site_packages(directory)


def newest_pip() -> Path:
    """Return a directory that contains the pip of the lock."""
    return Path(sysconfig.get_path("purelib"))


def create_environment(home: Path, pip: Path) -> None:
    """Create a virtual environment that has the pip of a directory and nothing else."""
    venv.create(home, with_pip=False, symlinks=True)
    for each in (pip / "pip", *pip.glob("pip-*.dist-info")):
        shutil.copytree(each, site_packages(home) / each.name)


def site_packages(environment: Path) -> Path:
    """Return the directory of the packages of a virtual environment."""
    (found,) = environment.glob("lib/python*/site-packages")
    return found


def installed(environment: Path) -> dict[str, str]:
    """Return the versions of what is installed, by name."""
    found = site_packages(environment).glob("*.dist-info")
    names = [each.name.removesuffix(".dist-info") for each in found]
    parts = [each.partition("-") for each in names]
    return {name.replace("_", "-").lower(): version for name, _, version in parts}
