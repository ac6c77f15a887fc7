"""The topics and groups that the command lines of the table are about.

Names are fixed: the order of Java's hash maps, which both tools print, depends on them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from contextlib import ExitStack
from typing import Final

from coterie.client.admin.group_offsets import CommittedOffset
from coterie.client.sync import SyncAdmin
from coterie.types import TopicPartition
from tests.interop.consumer_groups import (
    PROTOCOLS,
    consuming,
    make_empty_group,
)
from tests.interop.group_members import join_share_group, join_streams_group
from tests.real_clients.confluent_admin import create_topic, produce

from .differences import State

EMPTY_GROUPS: Final = ("empty-classic", "empty-consumer", "with space")
LIVE_GROUPS: Final = ("live-classic", "live-consumer")
OTHER_TYPES: Final = ("share-group", "streams-group")
SPARE: Final = ("spare-c", "spare-two")
"""Groups that are made again for each command that writes."""
_PARTITIONS: Final = {
    "orders": 3,
    "payments": 12,
    "empty": 1,
    "trimmed": 1,
    "live": 2,
    "left": 2,
}
_COMMITS: Final = {
    ("orders", 0): 3,
    ("orders", 1): 5,
    ("payments", 0): 1,
    ("payments", 1): 0,
    ("payments", 2): 1,
    ("payments", 10): 1,
    ("trimmed", 0): 1,
}
_COMMITS_LEFT: Final = {("left", 0): 1, ("left", 1): 2}


class Cluster:
    """The topics and groups on one node."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self._admin = SyncAdmin(bootstrap)
        self._members = ExitStack()

    def __enter__(self) -> Cluster:
        self._admin.__enter__()
        for topic, partitions in _PARTITIONS.items():
            create_topic(self.bootstrap, topic, partitions=partitions)
        produce(self.bootstrap, "orders", {each: [b"v"] * 5 for each in range(3)})
        produce(self.bootstrap, "payments", {each: [b"v"] for each in range(12)})
        produce(self.bootstrap, "trimmed", {0: [b"v"] * 5})
        self._admin.logs.delete_records({TopicPartition("trimmed", 0): 3})
        for protocol in PROTOCOLS:
            live = consuming(self.bootstrap, f"live-{protocol}", "live", protocol)
            self._members.enter_context(live)
        self.restore()
        return self

    def __exit__(self, *_: object) -> None:
        self._members.close()
        self._admin.close()

    def restore_from(self, state: State, before: State) -> None:
        """Restore the groups unless their state is that of before."""
        if state != before:
            self.restore()

    def restore(self) -> None:
        """Make the groups without members again, and delete the one that a reset
        makes."""
        again = ("empty-classic", "with space", *SPARE)
        self._admin.groups.delete([*again, "new"])
        for group_id in again:
            self._commit(group_id, _COMMITS)
        present = {each.group_id for each in self._admin.groups.list().groups}
        asyncio.run(self._make_other_types(present))
        if "empty-consumer" not in present:
            make_empty_group(self.bootstrap, "empty-consumer", "left", "consumer")
        found = self._admin.group_offsets.fetch("empty-consumer").offsets
        extra = [each for each in found if (*each,) not in _COMMITS_LEFT]
        if extra:
            self._admin.group_offsets.delete("empty-consumer", extra)
        self._commit("empty-consumer", _COMMITS_LEFT)

    async def _make_other_types(self, present: Collection[str]) -> None:
        """Make an empty share group and an empty streams group unless present."""
        for join, group_id in zip(
            (join_share_group, join_streams_group), OTHER_TYPES, strict=True
        ):
            if group_id not in present:
                await (await join(self.bootstrap, group_id, "left")).leave()

    def state(self) -> State:
        """Return the groups, and the commits of those that a command may change."""
        present = [each.group_id for each in self._admin.groups.list().groups]
        known = (*SPARE, *EMPTY_GROUPS, "new")
        found = self._admin.group_offsets.fetch_many(dict.fromkeys(known))
        return {
            "groups": sorted(present),
            **{
                group_id: {
                    at: None if commit is None else commit.offset
                    for at, commit in offsets.offsets.items()
                }
                for group_id, offsets in found.values.items()
            },
        }

    def _commit(self, group_id: str, offsets: Mapping[tuple[str, int], int]) -> None:
        commits = {
            TopicPartition(*at): CommittedOffset(offset)
            for at, offset in offsets.items()
        }
        results = self._admin.group_offsets.alter(group_id, commits)
        assert not results.errors, results.errors
