"""One shard: the groups of one partition of `__consumer_offsets`.

A shard decides (`handle`), and takes in what was decided (`apply`, `replay`). A runtime
drives it: for each request it applies the result's changes, replays and keeps its
records, and lets answers go when those are durable. Live traffic and loading run the
same replay. A shard that failed is thrown away and loaded anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple

from coterie.coordinator.classic import (
    expire,
    heartbeat,
    join,
    leave,
    lifecycle,
    sync,
)
from coterie.coordinator.classic import replay as classic_replay
from coterie.coordinator.classic.timers import (
    EndInitialDelay,
    EndJoinPhase,
    EndSyncPhase,
    ExpireSession,
)
from coterie.coordinator.consumer import (
    classic_heartbeat,
    classic_join,
    classic_leave,
    classic_sync,
    resolve,
    topic_news,
)
from coterie.coordinator.consumer import expire as consumer_expire
from coterie.coordinator.consumer import heartbeat as consumer_heartbeat
from coterie.coordinator.consumer import lifecycle as consumer_lifecycle
from coterie.coordinator.consumer import replay as consumer_replay
from coterie.coordinator.consumer.client_side import install, prepare
from coterie.coordinator.consumer.timers import (
    EndComputation,
    EndRevocation,
    ExpireMember,
    MakeTarget,
    ResolveRegexes,
)
from coterie.coordinator.consumer.topic_news import TopicsChanged
from coterie.coordinator.describe import (
    delete_groups,
    describe_consumer_groups,
    describe_groups,
    list_groups,
)
from coterie.coordinator.describe.delete_groups import DeleteGroup
from coterie.coordinator.describe.describe_consumer_groups import (
    DescribeConsumerGroup,
)
from coterie.coordinator.describe.describe_groups import DescribeGroup
from coterie.coordinator.offsets import commit, delete, fetch, tombstones, txn_commit
from coterie.coordinator.offsets import expire as offset_expire
from coterie.coordinator.offsets import replay as offset_replay
from coterie.coordinator.offsets.expire import ExpireOffsets
from coterie.coordinator.offsets.fetch import FetchOffsets
from coterie.coordinator.offsets.tombstones import TopicsDeleted
from coterie.coordinator.records.group_metadata import (
    GroupMetadataKey,
    GroupMetadataValue,
)
from coterie.coordinator.records.offset_commit import (
    OffsetCommitKey,
    OffsetCommitValue,
)
from coterie.coordinator.result import Context, Origin, Record, Reply, Result
from coterie.coordinator.state import State
from coterie.settings import Settings
from coterie.types import GroupId, LogOffset, ProducerId
from coterie.wire.error_codes import ErrorCode
from coterie.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
)
from coterie.wire.messages.consumer_group_install_assignment import (
    ConsumerGroupInstallAssignmentRequest,
)
from coterie.wire.messages.consumer_group_prepare_assignment import (
    ConsumerGroupPrepareAssignmentRequest,
)
from coterie.wire.messages.heartbeat import HeartbeatRequest
from coterie.wire.messages.join_group import JoinGroupRequest
from coterie.wire.messages.leave_group import LeaveGroupRequest
from coterie.wire.messages.list_groups import ListGroupsRequest
from coterie.wire.messages.offset_commit import OffsetCommitRequest
from coterie.wire.messages.offset_delete import OffsetDeleteRequest
from coterie.wire.messages.sync_group import SyncGroupRequest
from coterie.wire.messages.txn_offset_commit import TxnOffsetCommitRequest
from coterie.wire.schema import Struct


class _Refusal(NamedTuple):
    """Everything an answer with an error is made of."""

    request: Any
    context: Context
    code: ErrorCode
    message: str | None


_HANDLERS: Final[Mapping[type, Callable[[State, Any, Context], Result]]] = {
    HeartbeatRequest: classic_heartbeat.handle,
    JoinGroupRequest: classic_join.handle,
    SyncGroupRequest: classic_sync.handle,
    LeaveGroupRequest: classic_leave.handle,
    OffsetCommitRequest: commit.handle,
    TxnOffsetCommitRequest: txn_commit.handle,
    FetchOffsets: fetch.handle,
    OffsetDeleteRequest: delete.handle,
    DescribeGroup: describe_groups.handle,
    DescribeConsumerGroup: describe_consumer_groups.handle,
    ListGroupsRequest: list_groups.handle,
    DeleteGroup: delete_groups.handle,
    ConsumerGroupHeartbeatRequest: consumer_heartbeat.handle,
    ConsumerGroupPrepareAssignmentRequest: prepare.handle,
    ConsumerGroupInstallAssignmentRequest: install.handle,
    ExpireMember: consumer_expire.handle,
    EndRevocation: consumer_expire.handle,
    MakeTarget: consumer_expire.handle,
    EndComputation: consumer_expire.handle,
    ResolveRegexes: resolve.handle,
    TopicsChanged: topic_news.handle,
    ExpireSession: expire.handle,
    EndInitialDelay: expire.handle,
    EndJoinPhase: expire.handle,
    EndSyncPhase: expire.handle,
    ExpireOffsets: offset_expire.handle,
    TopicsDeleted: tombstones.forget_topics,
}
"""Who decides, by the class of the request."""

_REFUSERS: Final[Mapping[type, Callable[[_Refusal], Struct]]] = {
    HeartbeatRequest: lambda no: heartbeat.refuse(no.request, no.code),
    JoinGroupRequest: lambda no: join.refuse(no.request, no.code),
    SyncGroupRequest: lambda no: sync.refuse(no.request, no.code),
    LeaveGroupRequest: lambda no: leave.refuse(no.request, no.code),
    ConsumerGroupHeartbeatRequest: lambda no: consumer_heartbeat.refuse(
        no.request, no.code, no.message
    ),
    ConsumerGroupPrepareAssignmentRequest: lambda no: prepare.refuse(
        no.code, no.message
    ),
    ConsumerGroupInstallAssignmentRequest: lambda no: install.refuse(
        no.code, no.message
    ),
    OffsetCommitRequest: lambda no: commit.refuse(no.request, no.code, no.context),
    TxnOffsetCommitRequest: lambda no: txn_commit.refuse(
        no.request, no.code, no.context
    ),
    FetchOffsets: lambda no: fetch.refuse(no.request, no.code),
    OffsetDeleteRequest: lambda no: delete.refuse(no.code),
    DescribeGroup: lambda no: describe_groups.refuse(no.request, no.code, no.message),
    DescribeConsumerGroup: lambda no: describe_consumer_groups.refuse(
        no.request, no.code, no.message
    ),
    ListGroupsRequest: lambda no: list_groups.refuse(no.code),
    DeleteGroup: lambda no: delete_groups.refuse(no.request, no.code, no.message),
}
"""Who makes the answer that carries an error; requests of our own have none."""


class Shard:
    """The state of one shard and every way to use it. See the module's docstring."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.state = State()
        self.changed: set[GroupId] = set()
        """The groups that a record or marker was about; whoever takes snapshots
        clears it."""
        self._known_until: dict[GroupId, LogOffset] = {}

    def handle(self, request: Any, context: Context) -> Result:
        """Decide about a request; changes nothing.

        Raises:
            ApiError: The protocol's no; `refuse` makes the answer of it.
        """
        return _HANDLERS[type(request)](self.state, request, context)

    def refuse(
        self,
        request: Any,
        context: Context,
        code: ErrorCode,
        message: str | None = None,
    ) -> Struct:
        """The answer to a request that carries an error where its schema has room."""
        refuser = _REFUSERS[type(request)]
        return refuser(_Refusal(request, context, code, message))

    def apply(self, result: Result) -> None:
        """Make the changes that the log does not hold. Comes before the replay."""
        for change in result.changes:
            change.apply(self.state)

    def replay(self, record: Record, origin: Origin) -> None:
        """Make true what a record says; of a transaction's, when its marker comes."""
        key, value, _ = record
        if type(key) is OffsetCommitKey:
            assert value is None or type(value) is OffsetCommitValue
            offset_replay.replay(self.state, key, value, origin)
            self.changed.add(key.group)
            return
        if self._known_until and self._knows(record, origin):
            return
        assert origin.producer_id < 0, "only offsets are part of transactions"
        if isinstance(key, GroupMetadataKey):
            assert value is None or isinstance(value, GroupMetadataValue)
            self._replay_classic(record, key, value)
            self.changed.add(key.group)
        else:
            self.changed.add(consumer_replay.replay(self.state, record))

    def _knows(self, record: Record, origin: Origin) -> bool:
        key: Any = record.key
        group_id = key.group if isinstance(key, GroupMetadataKey) else key.group_id
        return origin.log_offset < self._known_until.get(group_id, 0)

    def _replay_classic(
        self, record: Record, key: GroupMetadataKey, value: GroupMetadataValue | None
    ) -> None:
        state = self.state
        assert value is None or key.group not in state.consumer_groups, key.group
        classic_replay.replay(state, key, value)
        if value is not None:
            state.group_records[key.group] = record
            return
        state.group_records.pop(key.group, None)
        if state.offsets.has(key.group):
            # Until the group's other records say otherwise it is a simple one.
            state.ensure_group(key.group)

    def knows_until(self, group_id: GroupId, log_offset: LogOffset) -> None:
        """A snapshot had all that the log says of a group before an offset. Replaying
        older records would take the group back in time, which it does not forgive."""
        assert log_offset >= 0
        self._known_until[group_id] = log_offset

    def replay_marker(
        self,
        producer_id: ProducerId,
        producer_epoch: int,
        *,
        commit: bool,
        log_offset: LogOffset,
    ) -> None:
        """End a producer's transaction: its offsets count, or are dropped (E17-16)."""
        ended = offset_replay.replay_marker(self.state, producer_id, commit=commit)
        self.changed.update(ended)

    def after_load(self, context: Context) -> Result:
        """What a shard does once its log is replayed: set every timer; a group that
        is too large now rebalances (E19-17)."""
        groups = self.state.classic_groups.values()
        self._known_until.clear()
        now_ms = context.now_ms
        loaded = [lifecycle.loaded(group, now_ms, self.settings) for group in groups]
        loaded += [
            consumer_lifecycle.loaded(group, context)
            for group in self.state.consumer_groups.values()
        ]
        sweep = offset_expire.next_sweep(self.settings, now_ms)
        return _together([*loaded, Result(timers=(sweep,))])

    def resign(self) -> tuple[Reply, ...]:
        """Answer all parked requests NOT_COORDINATOR; groups are dead here (E19-16).

        The shard is of no use afterwards.
        """
        groups = self.state.classic_groups.values()
        result = _together(
            lifecycle.resigned(group, 0, self.settings) for group in groups
        )
        self.apply(result)
        return result.replies


def _together(results: Iterable[Result]) -> Result:
    """Results without an answer, as one."""
    all_results = tuple(results)
    return Result(
        records=tuple(each for result in all_results for each in result.records),
        changes=tuple(each for result in all_results for each in result.changes),
        timers=tuple(each for result in all_results for each in result.timers),
        replies=tuple(each for result in all_results for each in result.replies),
    )
