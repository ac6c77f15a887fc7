"""What a coordinator counts while it works (E26).

Counted is what results write, as they write it: nothing is counted by a replay at load
(E26-01). Who measures also remembers what each member of a consumer group holds and,
while the group rebalances, who let a partition go and when; a server without metrics
remembers nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

from coterie.coordinator.consumer.group import ConsumerGroup, ConsumerGroupState
from coterie.coordinator.consumer.member import MemberState
from coterie.coordinator.consumer.timers import ResolveRegexes
from coterie.coordinator.offsets.expire import ExpireOffsets
from coterie.coordinator.records.consumer_group_current_member_assignment import (
    ConsumerGroupCurrentMemberAssignmentKey as _CurrentKey,
)
from coterie.coordinator.records.consumer_group_current_member_assignment import (
    ConsumerGroupCurrentMemberAssignmentValue as _Current,
)
from coterie.coordinator.records.consumer_group_metadata import (
    ConsumerGroupMetadataKey as _EpochKey,
)
from coterie.coordinator.records.group_metadata import (
    GroupMetadataKey,
    GroupMetadataValue,
)
from coterie.coordinator.records.offset_commit import OffsetCommitKey
from coterie.coordinator.result import Record, Result
from coterie.coordinator.state import State
from coterie.types import GroupId, MemberId, TopicId
from coterie.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
)
from coterie.wire.messages.heartbeat import HeartbeatRequest
from coterie.wire.messages.join_group import JoinGroupRequest
from coterie.wire.messages.sync_group import SyncGroupRequest

Observe = Callable[[float], None]
_Partition: TypeAlias = tuple[TopicId, int]
_JOIN_EPOCH: Final = 0


class _Free(NamedTuple):
    """Who let a partition go that nobody has since then."""

    member_id: MemberId
    since_ms: int


class _Rebalance:
    """A rebalance of a group: since when, and which epoch each member has reached.

    What its members' records say is counted as they are written, as asking the group
    whether it is Stable walks all its members, and most records of a rebalance of many
    members do not end it.
    """

    def __init__(self, group: ConsumerGroup, began_ms: int) -> None:
        self.group = group
        self.began_ms = began_ms
        self._reached = {
            member_id: member.epoch
            for member_id, member in group.members.items()
            if member.state is MemberState.STABLE
        }
        self._counts = Counter(self._reached.values())

    def saw(self, member_id: MemberId, value: _Current | None) -> None:
        """A member's epoch or state is another."""
        before = self._reached.pop(member_id, None)
        if before is not None:
            assert self._counts[before] > 0, (self.group.group_id, member_id)
            self._counts[before] -= 1
        if value is not None and value.state == MemberState.STABLE:
            self._reached[member_id] = value.member_epoch
            self._counts[value.member_epoch] += 1

    def is_over(self) -> bool:
        """Whether the group is Stable."""
        group = self.group
        if self._counts[group.epoch] < len(group.members):
            return False
        return group.state is ConsumerGroupState.STABLE


class Metrics:
    """Counters of one server. `observe_rebalance` and `observe_unowned` are told, in
    seconds, how long a rebalance took and how long a partition had no owner."""

    def __init__(self, observe_rebalance: Observe, observe_unowned: Observe) -> None:
        self.offset_commits = 0
        self.offset_deletions = 0
        self.offset_expirations = 0
        self.completed_rebalances = 0
        """Of classic groups: generations whose leader has synced."""
        self.consumer_rebalances = 0
        """Group epochs that were bumped, but by a leave or a fence (E6-31)."""
        self.partitions_moved = 0
        """Partitions that another member got than had them before."""
        self._observe_rebalance = observe_rebalance
        self._observe_unowned = observe_unowned
        self._rebalancing: dict[GroupId, _Rebalance] = {}
        self._held: dict[tuple[GroupId, MemberId], set[_Partition]] = {}
        self._free: dict[GroupId, dict[_Partition, _Free]] = {}

    def saw(self, state: State, request: Any, result: Result, now_ms: int) -> None:
        """A result has been made true."""
        assert result.records, "what writes nothing is not counted"
        groups: dict[GroupId, bool] = {}
        """Consumer groups that the records are about, and whether one is a bump."""
        for record in result.records:
            key = record.key
            if type(key) is OffsetCommitKey:
                self._saw_offset(request, record)
            elif isinstance(key, GroupMetadataKey):
                self._saw_generation(request, record)
            else:
                group_id: GroupId = key.group_id  # type: ignore[attr-defined]
                is_bump = type(key) is _EpochKey and record.value is not None
                groups[group_id] = groups.get(group_id, False) or is_bump
                if type(key) is _CurrentKey:
                    self._saw_current(key, record.value, now_ms)
        # A group that is upgraded is written with the epoch it has, and then bumped:
        # one step bumps an epoch once (E6-30).
        self.consumer_rebalances += any(groups.values()) and _is_counted(request)
        for group_id, is_bumped in groups.items():
            self._follow(state, group_id, now_ms, is_bumped=is_bumped)

    def _saw_offset(self, request: Any, record: Record) -> None:
        if record.value is not None:
            self.offset_commits += 1
        elif isinstance(request, ExpireOffsets):
            self.offset_expirations += 1
        else:
            self.offset_deletions += 1

    def _saw_generation(self, request: Any, record: Record) -> None:
        value = record.value
        if isinstance(request, SyncGroupRequest):
            assert isinstance(value, GroupMetadataValue)
            self.completed_rebalances += 1

    def _saw_current(self, key: _CurrentKey, value: Any, now_ms: int) -> None:
        """Compare what a member holds with what it held; one that is new here held what
        it holds, as its server may just have started."""
        group_id, member_id = holder = (key.group_id, key.member_id)
        rebalance = self._rebalancing.get(group_id)
        if rebalance is not None:
            rebalance.saw(member_id, value)
        now_held = _held(value)
        before = self._held.pop(holder, None)
        if value is not None:
            self._held[holder] = now_held
        if before is None:
            before = now_held if _is_from_before(value) else set()
        if now_held == before:
            return
        free = self._free.setdefault(group_id, {})
        for partition in before - now_held:
            free[partition] = _Free(member_id, now_ms)
        for partition in now_held - before:
            last = free.pop(partition, None)
            if last is not None:
                assert last.since_ms <= now_ms, partition
                self._observe_unowned((now_ms - last.since_ms) / 1000)
                self.partitions_moved += last.member_id != member_id

    def _follow(
        self, state: State, group_id: GroupId, now_ms: int, *, is_bumped: bool
    ) -> None:
        """Begin or end the rebalance of a group. Nobody is to have what is still free
        at the end, so it is forgotten, as is all of a group that is gone."""
        group = state.consumer_groups.get(group_id)
        if group is None or not group.members:
            self._rebalancing.pop(group_id, None)
            if group is None:
                self._free.pop(group_id, None)
            return
        rebalance = self._rebalancing.get(group_id)
        if rebalance is None or rebalance.group is not group:
            if rebalance is None and not is_bumped:
                return
            # A group that was loaded again may lack what had been counted.
            began_ms = now_ms if rebalance is None else rebalance.began_ms
            rebalance = self._rebalancing[group_id] = _Rebalance(group, began_ms)
        assert rebalance.began_ms <= now_ms, group_id
        if rebalance.is_over():
            self._observe_rebalance((now_ms - rebalance.began_ms) / 1000)
            del self._rebalancing[group_id]
            self._free.pop(group_id, None)

    @property
    def counters(self) -> Mapping[str, int]:
        """All counters by Kafka's names, as far as it has them."""
        return {
            "offset_commit": self.offset_commits,
            "offset_deletion": self.offset_deletions,
            "offset_expiration": self.offset_expirations,
            "group_completed_rebalance": self.completed_rebalances,
            "consumer_group_rebalance": self.consumer_rebalances,
        }


def _is_counted(request: Any) -> bool:
    """E6-31: a bump made by a leave or a fence is not counted, as in Kafka. Topics that
    a regular expression matches are news that a heartbeat asked for."""
    if isinstance(request, ConsumerGroupHeartbeatRequest):
        return request.member_epoch >= _JOIN_EPOCH
    return isinstance(request, JoinGroupRequest | HeartbeatRequest | ResolveRegexes)


def _held(value: _Current | None) -> set[_Partition]:
    if value is None:
        return set()
    return {
        (topic.topic_id, partition)
        for topics in (value.assigned_partitions, value.partitions_pending_revocation)
        for topic in topics
        for partition in topic.partitions
    }


def _is_from_before(value: _Current | None) -> bool:
    return value is not None and value.previous_member_epoch > _JOIN_EPOCH
