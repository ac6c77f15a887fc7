"""A fake admin client of a cluster with share groups, which can be changed."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from coterie.client.admin.group_offsets import GroupOffsets
from coterie.client.admin.groups import GroupState, GroupType
from coterie.client.admin.results import Progress, Results
from coterie.client.admin.share_groups import ShareGroupOffsets, ShareOffset
from coterie.errors import ApiError, CoterieError
from coterie.types import GroupId, LogOffset, TopicName, TopicPartition
from coterie.wire.error_codes import ErrorCode
from tests.operations.fake_admin import FakeAdmin, group

Starts = dict[TopicPartition, ShareOffset | None]


@dataclass
class ShareCluster(FakeAdmin):
    """A fake admin client whose share groups can be changed and deleted, as in Kafka:
    only without members, offsets by topic, and created by a change of offsets."""

    starts: dict[GroupId, Starts] = field(default_factory=dict)

    def add_share_group(
        self, group_id: GroupId, starts: Starts, state: GroupState = GroupState.EMPTY
    ) -> None:
        share = GroupType.SHARE
        self.known_groups[group_id] = group(
            group_id, state=state, type=share, protocol_type="share"
        )
        self.starts[group_id] = starts

    async def list_groups_offsets(
        self,
        wanted: Mapping[GroupId, Collection[TopicPartition] | None],
        *,
        require_stable: bool = False,
        progress: Progress | None = None,
    ) -> Results[GroupId, GroupOffsets]:
        others = {each: of for each, of in wanted.items() if each not in self.starts}
        found = await super().list_groups_offsets(
            others, require_stable=require_stable, progress=progress
        )
        no_consumers = ApiError(ErrorCode.GROUP_ID_NOT_FOUND, "not a consumer group")
        errors: dict[GroupId, CoterieError] = dict(found.errors)
        errors |= {each: no_consumers for each in wanted if each in self.starts}
        return Results(found.values, errors)

    async def list_share_groups_offsets(
        self,
        wanted: Mapping[GroupId, Collection[TopicPartition] | None],
        *,
        progress: Progress | None = None,
    ) -> Results[GroupId, ShareGroupOffsets]:
        self.record("list_share_groups_offsets", list(wanted))
        return Results({each: ShareGroupOffsets(self.starts[each]) for each in wanted})

    async def alter_share_group_offsets(
        self, group_id: GroupId, starts: Mapping[TopicPartition, LogOffset]
    ) -> Results[TopicPartition, None]:
        self.record("alter_share_group_offsets", dict(starts))
        if group_id not in self.known_groups:
            self.add_share_group(group_id, {})
        for at, start in starts.items():
            lag = self.known_logs[at].end - start
            self.starts[group_id][at] = ShareOffset(start, 0, lag)
        return Results(dict.fromkeys(starts))

    async def delete_share_group_offsets(
        self, group_id: GroupId, topics: Collection[TopicName]
    ) -> Results[TopicName, None]:
        self.record("delete_share_group_offsets", list(topics))
        for at in [each for each in self.starts[group_id] if each.topic in topics]:
            del self.starts[group_id][at]
        return Results(dict.fromkeys(topics))

    async def delete_groups(
        self, group_ids: Iterable[GroupId], *, progress: Progress | None = None
    ) -> Results[GroupId, None]:
        ids = list(group_ids)
        for each in ids:
            del self.known_groups[each]
            self.starts.pop(each, None)
        return Results(dict.fromkeys(ids))
