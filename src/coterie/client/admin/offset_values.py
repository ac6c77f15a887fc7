"""Offsets: those that groups committed, and those of the log itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final, TypeAlias

from coterie.errors import CoterieError
from coterie.types import LogOffset, TopicId, TopicPartition


@dataclass(frozen=True, slots=True)
class CommittedOffset:
    """What a group committed for a partition: the next offset it wants to read."""

    offset: LogOffset
    leader_epoch: int | None = None
    """That of the record before it, when known."""
    metadata: str = ""


@dataclass(frozen=True, slots=True)
class GroupOffsets:
    """The committed offsets of one group.

    A partition without a commit is None, if it was asked for by name (A-62); one that
    could not be read is in `errors` and nowhere else (A-63).
    """

    offsets: Mapping[TopicPartition, CommittedOffset | None]
    errors: Mapping[TopicPartition, CoterieError] = field(default_factory=dict)


class Special(IntEnum):
    """Offsets that are asked for by what they are, with the protocol's numbers."""

    LATEST = -1
    EARLIEST = -2
    MAX_TIMESTAMP = -3
    """Of the record with the latest timestamp (KIP-734)."""
    EARLIEST_LOCAL = -4
    LATEST_TIERED = -5


@dataclass(frozen=True, slots=True)
class AtTime:
    """The first record whose timestamp is at least this (ms since 1970, UTC)."""

    timestamp_ms: int


OffsetSpec: TypeAlias = Special | AtTime

LATEST: Final = Special.LATEST
EARLIEST: Final = Special.EARLIEST


@dataclass(frozen=True, slots=True)
class LogOffsetFound:
    """An offset of a log. `offset` is -1 when no record is that late."""

    offset: LogOffset
    timestamp_ms: int = -1
    """That of its record, -1 when it has none or was not asked for by time."""
    leader_epoch: int | None = None


@dataclass(frozen=True, slots=True)
class PartitionDescription:
    """One partition of a topic. `leader_id` is -1 when it has none now."""

    partition: int
    leader_id: int
    replicas: tuple[int, ...] = ()
    in_sync: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class TopicDescription:
    """A topic and its partitions, in order. `topic_id`: None on brokers before 2.8."""

    name: str
    topic_id: TopicId | None
    is_internal: bool
    partitions: tuple[PartitionDescription, ...]

    @property
    def all_partitions(self) -> tuple[TopicPartition, ...]:
        """Each of them by name."""
        return tuple(
            TopicPartition(self.name, each.partition) for each in self.partitions
        )
