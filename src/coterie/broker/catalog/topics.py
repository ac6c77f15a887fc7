"""Topics: the rules of names, partition counts and replica assignments.

Names, limits and error codes are Kafka's (ReplicationControlManager of its controller).
A topic has the requested replication factor, but all replicas are this process.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from coterie.broker.catalog.configs import check_topic_config
from coterie.errors import ApiError
from coterie.types import OFFSETS_TOPIC, TopicId, TopicName
from coterie.wire.error_codes import ErrorCode

CATALOG_TOPIC_ID: Final[TopicId] = bytes(15) + b"\x01"
"""Kafka's reserved id one, which no topic has."""
OFFSETS_TOPIC_REPLICAS: Final = 3
"""Fewer when there are fewer nodes."""
OFFSETS_TOPIC_SEGMENT_BYTES: Final = 104_857_600
"""Kafka's default of `offsets.topic.segment.bytes`."""
SHARE_STATE_TOPIC: Final = "__share_group_state"
SHARE_STATE_PARTITIONS: Final = 50
"""Kafka's default of `share.coordinator.state.topic.num.partitions`."""
INTERNAL_TOPICS: Final = frozenset(
    {OFFSETS_TOPIC, SHARE_STATE_TOPIC, "__transaction_state"}
)
TOPIC_NAME_LENGTH_MAX: Final = 249
PARTITIONS_PER_REQUEST_MAX: Final = 10_000

_LEGAL_NAME: Final = re.compile(r"[a-zA-Z0-9._-]+")
_RESERVED_IDS: Final = frozenset({bytes(16), CATALOG_TOPIC_ID})


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic. `configs` are those set on the topic itself.

    `racks` holds the racks of each partition's replicas; empty when the catalog does
    not have them, as for the topics of this process.
    """

    name: TopicName
    topic_id: TopicId
    partition_count: int
    replication_factor: int = 1
    configs: Mapping[str, str] = field(default_factory=dict)
    racks: tuple[frozenset[str], ...] = ()

    @property
    def is_internal(self) -> bool:
        """Whether the topic is internal."""
        return self.name in INTERNAL_TOPICS

    def to_value(self) -> dict[str, Any]:
        """Return the value of the catalog entry."""
        value: dict[str, Any] = {
            "id": self.topic_id.hex(),
            "partitions": self.partition_count,
            "replication_factor": self.replication_factor,
            "configs": dict(self.configs),
        }
        if self.racks:
            value["racks"] = [sorted(each) for each in self.racks]
        return value

    @classmethod
    def from_value(cls, name: TopicName, value: Mapping[str, Any]) -> Topic:
        """Return the topic of a catalog entry's value."""
        return cls(
            name,
            bytes.fromhex(value["id"]),
            value["partitions"],
            value["replication_factor"],
            value["configs"],
            _racks(value.get("racks", ())),
        )


def _racks(partitions: Iterable[Iterable[str]]) -> tuple[frozenset[str], ...]:
    """Return the racks of each partition; equal ones share a set."""
    shared: dict[tuple[str, ...], frozenset[str]] = {}
    return tuple(
        shared.setdefault(tuple(racks), frozenset(racks)) for racks in partitions
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTopic:
    """A requested topic. The number -1 stands for the broker's default. `assignments`
    maps each partition index to brokers; with it, both numbers must be -1."""

    name: TopicName
    partition_count: int = -1
    replication_factor: int = -1
    configs: Mapping[str, str | None] = field(default_factory=dict)
    assignments: Mapping[int, Sequence[int]] = field(default_factory=dict)


def is_usable_id(topic_id: TopicId) -> bool:
    """Return whether a random id may be used for a topic.

    Reserved ids are not used, nor an id whose text form (URL-safe base64) starts with a
    dash, which command lines would parse as an option.
    """
    return topic_id not in _RESERVED_IDS and topic_id[0] >> 2 != 62


def check_topic_name(name: str) -> None:
    """Raise ApiError INVALID_TOPIC_EXCEPTION for an invalid name."""
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
    """Return a key that is equal for names that collide in metric names."""
    return name.replace(".", "_")


def check_configs(configs: Mapping[str, str | None]) -> dict[str, str]:
    """Return the validated configurations. Raises ApiError INVALID_CONFIG."""
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
    """Return the numbers of partitions and replicas of a new topic.

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
    """Raise ApiError POLICY_VIOLATION for more partitions than a request may create."""
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
    """Raise ApiError INVALID_REPLICA_ASSIGNMENT unless a partition with that many
    replicas can be assigned to these brokers."""
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
