"""An admin client of a cluster that exists only as values."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

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
from coterie.client.admin.results import Results
from coterie.errors import ApiError, CoterieError, UnsupportedByBroker
from coterie.operations.admin import Progress
from coterie.types import GroupId, LogOffset, TopicName, TopicPartition
from coterie.wire.error_codes import ErrorCode

NODE = Node(1, "broker", 9092)


@dataclass
class FakeLog:
    """A log: the timestamp of each record from `start` on."""

    start: int
    times: list[int]

    @property
    def end(self) -> int:
        return self.start + len(self.times)

    @classmethod
    def of(cls, start: int, end: int) -> FakeLog:
        return cls(start, [1_000 * offset for offset in range(start, end)])


@dataclass
class FakeAdmin:
    """A cluster with these groups, commits and logs; `calls` says what was asked."""

    groups: dict[GroupId, GroupDescription] = field(default_factory=dict)
    commits: dict[GroupId, dict[TopicPartition, int | None]] = field(
        default_factory=dict
    )
    logs: dict[TopicPartition, FakeLog] = field(default_factory=dict)
    group_errors: dict[GroupId, CoterieError] = field(default_factory=dict)
    commit_errors: dict[GroupId, CoterieError] = field(default_factory=dict)
    commit_item_errors: dict[GroupId, dict[TopicPartition, CoterieError]] = field(
        default_factory=dict
    )
    log_errors: dict[TopicPartition, CoterieError] = field(default_factory=dict)
    topic_errors: dict[TopicName, CoterieError] = field(default_factory=dict)
    node_errors: dict[int, CoterieError] = field(default_factory=dict)
    cannot_filter: bool = False
    cannot_read: bool = False
    """No record may be fetched."""
    calls: list[tuple[str, object]] = field(default_factory=list)
    logs_asked: list[tuple[set[TopicPartition], bool]] = field(default_factory=list)
    """What each look at logs asked for, and whether only for what is committed."""

    def add(self, description: GroupDescription, **commits: int) -> None:
        """A group, and its commits for partition 0 of topics."""
        self.groups[description.group_id] = description
        self.commits[description.group_id] = {
            TopicPartition(topic, 0): offset for topic, offset in commits.items()
        }

    async def list_groups(
        self,
        *,
        states: Collection[GroupState] = (),
        types: Collection[GroupType] = (),
    ) -> GroupListings:
        self.calls.append(("list_groups", (frozenset(states), frozenset(types))))
        if self.cannot_filter and (states or types):
            raise UnsupportedByBroker("no filters here")
        listed = (
            GroupListing(
                each.group_id,
                each.protocol_type,
                None if self.cannot_filter else each.state,
                None if self.cannot_filter else each.type,
                each.coordinator.node_id,
            )
            for _, each in sorted(self.groups.items())
            if (not states or each.state in states)
            and (not types or each.type in types)
        )
        return GroupListings(tuple(listed), self.node_errors)

    async def describe_groups(
        self,
        group_ids: Iterable[GroupId],
        *,
        with_operations: bool = False,
        progress: Progress | None = None,
    ) -> Results[GroupId, GroupDescription]:
        wanted = list(group_ids)
        self.calls.append(("describe_groups", wanted))
        if progress is not None:
            progress(len(wanted), len(wanted))
        errors = {each: self._group_error(each) for each in wanted}
        return Results(
            {each: self.groups[each] for each in wanted if not errors[each]},
            {each: error for each, error in errors.items() if error},
        )

    def _group_error(self, group_id: GroupId) -> CoterieError | None:
        missing = ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"no group {group_id}")
        known = self.group_errors.get(group_id)
        return known or (None if group_id in self.groups else missing)

    async def list_groups_offsets(
        self,
        wanted: Mapping[GroupId, Collection[TopicPartition] | None],
        *,
        require_stable: bool = False,
        progress: Progress | None = None,
    ) -> Results[GroupId, GroupOffsets]:
        self.calls.append(("list_groups_offsets", list(wanted)))
        values = {
            each: self._offsets(each)
            for each in wanted
            if each not in self.commit_errors
        }
        errors = {
            each: self.commit_errors[each] for each in wanted if each not in values
        }
        return Results(values, errors)

    def _offsets(self, group_id: GroupId) -> GroupOffsets:
        committed = self.commits.get(group_id, {})
        return GroupOffsets(
            {
                at: None if offset is None else CommittedOffset(offset)
                for at, offset in committed.items()
            },
            self.commit_item_errors.get(group_id, {}),
        )

    async def list_offsets(
        self,
        wanted: Mapping[TopicPartition, OffsetSpec],
        *,
        committed_only: bool = False,
        progress: Progress | None = None,
    ) -> Results[TopicPartition, LogOffsetFound]:
        self.calls.append(("list_offsets", dict(wanted)))
        self.logs_asked.append((set(wanted), committed_only))
        unknown = ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "no such topic")
        values, errors = {}, {}
        for at, spec in wanted.items():
            if at in self.log_errors or at not in self.logs:
                errors[at] = self.log_errors.get(at, unknown)
            else:
                values[at] = _found(self.logs[at], spec)
        return Results(values, errors)

    async def record_times(
        self, wanted: Mapping[TopicPartition, LogOffset]
    ) -> Results[TopicPartition, int]:
        self.calls.append(("record_times", dict(wanted)))
        refused = ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        if self.cannot_read:
            return Results({}, dict.fromkeys(wanted, refused))
        return Results(
            {
                at: self.logs[at].times[offset - self.logs[at].start]
                for at, offset in wanted.items()
                if at in self.logs and offset >= self.logs[at].start
            }
        )

    async def describe_topics(
        self, names: Iterable[TopicName] | None = None
    ) -> Results[TopicName, TopicDescription]:
        there: dict[TopicName, list[PartitionDescription]] = {}
        for topic, partition in sorted(self.logs):
            there.setdefault(topic, []).append(PartitionDescription(partition, 1))
        wanted = list(there) if names is None else list(names)
        self.calls.append(("describe_topics", wanted))
        unknown = ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "no such topic")
        return Results(
            {
                each: TopicDescription(each, None, False, tuple(there[each]))
                for each in wanted
                if each in there
            },
            {
                each: self.topic_errors.get(each, unknown)
                for each in wanted
                if each not in there
            },
        )


def _found(log: FakeLog, spec: OffsetSpec) -> LogOffsetFound:
    if isinstance(spec, AtTime):
        for offset, time_ms in enumerate(log.times, log.start):
            if time_ms >= spec.timestamp_ms:
                return LogOffsetFound(offset, time_ms)
        return LogOffsetFound(-1)
    assert spec in {EARLIEST, LATEST}
    return LogOffsetFound(log.start if spec is EARLIEST else log.end)


def group(
    group_id: GroupId,
    *members: MemberDescription,
    state: GroupState = GroupState.STABLE,
    type: GroupType = GroupType.CLASSIC,  # noqa: A002 - as the value has it
    protocol_type: str = "consumer",
) -> GroupDescription:
    """A described group."""
    return GroupDescription(
        group_id, type, state, protocol_type, "range", NODE, members
    )


def member(name: str, *owned: tuple[TopicName, int]) -> MemberDescription:
    """A member of that name which owns these partitions."""
    partitions = tuple(TopicPartition(*each) for each in owned)
    return MemberDescription(f"{name}-id", name, f"/{name}", partitions)
