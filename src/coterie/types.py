"""Domain types: names for the ints and strings in signatures, and small values."""

from __future__ import annotations

from enum import IntEnum, StrEnum
from typing import Final, NamedTuple, TypeAlias

OFFSETS_TOPIC: Final = "__consumer_offsets"
"""The topic of the group coordinator's log."""
PORT_MAX: Final = 65_535
"""The largest TCP port."""

GroupId: TypeAlias = str
"""The id of a group (`group.id`)."""
MemberId: TypeAlias = str
"""The id of a group's member, unique in its group."""
TopicName: TypeAlias = str
"""The name of a topic."""
TopicId: TypeAlias = bytes
"""The id of a topic (KIP-516): sixteen bytes, all zero for no topic."""
LogOffset: TypeAlias = int
"""An offset in the log of a partition."""
ProducerId: TypeAlias = int
"""The id of an idempotent or transactional producer (KIP-98)."""


class TopicPartition(NamedTuple):
    """A partition of a topic, by the topic's name."""

    topic: TopicName
    partition: int


class ShareGroupConfigs(NamedTuple):
    """The effective configurations `share.*` of a share group, in Kafka's units.

    `auto_offset_reset` is `latest`, `earliest` or `by_duration:DURATION`;
    `dead_letter_topic` is empty for none (KIP-1191).
    """

    session_timeout_ms: int
    heartbeat_interval_ms: int
    assignment_interval_ms: int
    record_lock_duration_ms: int
    delivery_count_limit: int
    partition_max_record_locks: int
    auto_offset_reset: str
    isolation_level: str
    renew_acknowledge_enable: bool
    dead_letter_topic: str
    dead_letter_copy_record: bool


class SecurityProtocol(StrEnum):
    """The encryption and authentication of a connection (`security.protocol`)."""

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
        """Whether clients authenticate by SASL."""
        return self in {SecurityProtocol.SASL_PLAINTEXT, SecurityProtocol.SASL_SSL}


class ScramMechanism(IntEnum):
    """The SCRAM mechanisms, with the protocol's numbers (KIP-554)."""

    SCRAM_SHA_256 = 1
    SCRAM_SHA_512 = 2

    @property
    def sasl_name(self) -> str:
        """The mechanism's name in SASL, as in "SCRAM-SHA-256"."""
        return self.name.replace("_", "-")


class ScramCredential(NamedTuple):
    """A SCRAM credential (RFC 5802): it verifies a password without containing it."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int

    def __repr__(self) -> str:
        return "ScramCredential(...)"


class ScramParameters(NamedTuple):
    """The parameters of a credential that a server reveals before authentication."""

    salt_bytes: int
    iterations: int
