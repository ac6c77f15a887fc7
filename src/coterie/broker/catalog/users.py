"""The users of SASL/SCRAM and their credentials (KIP-554).

A user is a name with at least one credential, at most one for each mechanism.
"""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

from coterie.broker.catalog.entries import Entry, EntryKind
from coterie.types import ScramCredential, ScramMechanism, ScramParameters

_BINARY: Final = ("salt", "stored_key", "server_key")


class Users:
    """The credentials of all users.

    The object lives as long as its catalog; `clear` empties it, so that references to
    it stay valid when the catalog is loaded again.
    """

    def __init__(self) -> None:
        self._users: dict[str, dict[ScramMechanism, ScramCredential]] = {}
        self._parameters = {each: Counter[ScramParameters]() for each in ScramMechanism}

    def clear(self) -> None:
        """Remove every user, before the catalog is loaded."""
        self._users.clear()
        for counts in self._parameters.values():
            counts.clear()

    @property
    def credential_count(self) -> int:
        """The number of credentials of all users."""
        return sum(counts.total() for counts in self._parameters.values())

    def __contains__(self, entry_name: str) -> bool:
        """Return whether a credential has a catalog entry of this name."""
        mechanism, user = _from_entry_name(entry_name)
        return self.find(user, mechanism) is not None

    def names(self) -> list[str]:
        """Return the names of all users, sorted."""
        return sorted(self._users)

    def credentials(self, user: str) -> Mapping[ScramMechanism, ScramCredential]:
        """Return a user's credentials; empty for an unknown user."""
        return self._users.get(user, {})

    def find(self, user: str, mechanism: ScramMechanism) -> ScramCredential | None:
        """Return a user's credential for a mechanism, or None."""
        return self.credentials(user).get(mechanism)

    def most_common_parameters(
        self, mechanism: ScramMechanism
    ) -> ScramParameters | None:
        """Return the most frequent parameters of a mechanism's credentials, if any.

        Mock credentials use them, so that clients cannot distinguish them by
        parameters.
        """
        most_common = self._parameters[mechanism].most_common(1)
        return most_common[0][0] if most_common else None

    def replay(self, name: str, value: Mapping[str, Any] | None) -> None:
        """Apply a catalog entry."""
        mechanism, user = _from_entry_name(name)
        counts = self._parameters[mechanism]
        own = self._users.setdefault(user, {})
        before = own.pop(mechanism, None)
        if before is not None:
            counts[_parameters_of(before)] -= 1
            if not counts[_parameters_of(before)]:
                del counts[_parameters_of(before)]
        if value is not None:
            own[mechanism] = made = _from_value(value)
            counts[_parameters_of(made)] += 1
        if not own:
            del self._users[user]


def credential_entry(
    user: str, mechanism: ScramMechanism, credential: ScramCredential | None
) -> Entry:
    """Return the entry that sets a user's credential; None deletes it."""
    name = f"{mechanism.sasl_name}/{user}"
    return Entry(EntryKind.SCRAM_CREDENTIAL, name, credential and _to_value(credential))


def _parameters_of(credential: ScramCredential) -> ScramParameters:
    return ScramParameters(len(credential.salt), credential.iterations)


def _to_value(credential: ScramCredential) -> dict[str, Any]:
    value: dict[str, Any] = {
        name: base64.b64encode(getattr(credential, name)).decode() for name in _BINARY
    }
    return {**value, "iterations": credential.iterations}


def _from_value(value: Mapping[str, Any]) -> ScramCredential:
    salt, stored_key, server_key = (base64.b64decode(value[name]) for name in _BINARY)
    return ScramCredential(salt, stored_key, server_key, value["iterations"])


def _from_entry_name(name: str) -> tuple[ScramMechanism, str]:
    sasl_name, _, user = name.partition("/")
    return ScramMechanism[sasl_name.replace("-", "_")], user
