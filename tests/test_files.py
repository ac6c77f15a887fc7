"""Private files and directories."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from coterie.files import is_open, make_private_directory, write_private_file


@pytest.fixture(autouse=True)
def _umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_a_new_directory_is_private_and_its_parents_are_not(tmp_path: Path) -> None:
    assert make_private_directory(tmp_path / "a" / "b")
    assert mode(tmp_path / "a" / "b") == 0o700
    assert mode(tmp_path / "a") == 0o777


def test_the_mode_of_an_existing_directory_is_kept(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    assert not make_private_directory(tmp_path)
    assert mode(tmp_path) == 0o755


def test_a_file_in_place_of_a_directory_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(FileExistsError):
        make_private_directory(tmp_path / "file")


def test_a_new_file_is_private(tmp_path: Path) -> None:
    write_private_file(tmp_path / "file", b"content")
    assert mode(tmp_path / "file") == 0o600
    with pytest.raises(FileExistsError):
        write_private_file(tmp_path / "file", b"other", must_be_new=True)
    (tmp_path / "file").chmod(0o644)
    write_private_file(tmp_path / "file", b"new")
    assert (tmp_path / "file").read_bytes() == b"new"
    assert mode(tmp_path / "file") == 0o644


def test_a_mode_is_open_when_it_has_any_bit_for_others(tmp_path: Path) -> None:
    path = tmp_path / "file"
    assert not is_open(path)
    path.touch()
    path.chmod(0o600)
    assert not is_open(path)
    path.chmod(0o620)
    assert is_open(path)
    assert not is_open(path, 0o044)
