"""coterie users: added, listed, removed, with passwords from where they should be."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from coterie.auth.scram import is_password
from coterie.cli.main import main
from coterie.server.user_store import UserStore
from coterie.types import ScramMechanism

SHA_256, SHA_512 = ScramMechanism

Users = Callable[..., int]


class Stdin(io.StringIO):
    is_terminal = False

    def isatty(self) -> bool:
        return self.is_terminal


@pytest.fixture
def users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Users:
    """Runs a command on a directory, with text on stdin."""

    def run(*arguments: str, stdin: str = "", at_terminal: bool = False) -> int:
        given = Stdin(stdin)
        given.is_terminal = at_terminal
        monkeypatch.setattr("sys.stdin", given)
        verb, *rest = arguments
        return main(["users", verb, *rest, "--data", str(tmp_path / "data")])

    return run


def held(tmp_path: Path, user: str) -> dict[ScramMechanism, int]:
    with UserStore(tmp_path / "data") as store:
        found = store.users.credentials(user)
        return {each: found[each].iterations for each in found}


@pytest.mark.slow
def test_a_user_is_added_listed_and_removed(
    users: Users, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert users("add", "alice", stdin="her secret\n") == 0
    assert users("add", "bob", "--mechanism", "SCRAM-SHA-512", stdin="his\n") == 0
    assert held(tmp_path, "alice") == {SHA_256: 4_096, SHA_512: 4_096}
    assert held(tmp_path, "bob") == {SHA_512: 4_096}
    capsys.readouterr()
    assert users("list", "--output", "json") == 0
    said = json.loads(capsys.readouterr().out)
    assert [(each["user"], each["iterations"]) for each in said["items"]] == [
        ("alice", {"SCRAM-SHA-256": 4_096, "SCRAM-SHA-512": 4_096}),
        ("bob", {"SCRAM-SHA-512": 4_096}),
    ]
    assert users("remove", "alice") == 0
    assert held(tmp_path, "alice") == {}
    assert users("remove", "alice") == 1
    assert "there is no user 'alice'" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("line", ["a b ü\n", "a b ü\r\nmore", "a b ü"])
def test_a_password_is_a_line_of_stdin_or_of_a_file(
    users: Users, tmp_path: Path, line: str
) -> None:
    path = tmp_path / "secret"
    path.write_bytes(line.encode())
    assert users("add", "one", stdin=line) == 0
    assert users("add", "two", "--password-file", str(path)) == 0
    with UserStore(tmp_path / "data") as store:
        for name in ("one", "two"):
            credential = store.users.find(name, SHA_256)
            assert credential is not None
            assert is_password(SHA_256, credential, "a b ü")


def test_at_a_terminal_it_is_asked_for_twice(
    users: Users,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    answers = ["one", "other", "same", "same"]
    monkeypatch.setattr("getpass.getpass", lambda prompt: answers.pop(0))
    assert users("add", "alice", at_terminal=True) == 2
    assert "two different passwords" in capsys.readouterr().err
    assert users("add", "alice", at_terminal=True) == 0
    assert held(tmp_path, "alice")


@pytest.mark.parametrize(
    ("arguments", "stdin", "says"),
    [
        (["add", "a"], "\n", "the password must not be empty"),
        (["add", ""], "x\n", "a user's name must not be empty"),
        (["add", "a", "--iterations", "4095"], "x\n", "from 4096 to 16384, not 4095"),
        (["add", "a", "--password-file", "/nowhere/it/is"], "", "cannot be read"),
        (["add", "a\udcff"], "x\n", "a user's name must be UTF-8"),
        (["add", "a"], "x\udcff\n", "the password must be UTF-8"),
    ],
)
def test_what_makes_no_sense_is_exit_code_2_and_a_sentence(
    users: Users,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    stdin: str,
    says: str,
) -> None:
    assert users(*arguments, stdin=stdin) == 2
    assert says in capsys.readouterr().err


def test_data_in_use_is_left_alone(
    users: Users, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with UserStore(tmp_path / "data"):
        assert users("add", "alice", stdin="secret\n") == 1
    assert "is in use by another server" in capsys.readouterr().err
    assert held(tmp_path, "alice") == {}


@pytest.mark.parametrize("words", [["list"], ["remove", "alice"]])
def test_only_who_adds_a_user_makes_a_directory(
    users: Users, tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    assert users(*words) == 1
    assert "there is no " in capsys.readouterr().err
    assert not (tmp_path / "data").exists()
