"""A record of a group, as the replay takes it; and a partition, as it names it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

CLASSIC_GROUP: Final = 2
GROUP_EPOCH: Final = 3
PARTITION_METADATA: Final = 4
MEMBER: Final = 5
TARGET_EPOCH: Final = 6
CURRENT_MEMBER: Final = 8
REGEX: Final = 16
GROUP_TYPES: Final = (2, 3, 4, 5, 6, 7, 8, 16)
"""Types of record that are about groups, not offsets (E22.2)."""

Names = Mapping[str, str]
"""Topic id -> the topic's name, as far as anybody knows."""


class Part(NamedTuple):
    """A partition. Consumer groups know topics by id, classic ones by name (`topic_id`
    is None then); `topic` is None while nobody said the name of an id."""

    topic_id: str | None
    topic: str | None
    partition: int


class Record(NamedTuple):
    """One record of a group. Columns are as in the silver tables; times are in
    microseconds since 1970."""

    log_offset: int
    base_offset: int
    at_us: int | None
    record_type: int
    has_value: bool
    """False for a tombstone."""
    gap_offset: int | None = None
    """Where the newest gap of the log before this record ends; None without one."""
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
        """Whether the log lost something between an offset (None: its beginning) and
        this record."""
        if self.gap_offset is None:
            return False
        return log_offset is None or self.gap_offset > log_offset


class At(NamedTuple):
    """When something happened."""

    record: Record
    now_us: int
    """The record's time, or that of the one before if it has none or goes back."""
    epoch: int
    """The generation, the member's epoch or the group's."""


def parts_of(listed: Iterable[Mapping[str, Any]] | None, names: Names) -> list[Part]:
    """Partitions as a silver table lists them, with the names that are known."""
    return [
        Part(
            topic_id := each.get("topic_id"),
            each.get("topic") or names.get(topic_id or ""),
            each["partition"],
        )
        for each in listed or ()
    ]
