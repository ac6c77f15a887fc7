"""What the operations need of an admin client: its shape, so that a test may bring
another. `coterie.client.admin.admin_client.AdminClient` has it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Protocol, TypeAlias

from coterie.client.admin.group_values import (
    GroupDescription,
    GroupListings,
    GroupState,
    GroupType,
)
from coterie.client.admin.offset_values import (
    GroupOffsets,
    LogOffsetFound,
    OffsetSpec,
    TopicDescription,
)
from coterie.client.admin.results import Results
from coterie.types import GroupId, TopicName, TopicPartition

Progress: TypeAlias = Callable[[int, int], None]
"""Told how many of how many are done."""


class GroupReader(Protocol):
    """What looking at groups takes."""

    async def list_groups(
        self,
        *,
        states: Collection[GroupState] = (),
        types: Collection[GroupType] = (),
    ) -> GroupListings:
        """Every group of the cluster, or those in these states and of these types."""
        ...

    async def describe_groups(
        self,
        group_ids: Iterable[GroupId],
        *,
        with_operations: bool = False,
        progress: Progress | None = None,
    ) -> Results[GroupId, GroupDescription]:
        """Groups of both protocols with their members."""
        ...

    async def list_groups_offsets(
        self,
        wanted: Mapping[GroupId, Collection[TopicPartition] | None],
        *,
        require_stable: bool = False,
        progress: Progress | None = None,
    ) -> Results[GroupId, GroupOffsets]:
        """The committed offsets of many groups; None means all of a group."""
        ...

    async def list_offsets(
        self,
        wanted: Mapping[TopicPartition, OffsetSpec],
        *,
        committed_only: bool = False,
        progress: Progress | None = None,
    ) -> Results[TopicPartition, LogOffsetFound]:
        """Offsets of logs, by what they are or by time."""
        ...

    async def describe_topics(
        self, names: Iterable[TopicName] | None = None
    ) -> Results[TopicName, TopicDescription]:
        """Topics and their partitions; None means all."""
        ...
