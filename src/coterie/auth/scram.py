"""SCRAM credentials (RFC 5802), derived as Kafka derives them (KIP-84, KIP-554).

Passwords are hashed as UTF-8 without SASLprep: neither Kafka nor its clients prepare
strings.
"""

from __future__ import annotations

import hashlib
import hmac
from typing import Final

from coterie.types import ScramCredential, ScramMechanism, ScramParameters

ITERATIONS_MIN: Final = 4_096
ITERATIONS_MAX: Final = 16_384
"""Kafka's limits of a credential's iterations."""
SALT_BYTES_MIN: Final = 12
"""The shortest salt that the SCRAM library accepts."""

_HASHES: Final = {
    ScramMechanism.SCRAM_SHA_256: "sha256",
    ScramMechanism.SCRAM_SHA_512: "sha512",
}


def salted_password(
    mechanism: ScramMechanism, password: str, salt: bytes, iterations: int
) -> bytes:
    """Return the salted password: the result of PBKDF2 with that many iterations. This
    takes milliseconds."""
    return hashlib.pbkdf2_hmac(_HASHES[mechanism], password.encode(), salt, iterations)


def credential_from_salted(
    mechanism: ScramMechanism, salted: bytes, salt: bytes, iterations: int
) -> ScramCredential:
    """Return the credential of a salted password, as clients send it (KIP-554)."""
    name = _HASHES[mechanism]
    client_key = hmac.digest(salted, b"Client Key", name)
    stored_key = hashlib.new(name, client_key).digest()
    server_key = hmac.digest(salted, b"Server Key", name)
    return ScramCredential(salt, stored_key, server_key, iterations)


def make_credential(
    mechanism: ScramMechanism,
    password: str,
    salt: bytes,
    iterations: int = ITERATIONS_MIN,
) -> ScramCredential:
    """Return the credential of a password. This takes milliseconds."""
    salted = salted_password(mechanism, password, salt, iterations)
    return credential_from_salted(mechanism, salted, salt, iterations)


def mock_credential(
    mechanism: ScramMechanism, user: str, parameters: ScramParameters, secret: bytes
) -> ScramCredential:
    """Return a credential for a user that does not exist; no password matches it.

    It is the same on every call, so that responses do not reveal which users exist. A
    client that does not know `secret` cannot distinguish it from a real credential.
    """
    name = f"{mechanism.sasl_name}/{user}".encode()
    stream = hashlib.shake_256(hmac.digest(secret, name, "sha256"))
    key_bytes = hashlib.new(_HASHES[mechanism]).digest_size
    random = stream.digest(parameters.salt_bytes + 2 * key_bytes)
    salt, keys = random[: parameters.salt_bytes], random[parameters.salt_bytes :]
    return ScramCredential(
        salt, keys[:key_bytes], keys[key_bytes:], parameters.iterations
    )


def password_matches(
    mechanism: ScramMechanism, credential: ScramCredential, password: str
) -> bool:
    """Return whether the password matches the credential; compare in constant time."""
    made = make_credential(mechanism, password, credential.salt, credential.iterations)
    return hmac.compare_digest(made.stored_key, credential.stored_key)
