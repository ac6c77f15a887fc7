"""Users from a TOML file, made when a server starts: the way to the first of them.

    [users]
    admin = "a password"

The file adds users and changes their passwords; it takes nobody away. Whoever has the
password of the file already keeps the credentials there are, so that nothing is written
when nothing has changed.
"""

from __future__ import annotations

import logging
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from coterie.auth.scram import ITERATIONS_MIN, is_password
from coterie.catalog.entries import Entry
from coterie.catalog.users import Users
from coterie.errors import SettingError
from coterie.server.broker import Broker
from coterie.server.passwords import password_entry
from coterie.types import ScramMechanism

_LOGGER = logging.getLogger(__name__)

_OTHERS_MAY_READ: Final = 0o044


def make_users(passwords: Mapping[str, str], broker: Broker) -> None:
    """Make users with these passwords, durably. Raises LogError."""
    entries = list(changed_users(broker.catalog.users, passwords))
    broker.data.stage(entries)
    broker.flusher.flush()
    changed = {entry.name.partition("/")[2] for entry in entries}
    _LOGGER.info("%d users of %d are new or changed", len(changed), len(passwords))


def read_users(path: Path) -> Mapping[str, str]:
    """Passwords by user. Raises SettingError for a file that cannot be read or has
    something else in it."""
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8"))
        if path.stat().st_mode & _OTHERS_MAY_READ:
            _LOGGER.warning("%s has passwords, and others may read it", path)
    except OSError as error:
        raise SettingError(
            f"sasl.users.file: {path} cannot be read: {error.strerror}"
        ) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingError(f"sasl.users.file: {path} is not TOML: {error}") from None
    users = found.pop("users", None)
    if found or not isinstance(users, dict) or not _are_passwords(users):
        raise SettingError(
            f"sasl.users.file: {path} must have one table, [users], with lines such as "
            'alice = "her password"'
        )
    return users


def changed_users(users: Users, passwords: Mapping[str, str]) -> Iterator[Entry]:
    """What there is to write so that these users have these passwords."""
    for user, password in passwords.items():
        for mechanism in ScramMechanism:
            held = users.find(user, mechanism)
            if held is None or not is_password(mechanism, held, password):
                yield password_entry(user, mechanism, password, ITERATIONS_MIN)


def _are_passwords(users: Mapping[str, object]) -> bool:
    return all(
        user and password and isinstance(password, str)
        for user, password in users.items()
    )
