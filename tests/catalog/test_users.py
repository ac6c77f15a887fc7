"""What is known of all users together."""

from __future__ import annotations

from coterie.auth.scram import make_credential
from coterie.catalog.users import Users, credential_entry
from coterie.types import ScramMechanism, ScramShape

SHA_256, SHA_512 = ScramMechanism


def keep(users: Users, user: str, iterations: int | None) -> None:
    made = iterations and make_credential(SHA_256, "p", bytes(16), iterations)
    entry = credential_entry(user, SHA_256, made or None)
    users.replay(entry.name, entry.value)


def test_what_most_users_look_like_is_counted() -> None:
    users = Users()
    assert users.usual_shape(SHA_256) is None
    for user, iterations in (("a", 4_096), ("b", 5_000), ("c", 5_000)):
        keep(users, user, iterations)
    assert users.usual_shape(SHA_256) == ScramShape(16, 5_000)
    assert users.usual_shape(SHA_512) is None
    keep(users, "b", 4_096)
    assert users.usual_shape(SHA_256) == ScramShape(16, 4_096)
    for user in ("a", "b"):
        keep(users, user, None)
    assert users.usual_shape(SHA_256) == ScramShape(16, 5_000)
    users.clear()
    assert users.usual_shape(SHA_256) is None
