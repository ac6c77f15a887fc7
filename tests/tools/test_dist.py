"""Distributions have the same bytes, whenever and by whichever user they are built."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest

from tools.dist import is_same, repacked


def archive(*names: str, owner: str, mtime: int, mode: int = 0o644) -> bytes:
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w:gz") as files:
        for name in names:
            member = tarfile.TarInfo(name)
            member.size, member.mtime, member.mode = len(name), mtime, mode
            member.uname = owner
            files.addfile(member, io.BytesIO(name.encode()))
    return target.getvalue()


def test_repacked_archives_of_the_same_files_are_equal() -> None:
    one = archive("b", "a", owner="ada", mtime=1)
    other = archive("a", "b", owner="grace", mtime=2, mode=0o600)
    assert one != other
    assert repacked(one, 1_700_000_000) == repacked(other, 1_700_000_000)


def test_a_repacked_archive_has_the_contents_and_the_date_of_the_commit() -> None:
    packed = repacked(archive("a", "b", owner="ada", mtime=1), 1_700_000_000)
    with tarfile.open(fileobj=io.BytesIO(packed)) as files:
        members = files.getmembers()
        opened = [files.extractfile(each) for each in members]
        contents = [each.read() for each in opened if each]
    assert [each.mtime for each in members] == [1_700_000_000] * 2
    assert contents == [b"a", b"b"]


def test_a_build_that_differs_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one, other = tmp_path / "one.whl", tmp_path / "other.whl"
    one.write_bytes(b"1")
    other.write_bytes(b"2")
    assert is_same([one], [one])
    assert not is_same([one], [other])
    assert "two builds of one.whl differ" in capsys.readouterr().err
