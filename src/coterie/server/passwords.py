"""Credentials of passwords that are told to the server itself, not by a client."""

from __future__ import annotations

import secrets
from typing import Final

from coterie.auth.scram import make_credential
from coterie.catalog.entries import Entry
from coterie.catalog.users import credential_entry
from coterie.types import ScramMechanism

SALT_BYTES: Final = 32


def password_entry(
    user: str, mechanism: ScramMechanism, password: str, iterations: int
) -> Entry:
    """What to write so that a user has a password, under a fresh salt."""
    salt = secrets.token_bytes(SALT_BYTES)
    made = make_credential(mechanism, password, salt, iterations)
    return credential_entry(user, mechanism, made)
