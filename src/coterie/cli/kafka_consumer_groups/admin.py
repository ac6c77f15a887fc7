"""What this command needs of an admin client: its shape, so that a test may bring
another. `coterie.client.admin.admin_client.AdminClient` has it."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Protocol

from coterie.client.admin.results import Results
from coterie.operations.admin import AltersOffsets, GroupReader
from coterie.types import GroupId, TopicPartition


class Admin(GroupReader, AltersOffsets, Protocol):
    """Looking at groups, and changing them."""

    async def delete_groups(
        self, group_ids: Iterable[GroupId]
    ) -> Results[GroupId, None]:
        """Delete groups with their offsets."""
        ...

    async def delete_group_offsets(
        self, group_id: GroupId, partitions: Collection[TopicPartition]
    ) -> Results[TopicPartition, None]:
        """Delete what a group committed."""
        ...
