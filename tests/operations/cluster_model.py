"""A fake admin client of groups that can be changed."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from coterie.client.admin.group_calls import MemberToRemove
from coterie.client.admin.group_offsets import CommittedOffset, GroupOffsets
from coterie.client.admin.groups import (
    ClusterDescription,
    GroupDescription,
    GroupState,
    GroupType,
    MemberDescription,
)
from coterie.client.admin.results import Progress, Results
from coterie.errors import ApiError, CoterieError
from coterie.types import GroupId, TopicPartition
from coterie.wire.error_codes import ErrorCode
from tests.operations.fake_admin import NODE, FakeAdmin


@dataclass
class ModelGroup:
    """A KIP-848 group, or a simple group, which has commits only."""

    offsets: dict[TopicPartition, CommittedOffset] = field(default_factory=dict)
    members: tuple[str, ...] = ()
    epoch: int = 1
    unstable: set[TopicPartition] = field(default_factory=set)
    """Partitions with an open transaction."""
    is_simple: bool = False

    def join(self, member_id: str) -> None:
        self.is_simple = False
        self.members = (*self.members, member_id)
        self.epoch += 1

    def leave(self, member_id: str) -> None:
        self.members = tuple(each for each in self.members if each != member_id)
        self.epoch += 1

    def describe(self, group_id: GroupId) -> GroupDescription:
        return GroupDescription(
            group_id,
            GroupType.CLASSIC if self.is_simple else GroupType.CONSUMER,
            GroupState.STABLE if self.members else GroupState.EMPTY,
            "" if self.is_simple else "consumer",
            "uniform",
            NODE,
            tuple(MemberDescription(each, "c", "/h") for each in self.members),
            group_epoch=None if self.is_simple else self.epoch,
            assignment_epoch=None if self.is_simple else self.epoch,
        )


@dataclass
class ClusterModel(FakeAdmin):
    """A fake admin client whose groups can be changed.

    Like a coordinator, it refuses commits into a group with members (E17-02, E29-08),
    and the deletion of a group with members (D-10) or a missing group (D-11).
    """

    known_groups: dict[GroupId, ModelGroup] = field(default_factory=dict)
    cluster_id: str | None = "model"
    broken: dict[GroupId, CoterieError] = field(default_factory=dict)
    """Groups with an unavailable coordinator."""

    def __post_init__(self) -> None:
        # An unavailable coordinator fails both describing and committing.
        self.group_errors = self.commit_errors = self.broken

    def describe(self, group_id: GroupId) -> GroupDescription:
        return self.known_groups[group_id].describe(group_id)

    def offsets(
        self, group_id: GroupId, partitions: Collection[TopicPartition] | None
    ) -> GroupOffsets:
        """Return all committed offsets, or those of the named partitions.

        A partition with an open transaction and no commit is included only when named.
        """
        group = self.known_groups.get(group_id, ModelGroup())
        wanted = group.offsets if partitions is None else partitions
        if self.hides_topics and not {*wanted} <= {*self.known_logs}:
            return super().offsets(group_id, partitions)
        unstable = ApiError(ErrorCode.UNSTABLE_OFFSET_COMMIT)
        return GroupOffsets(
            {at: group.offsets.get(at) for at in wanted if at not in group.unstable},
            {at: unstable for at in wanted if at in group.unstable},
        )

    async def describe_cluster(self) -> ClusterDescription:
        return ClusterDescription(self.cluster_id, 1, (NODE,))

    async def alter_group_offsets(
        self, group_id: GroupId, offsets: Mapping[TopicPartition, CommittedOffset]
    ) -> Results[TopicPartition, None]:
        self.record("alter_group_offsets")
        if group_id in self.broken:
            raise self.broken[group_id]
        group = self.known_groups.setdefault(group_id, ModelGroup(is_simple=True))
        if group.members:
            refused = ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
            return Results({}, dict.fromkeys(offsets, refused))
        group.offsets.update(offsets)
        return Results(dict.fromkeys(offsets))

    async def delete_group_offsets(
        self, group_id: GroupId, partitions: Collection[TopicPartition]
    ) -> Results[TopicPartition, None]:
        self.record("delete_group_offsets")
        if group_id not in self.known_groups:
            raise self.group_error(group_id) or AssertionError
        unknown = ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        errors = {at: unknown for at in partitions if at not in self.known_logs}
        done = {at: None for at in partitions if at not in errors}
        for at in done:
            self.known_groups[group_id].offsets.pop(at, None)
        return Results(done, errors)

    async def delete_groups(
        self, group_ids: Iterable[GroupId], *, progress: Progress | None = None
    ) -> Results[GroupId, None]:
        self.record("delete_groups")
        done: dict[GroupId, None] = {}
        errors: dict[GroupId, CoterieError] = {}
        for group_id in group_ids:
            if (error := self.group_error(group_id)) is not None:
                errors[group_id] = error
            elif self.known_groups[group_id].members:
                errors[group_id] = ApiError(ErrorCode.NON_EMPTY_GROUP)
            else:
                del self.known_groups[group_id]
                done[group_id] = None
        return Results(done, errors)

    async def remove_members(
        self,
        group_id: GroupId,
        members: Collection[MemberToRemove] | None = None,
        *,
        reason: str = "",
    ) -> Results[MemberToRemove, None]:
        self.record("remove_members")
        assert members is not None
        group = self.known_groups[group_id]
        gone = ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
        errors = {each: gone for each in members if each.member_id not in group.members}
        for each in members:
            if each not in errors:
                group.leave(each.member_id)
        return Results({each: None for each in members if each not in errors}, errors)
