"""The data directory: its lock, the modes of its files, and partial writes."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from coterie import portable_os
from coterie.broker.log.directory import (
    LOCK_NAME,
    MANIFEST_NAME,
    os_error,
    write_all,
)
from coterie.errors import LogError, LogFull
from tests.broker.log.logs import PARTITION, append, open_small


def test_two_servers_cannot_use_one_directory(tmp_path: Path) -> None:
    log = open_small(tmp_path)
    with pytest.raises(LogError, match=f"{tmp_path} is in use by another server"):
        open_small(tmp_path)
    log.close()
    open_small(tmp_path).close()


def test_a_file_in_place_of_the_directory_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "data").touch()
    with pytest.raises(LogError, match="data"):
        open_small(tmp_path / "data")


@pytest.mark.posix
def test_a_new_store_is_readable_by_its_owner_only(tmp_path: Path) -> None:
    directory = tmp_path / "data"
    before = os.umask(0o022)
    try:
        log = open_small(directory)
        log.create(PARTITION)
        append(log)
        log.flush()
        log.checkpoint()
    finally:
        os.umask(before)
    files = [each for each in directory.rglob("*") if each.is_file()]
    assert {each.name for each in files} >= {MANIFEST_NAME, LOCK_NAME, "0.journal"}
    assert any(each.suffix == ".log" for each in files)
    for each in (directory, *directory.rglob("*")):
        assert each.stat().st_mode & 0o077 == 0, each
    log.close()


@pytest.mark.posix
def test_the_mode_of_an_existing_store_is_kept(tmp_path: Path) -> None:
    open_small(tmp_path).close()
    path = tmp_path / MANIFEST_NAME
    path.chmod(0o640)
    open_small(tmp_path).close()
    assert path.stat().st_mode & 0o777 == 0o640


@pytest.mark.posix
def test_the_rest_of_a_partial_write_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def pwritev(descriptor: int, pieces: Sequence[bytes], at: int) -> int:
        return os.pwrite(descriptor, b"".join(pieces)[:3], at)

    monkeypatch.setattr(portable_os, "pwritev", pwritev)
    path = tmp_path / "file"
    with path.open("wb") as file:
        assert write_all(file.fileno(), [b"abc", b"defg"], 2) == 7
    assert path.read_bytes() == b"\0\0abcdefg"


def test_an_error_of_a_full_disk_is_log_full() -> None:
    for code in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        assert isinstance(os_error(Path("f"), OSError(code, "no space")), LogFull)
    error = os_error(Path("f"), OSError(errno.EIO, "input/output error"))
    assert not isinstance(error, LogFull)
    assert str(error) == "f: input/output error"
