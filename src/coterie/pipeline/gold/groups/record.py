"""The input of a group's replay: records and topic partitions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

# Record types (Apache Kafka's CoordinatorRecordType).
CLASSIC_GROUP: Final = 2
GROUP_EPOCH: Final = 3
PARTITION_METADATA: Final = 4
MEMBER: Final = 5
TARGET_EPOCH: Final = 6
CURRENT_MEMBER: Final = 8
REGEX: Final = 16

TopicNames: TypeAlias = Mapping[str, str]
"""Names of topics by topic ID, where they are known."""


class TopicPartition(NamedTuple):
    """A partition of a topic.

    Consumer groups identify topics by ID, classic groups by name: then `topic_id` is
    None. `topic` is None while the name of an ID is unknown.
    """

    topic_id: str | None
    topic: str | None
    partition: int


class Record(NamedTuple):
    """One record of a group. Fields are named as in the silver tables; times are in
    microseconds since 1970."""

    log_offset: int
    base_offset: int
    at_us: int | None
    """Timestamp of the record."""
    record_type: int
    has_value: bool
    """False for a tombstone."""
    gap_offset: int | None = None
    """End of the newest log gap before this record; None without a gap."""
    protocol_type: str | None = None
    generation: int | None = None
    protocol: str | None = None
    leader_id: str | None = None
    state_us: int | None = None
    members: Sequence[Mapping[str, Any]] | None = None
    member_id: str | None = None
    group_epoch: int | None = None
    metadata_hash: int | None = None
    created_us: int | None = None
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str | None = None
    client_host: str | None = None
    subscribed_topics: Sequence[str] | None = None
    subscribed_regex: str | None = None
    rebalance_timeout_ms: int | None = None
    server_assignor: str | None = None
    session_timeout_ms: int | None = None
    is_classic_member: bool | None = None
    assignment_epoch: int | None = None
    assigned: Sequence[Mapping[str, Any]] | None = None
    pending_revocation: Sequence[Mapping[str, Any]] | None = None
    member_epoch: int | None = None
    previous_member_epoch: int | None = None
    member_state: int | None = None

    def is_after_gap(self, log_offset: int | None) -> bool:
        """Return whether a log gap lies between an offset and this record. With None,
        return whether one lies anywhere before this record.
        """
        if self.gap_offset is None:
            return False
        return log_offset is None or self.gap_offset > log_offset


class Moment(NamedTuple):
    """The record that changed a group, with its time and epoch."""

    record: Record
    now_us: int
    """Time of the record. It never decreases: a record without a timestamp, or with an
    older one, has the time of the previous record.
    """
    epoch: int
    """Generation of a classic group, or epoch of the member or group."""


def partitions_of(
    listed: Iterable[Mapping[str, Any]] | None, names: TopicNames
) -> list[TopicPartition]:
    """Return the partitions listed in a silver row, with topic names where known."""
    return [
        TopicPartition(
            topic_id := entry.get("topic_id"),
            entry.get("topic") or names.get(topic_id or ""),
            entry["partition"],
        )
        for entry in listed or ()
    ]
