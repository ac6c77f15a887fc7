"""A cluster that is a few dictionaries, with the admin client's face.

It refuses what a real one refuses: commits into a group with members (E17-02,
E29-08), deleting such a group (D-10) or a missing one (D-11).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from coterie.client.admin.group_values import (
    GroupDescription,
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
from coterie.client.admin.results import Results
from coterie.errors import ApiError, CoterieError
from coterie.types import GroupId, TopicName, TopicPartition
from coterie.wire.error_codes import ErrorCode

NODE = Node(1, "127.0.0.1", 9092)


@dataclass
class ModelGroup:
    """A group of the new protocol."""

    offsets: dict[TopicPartition, CommittedOffset] = field(default_factory=dict)
    members: tuple[str, ...] = ()
    epoch: int = 1
    unstable: set[TopicPartition] = field(default_factory=set)
    """Partitions with an offset in an open transaction."""

    def join(self, member_id: str) -> None:
        self.members = (*self.members, member_id)
        self.epoch += 1

    def leave(self, member_id: str) -> None:
        self.members = tuple(each for each in self.members if each != member_id)
        self.epoch += 1

    def describe(self, group_id: GroupId) -> GroupDescription:
        return GroupDescription(
            group_id,
            GroupType.CONSUMER,
            GroupState.STABLE if self.members else GroupState.EMPTY,
            "consumer",
            "uniform",
            NODE,
            tuple(MemberDescription(each, "c", "/h") for each in self.members),
            group_epoch=self.epoch,
            assignment_epoch=self.epoch,
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

    async def describe_groups(
        self, group_ids: Iterable[GroupId]
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
    ) -> Results[GroupId, GroupOffsets]:
        self.calls.append("list_groups_offsets")
        assert require_stable
        assert all(partitions is None for partitions in wanted.values())
        return Results(
            {each: self._offsets(each) for each in wanted if each not in self.broken},
            {each: self.broken[each] for each in wanted if each in self.broken},
        )

    async def list_offsets(
        self, wanted: Mapping[TopicPartition, OffsetSpec]
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
        group = self.groups.setdefault(group_id, ModelGroup())
        if group.members:
            refused = ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
            return Results({}, dict.fromkeys(offsets, refused))
        group.offsets.update(offsets)
        return Results(dict.fromkeys(offsets))

    def _has(self, group_id: GroupId) -> bool:
        return group_id in self.groups and group_id not in self.broken

    def _no(self, group_id: GroupId) -> CoterieError:
        missing = ApiError(ErrorCode.GROUP_ID_NOT_FOUND)
        return self.broken.get(group_id, missing)

    def _offsets(self, group_id: GroupId) -> GroupOffsets:
        group = self.groups.get(group_id, ModelGroup())
        unstable = ApiError(ErrorCode.UNSTABLE_OFFSET_COMMIT)
        return GroupOffsets(
            {
                at: offset
                for at, offset in group.offsets.items()
                if at not in group.unstable
            },
            dict.fromkeys(group.unstable, unstable),
        )
