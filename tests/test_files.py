"""Text files, files below the home directory, and private ones."""

from __future__ import annotations

import codecs
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from coterie.errors import SettingError
from coterie.files import (
    decode_text,
    dotted_names,
    expand_user,
    is_open,
    make_private_directory,
    read_text,
    read_toml,
    user_directory,
    write_private_file,
)


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


@pytest.mark.posix
def test_a_mode_is_open_when_it_has_any_bit_for_others(tmp_path: Path) -> None:
    path = tmp_path / "file"
    assert not is_open(path)
    path.touch()
    path.chmod(0o600)
    assert not is_open(path)
    path.chmod(0o620)
    assert is_open(path)
    assert not is_open(path, 0o044)


def test_directories_of_the_user_are_named_or_below_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    state = tmp_path / ".local" / "state"
    assert user_directory({}, "XDG_STATE_HOME", ".local/state") == state
    assert user_directory({"XDG_STATE_HOME": ""}, "XDG_STATE_HOME", "a").name == "a"
    assert user_directory({"X": "/named"}, "X", "a") == Path("/named")
    assert user_directory({"X": "~/b"}, "X", "a") == tmp_path / "b"
    assert expand_user("~/b") == tmp_path / "b"
    assert expand_user("b") == Path("b")


def test_a_user_without_a_home_directory_must_name_directories(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # As of a user id without a name, and without HOME.
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)
    with pytest.raises(SettingError, match="no home directory: set HOME or X"):
        user_directory({}, "X", "a")
    assert user_directory({"X": "/named"}, "X", "a") == Path("/named")
    assert not expand_user("~/b").exists()


@pytest.mark.parametrize(
    "data",
    [
        "gr\u00fcn,t\r\n".encode(),
        "gr\u00fcn,t\r\n".encode("utf-8-sig"),
        codecs.BOM_UTF16_LE + "gr\u00fcn,t\r\n".encode("utf-16-le"),
        codecs.BOM_UTF16_BE + "gr\u00fcn,t\r\n".encode("utf-16-be"),
    ],
)
def test_a_text_is_the_same_with_and_without_a_byte_order_mark(
    data: bytes, tmp_path: Path
) -> None:
    file = tmp_path / "ids.csv"
    file.write_bytes(data)
    assert read_text(file) == "gr\u00fcn,t\r\n"


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("default", ["utf-8", "latin-1"])
def test_utf_16_without_a_byte_order_mark_is_refused(
    encoding: str, default: str
) -> None:
    with pytest.raises(UnicodeDecodeError, match="UTF-16 without a byte order mark"):
        decode_text("orders,t,0,1\r\n".encode(encoding), default)


@pytest.mark.parametrize("text", ["", "\0", "a\0b,t,0,1\n", "\0\0", "a\0\0b\n"])
def test_a_text_may_contain_nul(text: str) -> None:
    assert decode_text(text.encode()) == text


def test_only_the_first_character_is_a_byte_order_mark() -> None:
    assert decode_text(b"\xef\xbb\xbf\xef\xbb\xbfa") == "\ufeffa"


def test_a_file_that_is_not_text_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "ids.csv"
    file.write_bytes(b"\xff\x00\x80")
    with pytest.raises(SettingError, match=r"ids.csv: it is not UTF-8"):
        read_text(file)
    with pytest.raises(SettingError, match=r"cannot read .*absent: No such file"):
        read_text(tmp_path / "absent")


def test_names_of_toml_are_dotted_whichever_way_they_are_written(
    tmp_path: Path,
) -> None:
    file = tmp_path / "settings.toml"
    file.write_text("num.partitions = 3\n[group]\nmax.size = 9\n", encoding="utf-8")
    assert dotted_names(read_toml(file)) == {"num.partitions": 3, "group.max.size": 9}
    file.write_text("num.partitions = ", encoding="utf-8")
    with pytest.raises(SettingError, match=r"settings\.toml is not TOML"):
        read_toml(file)
