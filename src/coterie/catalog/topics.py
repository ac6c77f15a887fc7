"""A topic, its name's rules, and what it takes to make or grow one.

Names, limits and error codes are Kafka's (its controller's ReplicationControlManager);
there are as many replicas as asked for, but they are all the same process.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from coterie.catalog.topic_configs import check_topic_config
from coterie.errors import ApiError
from coterie.types import TopicId, TopicName
from coterie.wire.error_codes import ErrorCode

CATALOG_TOPIC_ID: Final[TopicId] = bytes(15) + b"\x01"
"""Kafka's reserved id one: never a topic's."""
OFFSETS_TOPIC: Final = "__consumer_offsets"
OFFSETS_TOPIC_REPLICAS: Final = 3
"""Where there are as many nodes (E22-06)."""
OFFSETS_TOPIC_SEGMENT_BYTES: Final = 104_857_600
"""Kafka's default of `offsets.topic.segment.bytes`."""
INTERNAL_TOPICS: Final = frozenset({OFFSETS_TOPIC, "__transaction_state"})
TOPIC_NAME_LENGTH_MAX: Final = 249
PARTITIONS_PER_REQUEST_MAX: Final = 10_000

_LEGAL_NAME: Final = re.compile(r"[a-zA-Z0-9._-]+")
_RESERVED_IDS: Final = frozenset({bytes(16), CATALOG_TOPIC_ID})


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic as the catalog holds it; `configs` are only those set on the topic."""

    name: TopicName
    topic_id: TopicId
    partition_count: int
    replication_factor: int = 1
    configs: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_internal(self) -> bool:
        """Whether it belongs to the broker rather than to its users."""
        return self.name in INTERNAL_TOPICS

    def to_value(self) -> dict[str, Any]:
        """The value of its catalog entry."""
        return {
            "id": self.topic_id.hex(),
            "partitions": self.partition_count,
            "replication_factor": self.replication_factor,
            "configs": dict(self.configs),
        }

    @classmethod
    def from_value(cls, name: TopicName, value: Mapping[str, Any]) -> Topic:
        """Read the value of a catalog entry."""
        return cls(
            name,
            bytes.fromhex(value["id"]),
            value["partitions"],
            value["replication_factor"],
            value["configs"],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTopic:
    """What a client asks for. -1 means the broker's default; `assignments` gives the
    brokers of each partition by its index and then the two numbers must be -1."""

    name: TopicName
    partition_count: int = -1
    replication_factor: int = -1
    configs: Mapping[str, str | None] = field(default_factory=dict)
    assignments: Mapping[int, Sequence[int]] = field(default_factory=dict)


def is_usable_id(topic_id: TopicId) -> bool:
    """Whether a fresh random id may be a topic's.

    The reserved ids may not, nor one whose text form (URL-safe base64) starts with a
    dash, which command lines would take for an option (G1-10).
    """
    return topic_id not in _RESERVED_IDS and topic_id[0] >> 2 != 62


def check_topic_name(name: str) -> None:
    """Raise ApiError INVALID_TOPIC_EXCEPTION unless a topic can be called this."""
    if name == "":
        reason = "the empty string is not allowed"
    elif name in {".", ".."}:
        reason = f"'{name}' is not allowed"
    elif len(name) > TOPIC_NAME_LENGTH_MAX:
        reason = (
            f"the length of '{name}' is longer than the max allowed length "
            f"{TOPIC_NAME_LENGTH_MAX}"
        )
    elif not _LEGAL_NAME.fullmatch(name):
        reason = (
            f"'{name}' contains one or more characters other than ASCII "
            "alphanumerics, '.', '_' and '-'"
        )
    else:
        return
    raise ApiError(
        ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {reason}"
    )


def collision_key(name: TopicName) -> str:
    """Names that differ only in '.' against '_' collide in metric names."""
    return name.replace(".", "_")


def check_configs(configs: Mapping[str, str | None]) -> dict[str, str]:
    """The configurations as a topic holds them. Raises ApiError INVALID_CONFIG."""
    nulls = [name for name, value in configs.items() if value is None]
    if nulls:
        raise ApiError(
            ErrorCode.INVALID_CONFIG,
            f"Null value not supported for topic configs: {','.join(nulls)}",
        )
    checked = {name: value for name, value in configs.items() if value is not None}
    for name, value in checked.items():
        check_topic_config(name, value)
    return checked


def resolve_size(
    new: NewTopic, default_partitions: int, node_ids: Sequence[int]
) -> tuple[int, int]:
    """How many partitions and replicas a new topic gets.

    Raises ApiError INVALID_REQUEST, INVALID_REPLICATION_FACTOR, INVALID_PARTITIONS,
    INVALID_REPLICA_ASSIGNMENT or POLICY_VIOLATION.
    """
    if new.assignments:
        return _check_assignments(new, node_ids)
    if new.replication_factor < -1 or new.replication_factor == 0:
        raise ApiError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "Replication factor must be larger than 0, or -1 to use the default value.",
        )
    if new.partition_count < -1 or new.partition_count == 0:
        raise ApiError(
            ErrorCode.INVALID_PARTITIONS,
            "Number of partitions was set to an invalid non-positive value.",
        )
    replicas = 1 if new.replication_factor == -1 else new.replication_factor
    if replicas > len(node_ids):
        raise ApiError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"Unable to replicate the partition {replicas} time(s): The target "
            f"replication factor of {replicas} cannot be reached because only "
            f"{len(node_ids)} broker(s) are registered.",
        )
    partitions = (
        default_partitions if new.partition_count == -1 else new.partition_count
    )
    check_partitions_per_request(partitions)
    return partitions, replicas


def check_partitions_per_request(count: int) -> None:
    """Raise ApiError POLICY_VIOLATION if one request asks for too many at once."""
    if count > PARTITIONS_PER_REQUEST_MAX:
        raise ApiError(
            ErrorCode.POLICY_VIOLATION,
            "Excessively large number of partitions per request.",
        )


def _check_assignments(new: NewTopic, node_ids: Sequence[int]) -> tuple[int, int]:
    for value, what in (
        (new.replication_factor, "replication factor"),
        (new.partition_count, "numPartitions"),
    ):
        if value != -1:
            raise ApiError(
                ErrorCode.INVALID_REQUEST,
                f"A manual partition assignment was specified, but {what} was not "
                "set to -1.",
            )
    if sorted(new.assignments) != list(range(len(new.assignments))):
        raise _bad_assignment(
            "partitions should be a consecutive 0-based integer sequence"
        )
    replicas = len(new.assignments[0])
    for brokers in new.assignments.values():
        check_assignment(brokers, replicas, node_ids)
    check_partitions_per_request(len(new.assignments))
    return len(new.assignments), replicas


def check_assignment(
    brokers: Sequence[int], replicas: int, node_ids: Sequence[int]
) -> None:
    """Raise ApiError INVALID_REPLICA_ASSIGNMENT unless these brokers can hold one
    partition of a topic with that many replicas."""
    if not brokers:
        raise _bad_assignment(
            "The manual partition assignment includes an empty replica list."
        )
    for broker in brokers:
        if broker not in node_ids:
            raise _bad_assignment(
                f"The manual partition assignment includes broker {broker}, but no "
                "such broker is registered."
            )
        if brokers.count(broker) > 1:
            raise _bad_assignment(
                f"The manual partition assignment includes the broker {broker} more "
                "than once."
            )
    if len(brokers) != replicas:
        raise _bad_assignment(
            f"The manual partition assignment includes a partition with {len(brokers)} "
            f"replica(s), but this is not consistent with previous partitions, which "
            f"have {replicas} replica(s)."
        )


def _bad_assignment(message: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
