"""What is kept of a password, as SCRAM has it (RFC 5802) and Kafka makes it.

Passwords are hashed as the UTF-8 bytes they are: Kafka prepares no strings, and neither
do its clients.
"""

from __future__ import annotations

import hashlib
import hmac
from typing import Final

from coterie.types import ScramCredential, ScramMechanism, ScramShape

ITERATIONS_MIN: Final = 4_096
ITERATIONS_MAX: Final = 16_384
"""What Kafka lets a credential have."""
SALT_BYTES_MIN: Final = 12
"""RFC 5802 wants a salt that is hard to guess; the library takes none shorter."""

_HASHES: Final = {
    ScramMechanism.SCRAM_SHA_256: "sha256",
    ScramMechanism.SCRAM_SHA_512: "sha512",
}


def salted_password(
    mechanism: ScramMechanism, password: str, salt: bytes, iterations: int
) -> bytes:
    """The password after so many rounds of hashing: some milliseconds of work."""
    return hashlib.pbkdf2_hmac(_HASHES[mechanism], password.encode(), salt, iterations)


def credential_from_salted(
    mechanism: ScramMechanism, salted: bytes, salt: bytes, iterations: int
) -> ScramCredential:
    """The credential of a salted password, which is all that a client sends."""
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
    """The credential of a password; some milliseconds of work."""
    salted = salted_password(mechanism, password, salt, iterations)
    return credential_from_salted(mechanism, salted, salt, iterations)


def stand_in(
    mechanism: ScramMechanism, user: str, shape: ScramShape, secret: bytes
) -> ScramCredential:
    """What is shown of a user there is not, the same each time: nobody learns by asking
    who there is. Whoever does not know the secret cannot tell it from a credential, and
    nobody has a password for it."""
    name = f"{mechanism.sasl_name}/{user}".encode()
    stream = hashlib.shake_256(hmac.digest(secret, name, "sha256"))
    key_bytes = hashlib.new(_HASHES[mechanism]).digest_size
    made = stream.digest(shape.salt_bytes + 2 * key_bytes)
    salt, keys = made[: shape.salt_bytes], made[shape.salt_bytes :]
    return ScramCredential(salt, keys[:key_bytes], keys[key_bytes:], shape.iterations)


def is_password(
    mechanism: ScramMechanism, credential: ScramCredential, password: str
) -> bool:
    """Whether this is the password; the time it takes does not say how nearly."""
    made = make_credential(mechanism, password, credential.salt, credential.iterations)
    return hmac.compare_digest(made.stored_key, credential.stored_key)
