"""A fake admin client that returns prepared values and changes nothing."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from coterie.auth.acl import AclBinding, AclBindingFilter
from coterie.client.admin.admin_client import AdminClient
from coterie.client.admin.fetch import FirstRecord
from coterie.client.admin.group_offsets import CommittedOffset, GroupOffsets
from coterie.client.admin.groups import (
    GroupDescription,
    GroupListing,
    GroupListings,
    GroupState,
    GroupType,
    MemberDescription,
    Node,
)
from coterie.client.admin.log_offsets import (
    EARLIEST,
    LATEST,
    AtTime,
    LogOffsetInfo,
    OffsetSpec,
)
from coterie.client.admin.results import Progress, Results
from coterie.client.admin.topics import PartitionDescription, TopicDescription
from coterie.errors import ApiError, CoterieError, UnsupportedByBroker
from coterie.types import GroupId, LogOffset, TopicId, TopicName, TopicPartition
from coterie.wire.error_codes import ErrorCode
from tests.support.flat_calls import FlatCalls

NODE = Node(1, "broker", 9092)


@dataclass
class FakeLog:
    """A log: the timestamps of the records from `start` on. `markers` are the offsets
    of transaction markers among them."""

    start: int = 0
    times: list[int] = field(default_factory=list)
    markers: frozenset[int] = frozenset()

    @property
    def end(self) -> int:
        return self.start + len(self.times)

    @classmethod
    def of(cls, start: int, end: int, *, step_ms: int = 1_000) -> FakeLog:
        return cls(start, [step_ms * offset for offset in range(start, end)])

    def first_record(self, offset: int) -> FirstRecord | None:
        for at in range(max(offset, self.start), self.end):
            if at not in self.markers:
                return FirstRecord(at, self.times[at - self.start])
        return None

    def find(self, spec: OffsetSpec) -> LogOffsetInfo:
        if isinstance(spec, AtTime):
            for offset, time_ms in enumerate(self.times, self.start):
                if time_ms >= spec.timestamp_ms:
                    return LogOffsetInfo(offset, time_ms)
            return LogOffsetInfo(-1)
        assert spec in {EARLIEST, LATEST}
        return LogOffsetInfo(self.start if spec is EARLIEST else self.end)


@dataclass
class FakeAdmin(FlatCalls, AdminClient):
    """A fake admin client for groups, commits and logs.

    `calls` records the names of the calls, `requests` the names with the arguments.
    """

    known_groups: dict[GroupId, Any] = field(default_factory=dict)
    """Descriptions of groups; a subclass may have other values."""
    commits: dict[GroupId, dict[TopicPartition, int | None]] = field(
        default_factory=dict
    )
    known_logs: dict[TopicPartition, FakeLog] = field(default_factory=dict)
    group_errors: dict[GroupId, CoterieError] = field(default_factory=dict)
    commit_errors: dict[GroupId, CoterieError] = field(default_factory=dict)
    commit_item_errors: dict[GroupId, dict[TopicPartition, CoterieError]] = field(
        default_factory=dict
    )
    log_errors: dict[TopicPartition, CoterieError] = field(default_factory=dict)
    topic_errors: dict[TopicName, CoterieError] = field(default_factory=dict)
    node_errors: dict[int, CoterieError] = field(default_factory=dict)
    topic_ids: dict[TopicName, TopicId] = field(default_factory=dict)
    cannot_filter: bool = False
    is_classic_only: bool = False
    hides_topics: bool = False
    """Whether topics that are not known here may not be described."""
    cannot_read: bool = False
    """Whether fetching records is unauthorized."""
    calls: list[str] = field(default_factory=list)
    requests: list[tuple[str, object]] = field(default_factory=list)
    logs_asked: list[tuple[set[TopicPartition], bool]] = field(default_factory=list)
    """The partitions and `committed_only` of each list_offsets."""

    def add(self, description: GroupDescription, **commits: int) -> None:
        """Add a group with a commit for partition 0 of each given topic."""
        self.known_groups[description.group_id] = description
        self.commits[description.group_id] = {
            TopicPartition(topic, 0): offset for topic, offset in commits.items()
        }

    def record(self, name: str, argument: object = None) -> None:
        self.calls.append(name)
        self.requests.append((name, argument))

    def describe(self, group_id: GroupId) -> GroupDescription:
        """Return the description of an existing group."""
        description: GroupDescription = self.known_groups[group_id]
        return description

    def group_error(self, group_id: GroupId) -> CoterieError | None:
        """Return the error of describing a group."""
        missing = ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"no group {group_id}")
        known = self.group_errors.get(group_id)
        return known or (None if group_id in self.known_groups else missing)

    def offsets(
        self, group_id: GroupId, partitions: Collection[TopicPartition] | None
    ) -> GroupOffsets:
        """Return the committed offsets of a group."""
        committed = self.commits.get(group_id, {})
        if self.hides_topics and partitions is not None:
            refused = ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            return GroupOffsets({}, dict.fromkeys(partitions, refused))
        return GroupOffsets(
            {
                at: None if offset is None else CommittedOffset(offset)
                for at, offset in committed.items()
            },
            self.commit_item_errors.get(group_id, {}),
        )

    async def list_groups(
        self,
        *,
        states: Collection[GroupState] = (),
        types: Collection[GroupType] = (),
    ) -> GroupListings:
        self.record("list_groups", (frozenset(states), frozenset(types)))
        if self.cannot_filter and (states or types):
            raise UnsupportedByBroker("no filters here")
        described = (self.describe(each) for each in sorted(self.known_groups))
        listed = (
            GroupListing(
                each.group_id,
                each.protocol_type,
                None if self.cannot_filter else each.state,
                None if self.cannot_filter else each.type,
                each.coordinator.node_id,
            )
            for each in described
            if (not states or each.state in states)
            and (not types or each.type in types)
        )
        nodes = frozenset({NODE.node_id}) if self.is_classic_only else frozenset[int]()
        return GroupListings(tuple(listed), self.node_errors, nodes)

    async def describe_groups(
        self,
        group_ids: Iterable[GroupId],
        *,
        with_operations: bool = False,
        progress: Progress | None = None,
    ) -> Results[GroupId, GroupDescription]:
        wanted = list(group_ids)
        self.record("describe_groups", wanted)
        if progress is not None:
            progress(len(wanted), len(wanted))
        errors = {each: self.group_error(each) for each in wanted}
        return Results(
            {each: self.describe(each) for each in wanted if not errors[each]},
            {each: error for each, error in errors.items() if error},
        )

    async def list_groups_offsets(
        self,
        wanted: Mapping[GroupId, Collection[TopicPartition] | None],
        *,
        require_stable: bool = False,
        progress: Progress | None = None,
    ) -> Results[GroupId, GroupOffsets]:
        self.record("list_groups_offsets", list(wanted))
        return Results(
            {
                each: self.offsets(each, partitions)
                for each, partitions in wanted.items()
                if each not in self.commit_errors
            },
            {
                each: self.commit_errors[each]
                for each in wanted
                if each in self.commit_errors
            },
        )

    async def list_offsets(
        self,
        wanted: Mapping[TopicPartition, OffsetSpec],
        *,
        committed_only: bool = False,
        progress: Progress | None = None,
    ) -> Results[TopicPartition, LogOffsetInfo]:
        self.record("list_offsets", dict(wanted))
        self.logs_asked.append((set(wanted), committed_only))
        unknown = ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "no such topic")
        values, errors = {}, {}
        for at, spec in wanted.items():
            if at in self.log_errors or at not in self.known_logs:
                errors[at] = self.log_errors.get(at, unknown)
            else:
                values[at] = self.known_logs[at].find(spec)
        return Results(values, errors)

    async def first_records(
        self,
        wanted: Mapping[TopicPartition, Collection[LogOffset]],
        *,
        committed_only: bool = False,
        progress: Progress | None = None,
    ) -> Results[TopicPartition, Mapping[LogOffset, FirstRecord | None]]:
        if wanted:
            self.record("first_records", {at: [*wanted[at]] for at in wanted})
        refused = ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        if self.cannot_read:
            return Results({}, dict.fromkeys(wanted, refused))
        return Results(
            {
                at: {each: self.known_logs[at].first_record(each) for each in offsets}
                for at, offsets in wanted.items()
                if at in self.known_logs
            }
        )

    async def describe_acls(
        self, wanted: AclBindingFilter | None = None
    ) -> tuple[AclBinding, ...]:
        return ()

    async def describe_topics(
        self, names: Iterable[TopicName] | None = None
    ) -> Results[TopicName, TopicDescription]:
        topics: dict[TopicName, list[PartitionDescription]] = {}
        for topic, partition in sorted(self.known_logs):
            topics.setdefault(topic, []).append(PartitionDescription(partition, 1))
        wanted = list(topics) if names is None else list(names)
        self.record("describe_topics", wanted)
        unknown = ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "no such topic")
        return Results(
            {
                each: TopicDescription(
                    each, self.topic_ids.get(each), False, tuple(topics[each])
                )
                for each in wanted
                if each in topics
            },
            {
                each: self.topic_errors.get(each, unknown)
                for each in wanted
                if each not in topics
            },
        )


def group(
    group_id: GroupId,
    *members: MemberDescription,
    state: GroupState = GroupState.STABLE,
    type: GroupType = GroupType.CLASSIC,  # noqa: A002 - the field has this name
    protocol_type: str = "consumer",
) -> GroupDescription:
    """Return the description of a group."""
    return GroupDescription(
        group_id, type, state, protocol_type, "range", NODE, members
    )


def member(name: str, *owned: tuple[TopicName, int]) -> MemberDescription:
    """Return the description of a member with the given partitions."""
    partitions = tuple(TopicPartition(*each) for each in owned)
    return MemberDescription(f"{name}-id", name, f"/{name}", partitions)
