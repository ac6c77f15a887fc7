"""`coterie users add`, `list` and `remove`, and the sources of passwords."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from coterie.auth.scram import password_matches
from coterie.broker.server.users import UserStore
from coterie.cli.main import main
from coterie.types import ScramMechanism

SHA_256, SHA_512 = ScramMechanism

Users = Callable[..., int]


class Stdin(io.StringIO):
    is_terminal = False

    def isatty(self) -> bool:
        return self.is_terminal


@pytest.fixture
def users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Users:
    """Return a function that runs a command on a directory, with text on stdin."""

    def run(*arguments: str, stdin: str = "", at_terminal: bool = False) -> int:
        given = Stdin(stdin)
        given.is_terminal = at_terminal
        monkeypatch.setattr("sys.stdin", given)
        verb, *rest = arguments
        return main(["users", verb, *rest, "--data", str(tmp_path / "data")])

    return run


def iterations_of(tmp_path: Path, user: str) -> dict[ScramMechanism, int]:
    with UserStore(tmp_path / "data") as store:
        credentials = store.users.credentials(user)
        return {each: credentials[each].iterations for each in credentials}


@pytest.mark.slow
def test_a_user_is_added_listed_and_removed(
    users: Users, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert users("add", "alice", stdin="her secret\n") == 0
    assert users("add", "bob", "--mechanism", "SCRAM-SHA-512", stdin="his\n") == 0
    assert iterations_of(tmp_path, "alice") == {SHA_256: 4_096, SHA_512: 4_096}
    assert iterations_of(tmp_path, "bob") == {SHA_512: 4_096}
    capsys.readouterr()
    assert users("list", "--output", "json") == 0
    document = json.loads(capsys.readouterr().out)
    assert [(each["user"], each["iterations"]) for each in document["items"]] == [
        ("alice", {"SCRAM-SHA-256": 4_096, "SCRAM-SHA-512": 4_096}),
        ("bob", {"SCRAM-SHA-512": 4_096}),
    ]
    assert users("remove", "alice") == 0
    assert iterations_of(tmp_path, "alice") == {}
    assert users("remove", "alice") == 1
    assert "there is no user 'alice'" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("line", ["a b ü\n", "a b ü\r\nmore", "a b ü", "\ufeffa b ü"])
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
            assert password_matches(SHA_256, credential, "a b ü")


def test_the_password_is_entered_twice_at_a_terminal(
    users: Users,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    answers = ["one", "other", "same", "same"]
    monkeypatch.setattr("getpass.getpass", lambda prompt: answers.pop(0))
    assert users("add", "alice", at_terminal=True) == 2
    assert "the two passwords differ" in capsys.readouterr().err
    assert users("add", "alice", at_terminal=True) == 0
    assert iterations_of(tmp_path, "alice")


@pytest.mark.parametrize(
    ("arguments", "stdin", "message"),
    [
        (["add", "a"], "\n", "the password must not be empty"),
        (["add", ""], "x\n", "the user name must not be empty"),
        (["add", "a", "--iterations", "4095"], "x\n", "from 4096 to 16384, not 4095"),
        (["add", "a", "--password-file", "/nowhere/it/is"], "", "cannot read"),
        (["add", "a\udcff"], "x\n", "the user name must be UTF-8"),
        (["add", "a"], "x\udcff\n", "the password must be UTF-8"),
    ],
)
def test_an_invalid_value_returns_exit_code_2_and_one_sentence(
    users: Users,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    stdin: str,
    message: str,
) -> None:
    assert users(*arguments, stdin=stdin) == 2
    assert message in capsys.readouterr().err


@pytest.mark.slow
def test_a_data_directory_in_use_is_not_changed(
    users: Users, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with UserStore(tmp_path / "data"):
        assert users("add", "alice", stdin="secret\n") == 1
    assert "is in use by another server" in capsys.readouterr().err
    assert iterations_of(tmp_path, "alice") == {}


@pytest.mark.parametrize("words", [["list"], ["remove", "alice"]])
def test_only_users_add_creates_a_data_directory(
    users: Users, tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    assert users(*words) == 1
    assert "there is no " in capsys.readouterr().err
    assert not (tmp_path / "data").exists()
