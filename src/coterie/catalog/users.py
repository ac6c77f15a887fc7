"""Users who come by SASL: what is kept of their passwords (KIP-554).

A user is nothing but a name with credentials, one for each mechanism; whoever has none
left is gone. The rules and words of refusals are those of Kafka's controller.
"""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

from coterie.catalog.entries import Entry, Kind
from coterie.types import ScramCredential, ScramMechanism, ScramShape

_BINARY: Final = ("salt", "stored_key", "server_key")


class Users:
    """Every user's credentials.

    One object lives as long as its catalog: `clear` empties it, so whoever holds it
    sees what is loaded afterwards.
    """

    def __init__(self) -> None:
        self._users: dict[str, dict[ScramMechanism, ScramCredential]] = {}
        self._shapes = {each: Counter[ScramShape]() for each in ScramMechanism}

    def clear(self) -> None:
        """Forget every user, to be loaded again."""
        self._users.clear()
        for shapes in self._shapes.values():
            shapes.clear()

    def names(self) -> list[str]:
        """Every user's name, in order."""
        return sorted(self._users)

    def credentials(self, user: str) -> Mapping[ScramMechanism, ScramCredential]:
        """A user's credentials; empty for nobody."""
        return self._users.get(user, {})

    def find(self, user: str, mechanism: ScramMechanism) -> ScramCredential | None:
        """A user's credential for a mechanism, if there is one."""
        return self.credentials(user).get(mechanism)

    def usual_shape(self, mechanism: ScramMechanism) -> ScramShape | None:
        """What most credentials for a mechanism look like; None where there are
        none."""
        found = self._shapes[mechanism].most_common(1)
        return found[0][0] if found else None

    def replay(self, name: str, value: Mapping[str, Any] | None) -> None:
        """Apply an entry."""
        mechanism, user = _from_entry_name(name)
        shapes = self._shapes[mechanism]
        own = self._users.setdefault(user, {})
        before = own.pop(mechanism, None)
        if before is not None:
            shapes -= Counter({_shape(before): 1})
        if value is not None:
            own[mechanism] = made = _from_value(value)
            shapes[_shape(made)] += 1
        if not own:
            del self._users[user]


def credential_entry(
    user: str, mechanism: ScramMechanism, credential: ScramCredential | None
) -> Entry:
    """Keep a user's credential for a mechanism; None takes it away."""
    name = f"{mechanism.sasl_name}/{user}"
    return Entry(Kind.SCRAM_CREDENTIAL, name, credential and _to_value(credential))


def _shape(credential: ScramCredential) -> ScramShape:
    return ScramShape(len(credential.salt), credential.iterations)


def _to_value(credential: ScramCredential) -> dict[str, Any]:
    """Bytes in base64, under Kafka's names."""
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
