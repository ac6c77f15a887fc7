"""The state of one shard: its groups and their offsets.

Only the replay of records and markers changes what the log holds; only a `Change`
changes the rest (see `coordinator.result`).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from coterie.coordinator.classic.group import ClassicGroup
from coterie.coordinator.offsets.store import Offsets
from coterie.coordinator.result import Record
from coterie.types import GroupId


@dataclass(slots=True)
class State:
    """Everything a shard knows.

    `group_records` holds the newest metadata record of each group that has one: what
    a compacted log would say. A group that is in `groups` alone was made by a commit
    and lives as long as it has offsets, or by a join that has not been written yet.
    """

    groups: dict[GroupId, ClassicGroup] = field(default_factory=dict)
    group_records: dict[GroupId, Record] = field(default_factory=dict)
    offsets: Offsets = field(default_factory=Offsets)

    def ensure_group(self, group_id: GroupId) -> None:
        """Make a simple group for a commit to a group nobody knew (E17-06)."""
        if group_id not in self.groups:
            self.groups[group_id] = ClassicGroup(group_id)

    def drop_group_without_trace(self, group_id: GroupId) -> None:
        """Forget a simple group when its last offset went: nothing in the log would
        make it again."""
        group = self.groups.get(group_id)
        if group is None or not group.is_simple or group_id in self.group_records:
            return
        if not self.offsets.has(group_id):
            del self.groups[group_id]
