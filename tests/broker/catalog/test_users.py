"""The most common SCRAM parameters among the credentials of each mechanism."""

from __future__ import annotations

from coterie.auth.scram import make_credential
from coterie.broker.catalog.users import Users, credential_entry
from coterie.types import ScramMechanism, ScramParameters

SHA_256, SHA_512 = ScramMechanism


def keep(users: Users, user: str, iterations: int | None) -> None:
    made = iterations and make_credential(SHA_256, "p", bytes(16), iterations)
    entry = credential_entry(user, SHA_256, made or None)
    users.replay(entry.name, entry.value)


def test_the_most_common_credential_parameters_are_counted() -> None:
    users = Users()
    assert users.most_common_parameters(SHA_256) is None
    for user, iterations in (("a", 4_096), ("b", 5_000), ("c", 5_000)):
        keep(users, user, iterations)
    assert users.most_common_parameters(SHA_256) == ScramParameters(16, 5_000)
    assert users.most_common_parameters(SHA_512) is None
    keep(users, "b", 4_096)
    assert users.most_common_parameters(SHA_256) == ScramParameters(16, 4_096)
    for user in ("a", "b"):
        keep(users, user, None)
    assert users.most_common_parameters(SHA_256) == ScramParameters(16, 5_000)
    users.clear()
    assert users.most_common_parameters(SHA_256) is None
