"""Users and how their passwords are kept (KIP-554)."""

from __future__ import annotations

from dataclasses import dataclass

from coterie.auth.scram import ITERATIONS_MIN
from coterie.client.secret import Secret
from coterie.types import ScramMechanism


@dataclass(frozen=True, slots=True)
class ScramInfo:
    """That a user has a password of this kind. What is kept of it, nobody is told."""

    mechanism: ScramMechanism
    iterations: int


@dataclass(frozen=True, slots=True)
class ScramUpsertion:
    """A password a user is to have, in place of the one of this kind they had. It is
    salted and hashed here; it goes nowhere as it is."""

    user: str
    mechanism: ScramMechanism
    password: Secret
    iterations: int = ITERATIONS_MIN
    """How often it is hashed: Kafka wants from 4,096 to 16,384 times."""
    salt: bytes | None = None
    """None for a fresh one, which is what is safe."""


@dataclass(frozen=True, slots=True)
class ScramDeletion:
    """A password a user is not to have any more."""

    user: str
    mechanism: ScramMechanism
