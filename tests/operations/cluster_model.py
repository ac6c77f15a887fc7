"""A cluster that is a few dictionaries, with the admin client's face.

It refuses what a real one refuses: commits into a group with members (E17-02,
E29-08), deleting such a group (D-10) or a missing one (D-11).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from coterie.client.admin.cluster_values import ClusterDescription
from coterie.client.admin.group_values import (
    GroupDescription,
    GroupListing,
    GroupListings,
    GroupState,
    GroupType,
    MemberDescription,
    Node,
)
from coterie.client.admin.offset_values import (
    EARLIEST,
    LATEST,
    AtTime,
    CommittedOffset,
    GroupOffsets,
    LogOffsetFound,
    OffsetSpec,
    PartitionDescription,
    TopicDescription,
)
from coterie.client.admin.remove_members import MemberToRemove
from coterie.client.admin.results import Results
from coterie.errors import ApiError, CoterieError
from coterie.operations.admin import Progress
from coterie.types import GroupId, TopicName, TopicPartition
from coterie.wire.error_codes import ErrorCode

NODE = Node(1, "127.0.0.1", 9092)


@dataclass
class ModelGroup:
    """A group of the new protocol, or a simple one: that of an operator's commits."""

    offsets: dict[TopicPartition, CommittedOffset] = field(default_factory=dict)
    members: tuple[str, ...] = ()
    epoch: int = 1
    unstable: set[TopicPartition] = field(default_factory=set)
    """Partitions with an offset in an open transaction."""
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
class ModelLog:
    """A log whose record at each offset has that offset as its timestamp."""

    start: int = 0
    end: int = 0

    def find(self, spec: OffsetSpec) -> LogOffsetFound:
        if spec == EARLIEST:
            return LogOffsetFound(self.start)
        if spec == LATEST:
            return LogOffsetFound(self.end)
        assert isinstance(spec, AtTime)
        at = max(self.start, spec.timestamp_ms)
        return LogOffsetFound(at, at) if at < self.end else LogOffsetFound(-1)


@dataclass
class ClusterModel:
    """What the operations ask of an admin client."""

    groups: dict[GroupId, ModelGroup] = field(default_factory=dict)
    logs: dict[TopicPartition, ModelLog] = field(default_factory=dict)
    cluster_id: str | None = "model"
    broken: dict[GroupId, CoterieError] = field(default_factory=dict)
    """Groups whose coordinator does not answer."""
    calls: list[str] = field(default_factory=list)
    """The names of the calls that came, in order."""

    async def describe_cluster(self) -> ClusterDescription:
        return ClusterDescription(self.cluster_id, 1, (NODE,))

    async def list_groups(
        self,
        *,
        states: Collection[GroupState] = (),
        types: Collection[GroupType] = (),
    ) -> GroupListings:
        assert not states
        assert not types
        described = (self.groups[each].describe(each) for each in sorted(self.groups))
        return GroupListings(
            tuple(
                GroupListing(
                    each.group_id, each.protocol_type, each.state, each.type, 1
                )
                for each in described
            )
        )

    async def describe_groups(
        self,
        group_ids: Iterable[GroupId],
        *,
        with_operations: bool = False,
        progress: Progress | None = None,
    ) -> Results[GroupId, GroupDescription]:
        self.calls.append("describe_groups")
        ids = tuple(group_ids)
        return Results(
            {each: self.groups[each].describe(each) for each in ids if self._has(each)},
            {each: self._no(each) for each in ids if not self._has(each)},
        )

    async def list_groups_offsets(
        self,
        wanted: Mapping[GroupId, Collection[TopicPartition] | None],
        *,
        require_stable: bool = False,
        progress: Progress | None = None,
    ) -> Results[GroupId, GroupOffsets]:
        self.calls.append("list_groups_offsets")
        assert require_stable
        return Results(
            {
                each: self._offsets(each, partitions)
                for each, partitions in wanted.items()
                if each not in self.broken
            },
            {each: self.broken[each] for each in wanted if each in self.broken},
        )

    async def list_offsets(
        self,
        wanted: Mapping[TopicPartition, OffsetSpec],
        *,
        committed_only: bool = False,
        progress: Progress | None = None,
    ) -> Results[TopicPartition, LogOffsetFound]:
        self.calls.append("list_offsets")
        unknown = ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return Results(
            {
                at: self.logs[at].find(spec)
                for at, spec in wanted.items()
                if at in self.logs
            },
            {at: unknown for at in wanted if at not in self.logs},
        )

    async def describe_topics(
        self, names: Iterable[TopicName] | None = None
    ) -> Results[TopicName, TopicDescription]:
        self.calls.append("describe_topics")
        assert names is not None
        found: dict[TopicName, TopicDescription] = {}
        errors: dict[TopicName, CoterieError] = {}
        for name in names:
            partitions = sorted(at.partition for at in self.logs if at.topic == name)
            if partitions:
                described = tuple(PartitionDescription(each, 1) for each in partitions)
                found[name] = TopicDescription(name, None, False, described)
            else:
                errors[name] = ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return Results(found, errors)

    async def alter_group_offsets(
        self, group_id: GroupId, offsets: Mapping[TopicPartition, CommittedOffset]
    ) -> Results[TopicPartition, None]:
        self.calls.append("alter_group_offsets")
        if group_id in self.broken:
            raise self.broken[group_id]
        group = self.groups.setdefault(group_id, ModelGroup(is_simple=True))
        if group.members:
            refused = ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
            return Results({}, dict.fromkeys(offsets, refused))
        group.offsets.update(offsets)
        return Results(dict.fromkeys(offsets))

    async def delete_group_offsets(
        self, group_id: GroupId, partitions: Collection[TopicPartition]
    ) -> Results[TopicPartition, None]:
        self.calls.append("delete_group_offsets")
        if group_id not in self.groups:
            raise self._no(group_id)
        unknown = ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        errors = {at: unknown for at in partitions if at not in self.logs}
        done = {at: None for at in partitions if at not in errors}
        for at in done:
            self.groups[group_id].offsets.pop(at, None)
        return Results(done, errors)

    async def delete_groups(
        self, group_ids: Iterable[GroupId]
    ) -> Results[GroupId, None]:
        self.calls.append("delete_groups")
        done: dict[GroupId, None] = {}
        errors: dict[GroupId, CoterieError] = {}
        for group_id in group_ids:
            if not self._has(group_id):
                errors[group_id] = self._no(group_id)
            elif self.groups[group_id].members:
                errors[group_id] = ApiError(ErrorCode.NON_EMPTY_GROUP)
            else:
                del self.groups[group_id]
                done[group_id] = None
        return Results(done, errors)

    async def remove_members(
        self,
        group_id: GroupId,
        members: Collection[MemberToRemove] | None = None,
        *,
        reason: str = "",
    ) -> Results[MemberToRemove, None]:
        self.calls.append("remove_members")
        assert members is not None
        group = self.groups[group_id]
        gone = ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
        errors = {each: gone for each in members if each.member_id not in group.members}
        for each in members:
            if each not in errors:
                group.leave(each.member_id)
        return Results({each: None for each in members if each not in errors}, errors)

    def _has(self, group_id: GroupId) -> bool:
        return group_id in self.groups and group_id not in self.broken

    def _no(self, group_id: GroupId) -> CoterieError:
        missing = ApiError(ErrorCode.GROUP_ID_NOT_FOUND)
        return self.broken.get(group_id, missing)

    def _offsets(
        self, group_id: GroupId, partitions: Collection[TopicPartition] | None
    ) -> GroupOffsets:
        """All of them, or those asked for: only then is one told of that is in a
        transaction and was never committed before."""
        group = self.groups.get(group_id, ModelGroup())
        asked = group.offsets if partitions is None else partitions
        unstable = ApiError(ErrorCode.UNSTABLE_OFFSET_COMMIT)
        return GroupOffsets(
            {at: group.offsets.get(at) for at in asked if at not in group.unstable},
            {at: unstable for at in asked if at in group.unstable},
        )
