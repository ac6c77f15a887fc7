"""SCRAM users that are created without a client: from the users file, or offline.

The first user has to be created in one of these two ways; a client can then create
others with AlterUserScramCredentials.

The users file (`sasl.users.file`) is TOML:

    [users]
    admin = "a password"

It creates users and changes passwords, and never removes a user. When a password is
unchanged its credentials stay, so that an unchanged file writes nothing.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from coterie.auth.scram import ITERATIONS_MIN, make_credential, password_matches
from coterie.broker.catalog.entries import Entry, EntryKind, decode_entry, space_of
from coterie.broker.catalog.users import Users, credential_entry
from coterie.broker.log.journal import JournalLog
from coterie.errors import SettingError
from coterie.files import read_toml
from coterie.types import ScramMechanism

SALT_BYTES: Final = 32


class UserStore:
    """The users in a data directory without a running server.

    A missing directory is created. No server can start in it until the store is closed.
    Raises LogError for a directory that is in use or has other content.
    """

    def __init__(self, directory: Path) -> None:
        self._log = JournalLog(directory)
        self.users = Users()
        for key, value in self._log.items(space_of(EntryKind.SCRAM_CREDENTIAL)):
            entry = decode_entry(EntryKind.SCRAM_CREDENTIAL, key, value)
            self.users.replay(entry.name, entry.value)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._log.close()

    def write(self, entries: Iterable[Entry]) -> None:
        """Make entries durable. Raises LogError."""
        for entry in entries:
            self.users.replay(entry.name, entry.value)
            self._log.put(entry.space, *entry.encode())
        self._log.flush()


def password_entry(
    user: str, mechanism: ScramMechanism, password: str, iterations: int
) -> Entry:
    """Return the entry that sets a user's password, with a random salt."""
    salt = secrets.token_bytes(SALT_BYTES)
    credential = make_credential(mechanism, password, salt, iterations)
    return credential_entry(user, mechanism, credential)


def read_users_file(path: Path) -> Mapping[str, str]:
    """Return passwords by user. Raises SettingError for an unreadable or invalid
    file."""
    try:
        content = read_toml(path)
    except SettingError as error:
        raise SettingError(f"sasl.users.file: {error}") from None
    users = content.pop("users", None)
    is_valid = isinstance(users, dict) and all(
        user and password and isinstance(password, str)
        for user, password in users.items()
    )
    if content or not is_valid:
        raise SettingError(
            f"sasl.users.file: {path} must have one table, [users], with lines such as "
            'alice = "her password"'
        )
    passwords: Mapping[str, str] = users
    return passwords


def changed_users(users: Users, passwords: Mapping[str, str]) -> Iterator[Entry]:
    """Yield the entries to write so that these users have these passwords."""
    for user, password in passwords.items():
        for mechanism in ScramMechanism:
            credential = users.find(user, mechanism)
            if credential is None or not password_matches(
                mechanism, credential, password
            ):
                yield password_entry(user, mechanism, password, ITERATIONS_MIN)
