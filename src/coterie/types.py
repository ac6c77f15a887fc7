"""The words of the domain as types: what an int or a str means in a signature."""

from __future__ import annotations

from enum import IntEnum, StrEnum
from typing import NamedTuple, TypeAlias

GroupId: TypeAlias = str
MemberId: TypeAlias = str
TopicName: TypeAlias = str
TopicId: TypeAlias = bytes
"""Sixteen bytes; all zero means none."""
LogOffset: TypeAlias = int
ProducerId: TypeAlias = int


class TopicPartition(NamedTuple):
    """One partition of a topic, by name."""

    topic: TopicName
    partition: int


class SecurityProtocol(StrEnum):
    """How a connection is secured, and how a client says who it is."""

    PLAINTEXT = "PLAINTEXT"
    SSL = "SSL"
    SASL_PLAINTEXT = "SASL_PLAINTEXT"
    SASL_SSL = "SASL_SSL"

    @property
    def has_tls(self) -> bool:
        """Whether connections are encrypted."""
        return self in {SecurityProtocol.SSL, SecurityProtocol.SASL_SSL}

    @property
    def has_sasl(self) -> bool:
        """Whether clients give a name."""
        return self in {SecurityProtocol.SASL_PLAINTEXT, SecurityProtocol.SASL_SSL}


class ScramMechanism(IntEnum):
    """How a user shows a password without telling it, with the protocol's numbers."""

    SCRAM_SHA_256 = 1
    SCRAM_SHA_512 = 2

    @property
    def sasl_name(self) -> str:
        """The name as SASL has it, as in "SCRAM-SHA-256"."""
        return self.name.replace("_", "-")


class ScramCredential(NamedTuple):
    """What is kept of a user's password: enough to check it, not enough to know it."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int

    def __repr__(self) -> str:
        return "ScramCredential(...)"


class ScramShape(NamedTuple):
    """What anybody is told of a credential before they show a password."""

    salt_bytes: int
    iterations: int
