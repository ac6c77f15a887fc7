"""What is kept of passwords, held against RFC 7677's own example."""

from __future__ import annotations

import base64

import pytest

from coterie.auth.scram import (
    credential_from_salted,
    is_password,
    make_credential,
    salted_password,
    stand_in,
)
from coterie.types import ScramMechanism, ScramShape

SHA_256, SHA_512 = ScramMechanism
SALT = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
ITERATIONS = 4_096
EXAMPLE = make_credential(SHA_256, "pencil", SALT, ITERATIONS)
"""Its keys let tests/auth/test_sasl.py repeat the RFC's conversation."""


def test_a_mechanism_has_the_name_that_sasl_gives_it() -> None:
    assert [each.sasl_name for each in ScramMechanism] == [
        "SCRAM-SHA-256",
        "SCRAM-SHA-512",
    ]


def test_a_salted_password_makes_the_same_credential_as_the_password() -> None:
    salted = salted_password(SHA_512, "pencil", SALT, ITERATIONS)
    made = credential_from_salted(SHA_512, salted, SALT, ITERATIONS)
    assert made == make_credential(SHA_512, "pencil", SALT, ITERATIONS)
    assert made.salt == SALT
    assert made.iterations == ITERATIONS
    assert (len(made.stored_key), len(made.server_key)) == (64, 64)


@pytest.mark.parametrize("mechanism", ScramMechanism)
def test_only_the_password_is_the_password(mechanism: ScramMechanism) -> None:
    held = make_credential(mechanism, "grün ", SALT, ITERATIONS)
    assert is_password(mechanism, held, "grün ")
    assert not is_password(mechanism, held, "grün")
    assert not is_password(mechanism, held, "")


@pytest.mark.parametrize("mechanism", ScramMechanism)
def test_a_stand_in_looks_like_a_credential_and_is_the_same_each_time(
    mechanism: ScramMechanism,
) -> None:
    held = make_credential(mechanism, "pencil", SALT, ITERATIONS)
    shape = ScramShape(len(SALT), ITERATIONS)
    made = stand_in(mechanism, "nobody", shape, b"secret")
    assert list(map(len, made[:3])) == list(map(len, held[:3]))
    assert made.iterations == ITERATIONS
    assert made == stand_in(mechanism, "nobody", shape, b"secret")
    others = {
        made.salt,
        stand_in(mechanism, "somebody", shape, b"secret").salt,
        stand_in(mechanism, "nobody", shape, b"another").salt,
    }
    assert len(others) == 3


def test_a_credential_does_not_tell_itself() -> None:
    assert repr(EXAMPLE) == "ScramCredential(...)"
