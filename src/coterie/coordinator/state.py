"""The state of one shard: its groups and their offsets.

Only the replay of records and markers changes what the log holds; only a `Change`
changes the rest (see `coordinator.result`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from coterie.coordinator.classic.group import ClassicGroup
from coterie.coordinator.consumer.group import ConsumerGroup
from coterie.coordinator.consumer.topic_index import TopicIndex
from coterie.coordinator.offsets.store import Offsets
from coterie.coordinator.result import Record
from coterie.types import GroupId

Group: TypeAlias = ClassicGroup | ConsumerGroup


@dataclass(slots=True)
class State:
    """Everything a shard knows.

    A group is in one of `classic_groups` and `consumer_groups`. `group_records` holds
    the newest metadata record of each classic group that has one: what a compacted log
    would say. A classic group without one was made by a commit and lives as long as it
    has offsets, or by a join that has not been written yet.
    """

    classic_groups: dict[GroupId, ClassicGroup] = field(default_factory=dict)
    consumer_groups: dict[GroupId, ConsumerGroup] = field(default_factory=dict)
    topic_index: TopicIndex = field(default_factory=TopicIndex)
    group_records: dict[GroupId, Record] = field(default_factory=dict)
    offsets: Offsets = field(default_factory=Offsets)

    def ensure_group(self, group_id: GroupId) -> None:
        """Make a simple group for a commit to a group nobody knew (E17-06)."""
        if group_id not in self.classic_groups and group_id not in self.consumer_groups:
            self.classic_groups[group_id] = ClassicGroup(group_id)

    def group(self, group_id: GroupId) -> Group | None:
        """The group of that id, of either type; None when there is none."""
        classic = self.classic_groups.get(group_id)
        return self.consumer_groups.get(group_id) if classic is None else classic

    def drop_group_without_trace(self, group_id: GroupId) -> None:
        """Forget a simple group when its last offset went: nothing in the log would
        make it again."""
        group = self.classic_groups.get(group_id)
        if group is None or not group.is_simple or group_id in self.group_records:
            return
        if not self.offsets.has(group_id):
            del self.classic_groups[group_id]
