"""What the operations need of an admin client: its shape, so that a test may bring
another. `coterie.client.admin.admin_client.AdminClient` has it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Protocol, TypeAlias

if TYPE_CHECKING:
    from coterie.client.admin.cluster_values import ClusterDescription
    from coterie.client.admin.group_values import (
        GroupDescription,
        GroupListings,
        GroupState,
        GroupType,
    )
    from coterie.client.admin.offset_values import (
        CommittedOffset,
        GroupOffsets,
        LogOffsetFound,
        OffsetSpec,
        TopicDescription,
    )
    from coterie.client.admin.remove_members import MemberToRemove
    from coterie.client.admin.results import Results
    from coterie.types import GroupId, LogOffset, TopicName, TopicPartition

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


class AltersOffsets(Protocol):
    """What committing for groups takes."""

    async def alter_group_offsets(
        self, group_id: GroupId, offsets: Mapping[TopicPartition, CommittedOffset]
    ) -> Results[TopicPartition, None]:
        """Commit for a group that has no members."""
        ...


class RecordReader(GroupReader, Protocol):
    """What it takes to tell when records were written, too."""

    async def record_times(
        self, wanted: Mapping[TopicPartition, LogOffset]
    ) -> Results[TopicPartition, int]:
        """When records were written, in ms."""
        ...


class GroupWriter(GroupReader, AltersOffsets, Protocol):
    """What changing groups takes. Errors of one partition or member are told of it;
    what is wrong with a whole group raises CoterieError."""

    async def describe_cluster(self) -> ClusterDescription:
        """Which cluster it is."""
        ...

    async def delete_group_offsets(
        self, group_id: GroupId, partitions: Collection[TopicPartition]
    ) -> Results[TopicPartition, None]:
        """Delete committed offsets of a group."""
        ...

    async def delete_groups(
        self, group_ids: Iterable[GroupId]
    ) -> Results[GroupId, None]:
        """Delete groups that have no members."""
        ...

    async def remove_members(
        self,
        group_id: GroupId,
        members: Collection[MemberToRemove] | None = None,
        *,
        reason: str = "",
    ) -> Results[MemberToRemove, None]:
        """Make members leave a group; None means all."""
        ...
