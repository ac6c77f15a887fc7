"""Counters of the coordinator.

Results are counted when they are written; a replay at load counts nothing.
With metrics enabled the partitions assigned to each consumer group member are tracked
too, and during a rebalance which member revoked a partition and when. A server without
metrics tracks nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

from coterie.broker.coordinator.consumer.group import ConsumerGroupState
from coterie.broker.coordinator.consumer.timers import ResolveRegexes
from coterie.broker.coordinator.offsets.deletion import ExpireOffsets
from coterie.broker.coordinator.records import (
    ConsumerGroupCurrentMemberAssignmentKey as _CurrentKey,
)
from coterie.broker.coordinator.records import (
    ConsumerGroupCurrentMemberAssignmentValue as _Current,
)
from coterie.broker.coordinator.records import (
    ConsumerGroupMetadataKey as _EpochKey,
)
from coterie.broker.coordinator.records import (
    GroupMetadataKey,
    OffsetCommitKey,
    ShareGroupMetadataKey,
)
from coterie.broker.coordinator.result import Record, Result
from coterie.broker.coordinator.state import State
from coterie.types import GroupId, MemberId, TopicId
from coterie.wire import messages as m

Observe = Callable[[float], None]
_Partition: TypeAlias = tuple[TopicId, int]
_JOIN_EPOCH: Final = 0


class _Unowned(NamedTuple):
    """The previous owner of a partition without an owner, and the time when the
    partition became free."""

    member_id: MemberId
    since_ms: int


class Metrics:
    """The counters of one server.

    `observe_rebalance` and `observe_unowned` take, in seconds, the duration of each
    rebalance and of each time a partition had no owner.
    """

    def __init__(self, observe_rebalance: Observe, observe_unowned: Observe) -> None:
        self.offset_commits = 0
        self.offset_deletions = 0
        self.offset_expirations = 0
        self.completed_rebalances = 0
        """The number of generations of classic groups that the leader's SyncGroup
        completed."""
        self.consumer_rebalances = 0
        """The number of group epoch bumps, except by a leave or a fence."""
        self.share_rebalances = 0
        """The number of group epoch bumps of share groups by heartbeats, except by a
        leave."""
        self.partitions_moved = 0
        """The number of partitions that were assigned to another member than before."""
        self._observe_rebalance = observe_rebalance
        self._observe_unowned = observe_unowned
        self._rebalancing: dict[GroupId, int] = {}
        """The time at which the rebalance of a group began, in ms."""
        self._assigned: dict[tuple[GroupId, MemberId], set[_Partition]] = {}
        self._unowned: dict[GroupId, dict[_Partition, _Unowned]] = {}

    def count(self, state: State, request: Any, result: Result, now_ms: int) -> None:
        """Count a result that has been applied."""
        if result.commit is not None:
            self.offset_commits += result.commit.record_count
            return
        assert result.records, "a result without records is not counted"
        if isinstance(request, m.ShareGroupHeartbeatRequest):
            bumps = (type(each.key) is ShareGroupMetadataKey for each in result.records)
            self.share_rebalances += request.member_epoch >= _JOIN_EPOCH and any(bumps)
            return
        groups: dict[GroupId, bool] = {}
        """The consumer groups of the records, and whether their epoch was bumped."""
        for record in result.records:
            key = record.key
            if type(key) is OffsetCommitKey:
                self._count_offset(record, request)
            elif isinstance(key, GroupMetadataKey):
                self.completed_rebalances += isinstance(request, m.SyncGroupRequest)
            else:
                group_id: GroupId = key.group_id  # type: ignore[attr-defined]
                is_bump = type(key) is _EpochKey and record.value is not None
                groups[group_id] = groups.get(group_id, False) or is_bump
                if type(key) is _CurrentKey:
                    self._count_assignment(key, record.value, now_ms)
        # An upgrade writes the group with its current epoch and then bumps it. A
        # request bumps an epoch at most once.
        self.consumer_rebalances += any(groups.values()) and _is_counted(request)
        for group_id, is_bumped in groups.items():
            self._track_rebalance(state, group_id, now_ms, is_bumped=is_bumped)

    def _count_offset(self, record: Record, request: Any) -> None:
        if record.value is not None:
            self.offset_commits += 1
        elif isinstance(request, ExpireOffsets):
            self.offset_expirations += 1
        else:
            self.offset_deletions += 1

    def _count_assignment(self, key: _CurrentKey, value: Any, now_ms: int) -> None:
        """Compare a member's assigned partitions with those of its previous record.

        A member without a previous record may have had the same partitions before the
        server started, so none of them counts as moved.
        """
        group_id, member_id = holder = (key.group_id, key.member_id)
        partitions = _assigned(value)
        before = self._assigned.pop(holder, None)
        if value is not None:
            self._assigned[holder] = partitions
        if before is None:
            is_old = value is not None and value.previous_member_epoch > _JOIN_EPOCH
            before = partitions if is_old else set()
        if partitions == before:
            return
        unowned = self._unowned.setdefault(group_id, {})
        for partition in before - partitions:
            unowned[partition] = _Unowned(member_id, now_ms)
        for partition in partitions - before:
            last = unowned.pop(partition, None)
            if last is not None:
                assert last.since_ms <= now_ms, partition
                self._observe_unowned((now_ms - last.since_ms) / 1000)
                self.partitions_moved += last.member_id != member_id

    def _track_rebalance(
        self, state: State, group_id: GroupId, now_ms: int, *, is_bumped: bool
    ) -> None:
        """Begin or end the rebalance of a group.

        Partitions without an owner at its end have no target member, so they are
        dropped, like all state of a removed group.
        """
        group = state.consumer_groups.get(group_id)
        if group is None or not group.members:
            self._rebalancing.pop(group_id, None)
            if group is None:
                self._unowned.pop(group_id, None)
            return
        if is_bumped:
            self._rebalancing.setdefault(group_id, now_ms)
        began_ms = self._rebalancing.get(group_id)
        if began_ms is not None and group.state is ConsumerGroupState.STABLE:
            assert began_ms <= now_ms, group_id
            self._observe_rebalance((now_ms - began_ms) / 1000)
            del self._rebalancing[group_id]
            self._unowned.pop(group_id, None)

    @property
    def counters(self) -> Mapping[str, int]:
        """The counters that Kafka also has, by Kafka's names."""
        return {
            "offset_commit": self.offset_commits,
            "offset_deletion": self.offset_deletions,
            "offset_expiration": self.offset_expirations,
            "group_completed_rebalance": self.completed_rebalances,
            "consumer_group_rebalance": self.consumer_rebalances,
            "share_group_rebalance": self.share_rebalances,
        }


def _is_counted(request: Any) -> bool:
    """Return whether Kafka counts a bump by this request.

    Bumps by leaves and fences are not counted. A bump by a resolved regular expression
    is counted, because a heartbeat subscribed by the expression.
    """
    if isinstance(request, m.ConsumerGroupHeartbeatRequest):
        return request.member_epoch >= _JOIN_EPOCH
    return isinstance(request, m.JoinGroupRequest | m.HeartbeatRequest | ResolveRegexes)


def _assigned(value: _Current | None) -> set[_Partition]:
    if value is None:
        return set()
    return {
        (topic.topic_id, partition)
        for topics in (value.assigned_partitions, value.partitions_pending_revocation)
        for topic in topics
        for partition in topic.partitions
    }
