"""Locks that lack a package, or have a version that is not allowed, are found."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

from tools.locks import (
    ROOTS,
    Pin,
    Requires,
    lock_file,
    missing,
    read_lock,
    subset,
)

HASH = " \\\n    --hash=sha256:00\n"


@pytest.fixture
def lock(tmp_path: Path) -> Callable[..., list[Pin]]:
    """Return a function that writes and reads a lock of these requirements."""

    def write(*lines: str) -> list[Pin]:
        file = tmp_path / "requirements.txt"
        file.write_text(
            "# written by a test\n" + "".join(f"{each}{HASH}" for each in lines)
        )
        return read_lock(file)

    return write


def metadata(known: Mapping[str, Sequence[str]]) -> Requires:
    """Return requirements by name; other packages are not installed."""

    def requires(pin: Pin) -> Sequence[str]:
        if pin.name not in known:
            raise PackageNotFoundError(pin.name)
        return known[pin.name]

    return requires


Lock = Callable[..., list[Pin]]


@pytest.mark.slow
@pytest.mark.parametrize("name", ROOTS)
def test_each_lock_of_this_project_is_complete(name: str) -> None:
    assert missing(read_lock(lock_file(name)), ROOTS[name]) == []


def test_each_lock_of_this_project_has_its_roots() -> None:
    names = {each.name for each in lock_file("dev").parent.glob("requirements-*.txt")}
    assert names == {lock_file(each).name for each in ROOTS}


def test_a_root_without_a_pin_is_found(lock: Lock) -> None:
    assert missing(lock("a==1"), ["a", "b"], metadata({"a": []})) == [
        "no b, which is required (on win32, Python 3.14)"
    ]


def test_an_indirect_requirement_without_a_pin_is_found(lock: Lock) -> None:
    known = metadata({"a": ["b"], "b": ["c"]})
    (found,) = missing(lock("a==1", "b==1"), ["a"], known)
    assert found.startswith("no c, which is required")


def test_the_requirements_of_an_extra_are_followed(lock: Lock) -> None:
    known = metadata({"a": ["b[x]"], "b": ['c; extra == "x"', 'd; extra == "y"']})
    (found,) = missing(lock("a==1", "b==1"), ["a"], known)
    assert found.startswith("no c, which is required")


def test_a_version_that_is_not_allowed_is_found(lock: Lock) -> None:
    (found,) = missing(lock("a==1", "b==1"), ["a"], metadata({"a": ["b>=2"]}))
    assert found.startswith("b 1, but b>=2 is required")


def test_a_package_of_one_platform_is_required_there_only(lock: Lock) -> None:
    known = metadata({"a": ['b; sys_platform == "darwin"']})
    assert missing(lock("a==1", "b==1 ; sys_platform == 'darwin'"), ["a"], known) == []
    (found,) = missing(lock("a==1", "b==1 ; sys_platform == 'linux'"), ["a"], known)
    assert found.startswith("no b, which is required (on darwin")


def test_versions_may_differ_between_versions_of_python(lock: Lock) -> None:
    pins = lock("a==1 ; python_version < '3.12'", "a==2 ; python_version >= '3.12'")
    assert missing(pins, ["a"], metadata({})) == []
    (found,) = missing(pins, ["a>=2"], metadata({}))
    assert "Python 3.11" in found


def test_a_subset_is_the_lock_of_what_its_roots_need() -> None:
    pins = read_lock(lock_file("dev"))
    text = subset(pins, ["pytest"])
    names = {line.partition("==")[0] for line in text.splitlines() if "==" in line}
    assert {"pytest", "pluggy", "iniconfig"} <= names
    assert "coterie" not in names
    assert "mypy" not in names
    assert all(each.text in text for each in pins if each.name == "pluggy")
