"""The state of a shard: its groups and their offsets.

Replay of records and markers changes the state that the log holds; a `Change` changes
the volatile state (see `coordinator.result`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from coterie.broker.coordinator.classic.group import ClassicGroup
from coterie.broker.coordinator.consumer.group import ConsumerGroup
from coterie.broker.coordinator.consumer.topics import TopicIndex
from coterie.broker.coordinator.offsets.store import Offsets
from coterie.broker.coordinator.result import Record
from coterie.broker.coordinator.share.group import ShareGroup
from coterie.errors import ApiError
from coterie.settings import Settings
from coterie.types import GroupId
from coterie.wire.error_codes import ErrorCode

OffsetGroup: TypeAlias = ClassicGroup | ConsumerGroup
"""A group of a type that commits offsets."""
Group: TypeAlias = OffsetGroup | ShareGroup


@dataclass(slots=True)
class State:
    """The groups, offsets and indexes of a shard.

    A group is in one of `classic_groups`, `consumer_groups` and `share_groups`.
    `group_records` holds the newest metadata record of each classic group that has one,
    as a compacted log would. A classic group without one was created by a commit, and
    exists until a sweep of expired offsets finds it without any, or by a join whose
    record has not been written yet.
    """

    classic_groups: dict[GroupId, ClassicGroup] = field(default_factory=dict)
    consumer_groups: dict[GroupId, ConsumerGroup] = field(default_factory=dict)
    share_groups: dict[GroupId, ShareGroup] = field(default_factory=dict)
    topic_index: TopicIndex = field(default_factory=TopicIndex)
    group_records: dict[GroupId, Record] = field(default_factory=dict)
    offsets: Offsets = field(default_factory=Offsets)
    is_loading: bool = False
    """Whether records are replayed that compaction may have separated."""

    def ensure_group(self, group_id: GroupId) -> None:
        """Create a simple group for a commit to an unknown group."""
        if (
            group_id not in self.classic_groups
            and group_id not in self.consumer_groups
            and group_id not in self.share_groups
        ):
            self.classic_groups[group_id] = ClassicGroup(group_id)

    def check_room(self, group_id: GroupId, settings: Settings) -> None:
        """Raise ApiError POLICY_VIOLATION when the group does not exist and the shard
        has no room for another group."""
        count = (
            len(self.classic_groups)
            + len(self.consumer_groups)
            + len(self.share_groups)
        )
        most = settings.offsets_topic_partition_max_groups
        if count >= most and self.group(group_id) is None:
            raise ApiError(
                ErrorCode.POLICY_VIOLATION,
                f"Group {group_id} cannot be created: its partition of "
                f"__consumer_offsets has {count} groups, as many as "
                f"offsets.topic.partition.max.groups ({most}) allows.",
            )

    def group(self, group_id: GroupId) -> Group | None:
        """Return a group of any type; None for an unknown one."""
        return self.offset_group(group_id) or self.share_groups.get(group_id)

    def offset_group(self, group_id: GroupId) -> OffsetGroup | None:
        """Return a classic group or a consumer group; None for others."""
        classic = self.classic_groups.get(group_id)
        return self.consumer_groups.get(group_id) if classic is None else classic


def share_group(state: State, group_id: GroupId) -> ShareGroup:
    """Return a share group.

    Raises:
        ApiError: GROUP_ID_NOT_FOUND, also for a group of another type.
    """
    group = state.share_groups.get(group_id)
    if group is None:
        exists = state.group(group_id) is not None
        reason = "is not a share group" if exists else "not found"
        raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} {reason}.")
    return group
