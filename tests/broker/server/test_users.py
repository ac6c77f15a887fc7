"""The users file: new, changed and unchanged users, and invalid files."""

from __future__ import annotations

from pathlib import Path

import pytest

from coterie.auth.scram import password_matches
from coterie.broker.catalog.users import Users, credential_entry
from coterie.broker.server.users import (
    UserStore,
    changed_users,
    password_entry,
    read_users_file,
)
from coterie.errors import SettingError
from coterie.types import ScramMechanism
from tests.broker.server.secured import USERS, users_file


def filled(passwords: dict[str, str]) -> Users:
    users = Users()
    for entry in changed_users(users, passwords):
        users.replay(entry.name, entry.value)
    return users


def test_each_user_gets_a_credential_for_each_mechanism(tmp_path: Path) -> None:
    read = read_users_file(users_file(tmp_path))
    assert read == USERS
    users = filled(dict(read))
    assert users.names() == sorted(USERS)
    for name, password in USERS.items():
        held = users.credentials(name)
        assert set(held) == set(ScramMechanism)
        assert all(password_matches(each, held[each], password) for each in held)
    salts = {each.salt for name in USERS for each in users.credentials(name).values()}
    assert len(salts) == len(USERS) * 2


def test_an_unchanged_password_keeps_its_credentials() -> None:
    users = filled({"a": "one", "b": "two"})
    assert list(changed_users(users, {"a": "one"})) == []
    changed = [entry.name for entry in changed_users(users, {"a": "one", "b": "2"})]
    assert changed == ["SCRAM-SHA-256/b", "SCRAM-SHA-512/b"]


def test_a_user_without_credentials_does_not_exist() -> None:
    users = filled({"a/b": "one"})
    for mechanism in ScramMechanism:
        assert users.names() == ["a/b"]
        gone = credential_entry("a/b", mechanism, None)
        users.replay(gone.name, gone.value)
    assert users.names() == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[users", "is not TOML"),
        ("", "must have one table, [users]"),
        ("[users]\na = 1", "must have one table, [users]"),
        ('[users]\na = ""', "must have one table, [users]"),
        ('[users]\n"" = "a"', "must have one table, [users]"),
        ('[users]\na = "b"\n[more]', "must have one table, [users]"),
    ],
)
def test_an_invalid_users_file_is_refused(
    tmp_path: Path, text: str, message: str
) -> None:
    path = tmp_path / "users.toml"
    path.write_text(text)
    with pytest.raises(SettingError) as refused:
        read_users_file(path)
    assert message in str(refused.value)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match=r"cannot read .*: No such file"):
        read_users_file(tmp_path / "none.toml")


def test_users_are_stored_without_a_server(tmp_path: Path) -> None:
    with UserStore(tmp_path) as users:
        users.write([password_entry("a", ScramMechanism.SCRAM_SHA_256, "b", 4_096)])
    with UserStore(tmp_path) as users:
        assert users.users.names() == ["a"]
