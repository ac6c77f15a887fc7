"""SCRAM credentials, compared with the example of RFC 7677."""

from __future__ import annotations

import base64

import pytest

from coterie.auth.scram import (
    credential_from_salted,
    make_credential,
    mock_credential,
    password_matches,
    salted_password,
)
from coterie.types import ScramMechanism, ScramParameters

SHA_256, SHA_512 = ScramMechanism
SALT = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
ITERATIONS = 4_096
EXAMPLE = make_credential(SHA_256, "pencil", SALT, ITERATIONS)
"""The RFC's credential; tests/auth/test_sasl.py repeats the RFC's exchange with it."""


def test_a_mechanism_has_its_sasl_name() -> None:
    assert [each.sasl_name for each in ScramMechanism] == [
        "SCRAM-SHA-256",
        "SCRAM-SHA-512",
    ]


def test_a_salted_password_gives_the_same_credential_as_the_password() -> None:
    salted = salted_password(SHA_512, "pencil", SALT, ITERATIONS)
    made = credential_from_salted(SHA_512, salted, SALT, ITERATIONS)
    assert made == make_credential(SHA_512, "pencil", SALT, ITERATIONS)
    assert made.salt == SALT
    assert made.iterations == ITERATIONS
    assert (len(made.stored_key), len(made.server_key)) == (64, 64)


@pytest.mark.parametrize("mechanism", ScramMechanism)
def test_only_the_exact_password_matches(mechanism: ScramMechanism) -> None:
    held = make_credential(mechanism, "grün ", SALT, ITERATIONS)
    assert password_matches(mechanism, held, "grün ")
    assert not password_matches(mechanism, held, "grün")
    assert not password_matches(mechanism, held, "")


@pytest.mark.parametrize("mechanism", ScramMechanism)
def test_a_decoy_credential_is_deterministic_and_well_formed(
    mechanism: ScramMechanism,
) -> None:
    held = make_credential(mechanism, "pencil", SALT, ITERATIONS)
    shape = ScramParameters(len(SALT), ITERATIONS)
    made = mock_credential(mechanism, "nobody", shape, b"secret")
    assert list(map(len, made[:3])) == list(map(len, held[:3]))
    assert made.iterations == ITERATIONS
    assert made == mock_credential(mechanism, "nobody", shape, b"secret")
    others = {
        made.salt,
        mock_credential(mechanism, "another user", shape, b"secret").salt,
        mock_credential(mechanism, "nobody", shape, b"another").salt,
    }
    assert len(others) == 3


def test_the_repr_of_a_credential_hides_its_keys() -> None:
    assert repr(EXAMPLE) == "ScramCredential(...)"
