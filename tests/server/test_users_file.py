"""Users from a file: who is made, who is left as is, and what is no such file."""

from __future__ import annotations

from pathlib import Path

import pytest

from coterie.auth.scram import is_password
from coterie.catalog.users import Users, credential_entry
from coterie.errors import SettingError
from coterie.server.users_file import changed_users, read_users
from coterie.types import ScramMechanism
from tests.server.secured import USERS, users_file


def filled(passwords: dict[str, str]) -> Users:
    users = Users()
    for entry in changed_users(users, passwords):
        users.replay(entry.name, entry.value)
    return users


def test_each_user_gets_a_credential_for_each_mechanism(tmp_path: Path) -> None:
    read = read_users(users_file(tmp_path))
    assert read == USERS
    users = filled(dict(read))
    assert users.names() == sorted(USERS)
    for name, password in USERS.items():
        held = users.credentials(name)
        assert set(held) == set(ScramMechanism)
        assert all(is_password(each, held[each], password) for each in held)
    salts = {each.salt for name in USERS for each in users.credentials(name).values()}
    assert len(salts) == len(USERS) * 2


def test_who_has_the_password_already_keeps_what_is_kept() -> None:
    users = filled({"a": "one", "b": "two"})
    assert list(changed_users(users, {"a": "one"})) == []
    changed = [entry.name for entry in changed_users(users, {"a": "one", "b": "2"})]
    assert changed == ["SCRAM-SHA-256/b", "SCRAM-SHA-512/b"]


def test_a_user_without_credentials_is_gone() -> None:
    users = filled({"a/b": "one"})
    for mechanism in ScramMechanism:
        assert users.names() == ["a/b"]
        gone = credential_entry("a/b", mechanism, None)
        users.replay(gone.name, gone.value)
    assert users.names() == []


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[users", "is not TOML"),
        ("", "must have one table, [users]"),
        ("[users]\na = 1", "must have one table, [users]"),
        ('[users]\na = ""', "must have one table, [users]"),
        ('[users]\n"" = "a"', "must have one table, [users]"),
        ('[users]\na = "b"\n[more]', "must have one table, [users]"),
    ],
)
def test_anything_else_is_no_file_of_users(
    tmp_path: Path, text: str, says: str
) -> None:
    path = tmp_path / "users.toml"
    path.write_text(text)
    with pytest.raises(SettingError) as refused:
        read_users(path)
    assert says in str(refused.value)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="cannot be read: No such file"):
        read_users(tmp_path / "none.toml")


def test_a_file_that_others_may_read_is_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = users_file(tmp_path)
    read_users(path)
    assert caplog.text == ""
    path.chmod(0o644)
    read_users(path)
    assert "has passwords, and others may read it" in caplog.text
