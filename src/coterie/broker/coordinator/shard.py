"""A shard: the groups of one partition of `__consumer_offsets`.

`handle` returns the result of a request without changing the state; `apply` and
`replay` change the state. A runtime drives the shard: for each request it applies the
result's changes, replays and writes its records, and sends the responses when the
records are durable. Live requests and loading use the same replay. A shard that failed
is discarded and loaded again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeAlias

from coterie.broker.coordinator.admin import (
    DeleteGroup,
    DescribeConsumerGroup,
    DescribeGroup,
    delete_group,
    describe_consumer_group,
    describe_group,
    list_groups,
    refuse_delete_group,
    refuse_describe_consumer_group,
    refuse_describe_group,
    refuse_list_groups,
)
from coterie.broker.coordinator.classic import (
    group_metadata,
    heartbeat,
    join,
    leave,
    lifecycle,
    sync,
)
from coterie.broker.coordinator.classic.timers import (
    EndInitialDelay,
    EndJoinPhase,
    EndSyncPhase,
    ExpireSession,
)
from coterie.broker.coordinator.client_side.computation import (
    handle_end_computation,
    install_assignment,
    prepare_assignment,
    refuse_install,
    refuse_prepare,
)
from coterie.broker.coordinator.consumer import heartbeat as consumer_heartbeat
from coterie.broker.coordinator.consumer import leave as consumer_leave
from coterie.broker.coordinator.consumer import replay as consumer_replay
from coterie.broker.coordinator.consumer.classic_members import (
    heartbeat_of_classic_member,
    join_of_classic_member,
    leave_of_members,
    sync_of_classic_member,
)
from coterie.broker.coordinator.consumer.subscriptions import (
    TopicsChanged,
    handle_topics_changed,
    resolve_regexes,
)
from coterie.broker.coordinator.consumer.timers import (
    EndComputation,
    EndRevocation,
    ExpireMember,
    ResolveRegexes,
    timers_after_load,
)
from coterie.broker.coordinator.offsets import replay as offset_replay
from coterie.broker.coordinator.offsets.accepted import AcceptedOffsets, PackedOffsets
from coterie.broker.coordinator.offsets.commit import (
    handle_commit,
    refuse_commit,
)
from coterie.broker.coordinator.offsets.committed import Packed
from coterie.broker.coordinator.offsets.deletion import (
    ExpireOffsets,
    TopicsDeleted,
    delete_offsets,
    delete_topics_offsets,
    expire_offsets,
    next_sweep,
    refuse_delete,
)
from coterie.broker.coordinator.offsets.fetch import (
    FetchOffsets,
    fetch_offsets,
    refuse_fetch,
)
from coterie.broker.coordinator.records import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from coterie.broker.coordinator.result import Context, Origin, Record, Result
from coterie.broker.coordinator.share import heartbeat as share_heartbeat
from coterie.broker.coordinator.share import replay as share_replay
from coterie.broker.coordinator.share import start_offsets
from coterie.broker.coordinator.share.admin import (
    DescribeShareGroup,
    describe_share_group,
    handle_state_changed,
    refuse_describe_share_group,
)
from coterie.broker.coordinator.share.state_requests import ShareStateChanged
from coterie.broker.coordinator.state import State
from coterie.errors import ApiError
from coterie.settings import Settings
from coterie.types import GroupId, LogOffset, ProducerId, TopicName
from coterie.wire import messages as m
from coterie.wire.commit import Commit, Response
from coterie.wire.error_codes import ErrorCode
from coterie.wire.schema import Message

_Handler: TypeAlias = Callable[[State, Any, Context], Result]
_Refuser: TypeAlias = Callable[[Any, Context, ErrorCode, str | None], Response]


def _by_group_type(classic: _Handler, consumer: _Handler) -> _Handler:
    """Return a handler that dispatches on the type of the request's group.

    Members of the classic protocol may be in a consumer group during a migration
    (KIP-848). An unknown group is handled as a classic one.
    """

    def handle(state: State, request: Any, context: Context) -> Result:
        if request.group_id in state.consumer_groups:
            return consumer(state, request, context)
        return classic(state, request, context)

    return handle


def _join_classic_group(
    state: State, request: m.JoinGroupRequest, context: Context
) -> Result:
    """Handle a JoinGroup, which may create its group."""
    if request.group_id in state.share_groups:
        raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    state.check_room(request.group_id, context.environment.settings)
    return join.handle(state, request, context)


def _expire_member(state: State, request: ExpireMember, context: Context) -> Result:
    """Handle the expiration of a session, in a consumer group or a share group."""
    if request.group_id in state.share_groups:
        return share_heartbeat.expire_member(state, request, context)
    return consumer_leave.handle_timer(state, request, context)


_HANDLERS: Final[Mapping[type, _Handler]] = {
    # The classic protocol, in groups of both types.
    m.HeartbeatRequest: _by_group_type(heartbeat.handle, heartbeat_of_classic_member),
    m.JoinGroupRequest: _by_group_type(_join_classic_group, join_of_classic_member),
    m.SyncGroupRequest: _by_group_type(sync.handle, sync_of_classic_member),
    m.LeaveGroupRequest: _by_group_type(leave.handle, leave_of_members),
    # The consumer protocol.
    m.ConsumerGroupHeartbeatRequest: consumer_heartbeat.handle,
    m.ConsumerGroupPrepareAssignmentRequest: prepare_assignment,
    m.ConsumerGroupInstallAssignmentRequest: install_assignment,
    # The share protocol.
    m.ShareGroupHeartbeatRequest: share_heartbeat.handle,
    ShareStateChanged: handle_state_changed,
    m.AlterShareGroupOffsetsRequest: start_offsets.alter_offsets,
    m.DeleteShareGroupOffsetsRequest: start_offsets.delete_offsets,
    # Offsets.
    Commit: handle_commit,
    FetchOffsets: fetch_offsets,
    m.OffsetDeleteRequest: delete_offsets,
    # Admin clients.
    DescribeGroup: describe_group,
    DescribeConsumerGroup: describe_consumer_group,
    DescribeShareGroup: describe_share_group,
    m.ListGroupsRequest: list_groups,
    DeleteGroup: delete_group,
    # Timers, and changes of the catalog.
    ExpireSession: lifecycle.handle_timer,
    EndInitialDelay: lifecycle.handle_timer,
    EndJoinPhase: lifecycle.handle_timer,
    EndSyncPhase: lifecycle.handle_timer,
    ExpireMember: _expire_member,
    EndRevocation: consumer_leave.handle_timer,
    EndComputation: handle_end_computation,
    ResolveRegexes: resolve_regexes,
    ExpireOffsets: expire_offsets,
    TopicsChanged: handle_topics_changed,
    TopicsDeleted: delete_topics_offsets,
}
"""The handler of each class of requests."""

_REFUSERS: Final[Mapping[type, _Refuser]] = {
    m.HeartbeatRequest: heartbeat.refuse,
    m.JoinGroupRequest: join.refuse,
    m.SyncGroupRequest: sync.refuse,
    m.LeaveGroupRequest: leave.refuse,
    m.ConsumerGroupHeartbeatRequest: consumer_heartbeat.refuse,
    m.ShareGroupHeartbeatRequest: share_heartbeat.refuse,
    m.ConsumerGroupPrepareAssignmentRequest: refuse_prepare,
    m.ConsumerGroupInstallAssignmentRequest: refuse_install,
    Commit: refuse_commit,
    FetchOffsets: refuse_fetch,
    m.OffsetDeleteRequest: refuse_delete,
    DescribeGroup: refuse_describe_group,
    DescribeConsumerGroup: refuse_describe_consumer_group,
    DescribeShareGroup: refuse_describe_share_group,
    m.AlterShareGroupOffsetsRequest: start_offsets.refuse_alter,
    m.DeleteShareGroupOffsetsRequest: start_offsets.refuse_delete,
    m.ListGroupsRequest: refuse_list_groups,
    DeleteGroup: refuse_delete_group,
}
"""The function that makes an error response, by the class of the request.

Internal requests (timers, changes of the catalog) have no response.
"""


def _check_group_id(request: Any, context: Context) -> None:
    if not request.group_id:
        raise ApiError(ErrorCode.INVALID_GROUP_ID)


def _check_consumer_heartbeat(
    request: m.ConsumerGroupHeartbeatRequest, context: Context
) -> None:
    consumer_heartbeat.check_heartbeat(
        request,
        api_version=context.api_version,
        assignors=context.environment.assignors,
    )


_CHECKS: Final[Mapping[type, Callable[[Any, Context], None]]] = {
    m.HeartbeatRequest: _check_group_id,
    m.JoinGroupRequest: join.check,
    m.SyncGroupRequest: _check_group_id,
    m.LeaveGroupRequest: _check_group_id,
    m.ConsumerGroupHeartbeatRequest: _check_consumer_heartbeat,
    m.ShareGroupHeartbeatRequest: share_heartbeat.check_heartbeat,
    m.AlterShareGroupOffsetsRequest: start_offsets.check_group_id,
    m.DeleteShareGroupOffsetsRequest: start_offsets.check_group_id,
    m.OffsetDeleteRequest: _check_group_id,
}
"""The checks of a request's own fields, by the class of the request.

Handlers make them too; these are for requests that no handler gets.
"""

_UNAVAILABLE: Final = (
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
)


class Shard:
    """The state of a shard with its operations."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.state = State()
        self.changed: set[GroupId] = set()
        """The groups of the records and markers replayed since the last snapshot clears
        it."""
        self._snapshot_offsets: dict[GroupId, LogOffset] = {}

    def handle(self, request: Any, context: Context) -> Result:
        """Return the result of a request; change nothing.

        Raises:
            ApiError: The error of the response; `refuse` makes it.
        """
        return _HANDLERS[type(request)](self.state, request, context)

    def refuse(
        self,
        request: Any,
        context: Context,
        code: ErrorCode,
        message: str | None = None,
    ) -> Response:
        """Return the response to a request that carries an error where its schema
        allows.

        An error of the request's own fields comes before that of a coordinator that is
        elsewhere or loading, as in Kafka's `GroupCoordinatorService`.
        """
        check = _CHECKS.get(type(request))
        if check is not None and code in _UNAVAILABLE:
            try:
                check(request, context)
            except ApiError as error:
                code, message = error.code, error.message
        return _REFUSERS[type(request)](request, context, code, message)

    def apply(self, result: Result) -> None:
        """Make the changes that the log does not hold; called before the replay."""
        for change in result.changes:
            change.apply(self.state)

    def replay(self, record: Record, origin: Origin) -> None:
        """Apply a record to the state; offsets of a transaction are pending until its
        marker."""
        key: Any = record.key
        value = record.value
        if type(key) is OffsetCommitKey:
            assert value is None or type(value) is OffsetCommitValue
            offset_replay.replay(self.state, key, value, origin)
            self.changed.add(key.group)
            return
        group_id = key.group if isinstance(key, GroupMetadataKey) else key.group_id
        known = self._snapshot_offsets
        if known and origin.log_offset < known.get(group_id, 0):
            return
        assert origin.producer_id < 0, "only offsets are part of transactions"
        if value is not None:
            self._remove_other_types(key, group_id)
        if isinstance(key, GroupMetadataKey):
            assert value is None or isinstance(value, GroupMetadataValue)
            self._replay_classic(record, key, value)
        elif isinstance(key, share_replay.SHARE_GROUP_KEYS):
            share_replay.replay(self.state, record, origin)
        else:
            consumer_replay.replay(self.state, record)
        self.changed.add(group_id)

    def _remove_other_types(self, key: Message, group_id: GroupId) -> None:
        """Remove a consumer group or share group that a record of another type follows.

        Its tombstones are missing: the log was compacted while it was read.
        """
        state = self.state
        of_share_group = isinstance(key, share_replay.SHARE_GROUP_KEYS)
        consumer_group = state.consumer_groups.get(group_id)
        if consumer_group is not None and (
            of_share_group or isinstance(key, GroupMetadataKey)
        ):
            assert state.is_loading, group_id
            consumer_replay.remove_group(state, consumer_group)
        share_group = state.share_groups.get(group_id)
        if share_group is not None and not of_share_group:
            assert state.is_loading, group_id
            share_replay.remove_group(state, share_group)

    def _replay_classic(
        self, record: Record, key: GroupMetadataKey, value: GroupMetadataValue | None
    ) -> None:
        state = self.state
        group_metadata.replay(state, key, value)
        if value is not None:
            state.group_records[key.group] = record
            return
        state.group_records.pop(key.group, None)
        if state.offsets.has(key.group):
            # The group is a simple one until a metadata record is replayed.
            state.ensure_group(key.group)

    def replay_commit(self, commit: AcceptedOffsets, offsets: PackedOffsets) -> None:
        """Store the packed offsets of a commit, as the replay of its records does."""
        offset_replay.replay_commit(self.state, commit, offsets)
        self.changed.add(commit.group_id)

    def replay_commits(
        self, group_id: GroupId, topic: TopicName, offsets: dict[int, Packed]
    ) -> None:
        """Store the offsets of records that were read at once, as their replay does."""
        assert offsets, group_id
        self.state.ensure_group(group_id)
        self.state.offsets.stored.put_all(group_id, topic, offsets)
        self.changed.add(group_id)

    def skip_records_before(self, group_id: GroupId, log_offset: LogOffset) -> None:
        """Skip the records of a group before an offset, as a snapshot contained
        them.

        Replaying a record that is older than the state is an error of a consumer
        group's log.
        """
        assert log_offset >= 0
        self._snapshot_offsets[group_id] = log_offset

    def replay_marker(
        self,
        producer_id: ProducerId,
        producer_epoch: int,
        *,
        commit: bool,
        log_offset: LogOffset,
    ) -> None:
        """End a producer's transaction: commit or drop its offsets."""
        ended = offset_replay.replay_marker(self.state, producer_id, commit=commit)
        self.changed.update(ended)

    def begin_load(self) -> None:
        """Expect the records of a log until `after_load`."""
        assert not self.state.consumer_groups
        self.state.is_loading = True

    def after_load(self, context: Context) -> Result:
        """Return the result of the end of loading: all timers, and rebalances.

        A classic group that is larger than `group.max.size` rebalances.
        """
        groups = self.state.classic_groups.values()
        self._snapshot_offsets.clear()
        if self.state.is_loading:
            self.state.is_loading = False
            for group in self.state.consumer_groups.values():
                group.end_load()
        loaded = [lifecycle.loaded(group, context) for group in groups]
        loaded += [
            timers_after_load(group, context)
            for group in self.state.consumer_groups.values()
        ]
        loaded += [
            share_heartbeat.timers_after_load(group, context)
            for group in self.state.share_groups.values()
        ]
        sweep = next_sweep(self.settings, context.now_ms)
        return _combined([*loaded, Result(timers=(sweep,))])


def _combined(results: Iterable[Result]) -> Result:
    """Return one result with the contents of several results that have no response."""
    all_results = tuple(results)
    return Result(
        records=tuple(each for result in all_results for each in result.records),
        changes=tuple(each for result in all_results for each in result.changes),
        timers=tuple(each for result in all_results for each in result.timers),
        replies=tuple(each for result in all_results for each in result.replies),
    )
