"""What a coordinator counts while it works (E26).

Counted is what results write, as they write it: nothing is counted by a replay at load
(E26-01). Who measures also remembers, for each partition of a consumer group, who held
it last and since when nobody does; a server without metrics keeps and counts nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from coterie.coordinator.consumer.group import ConsumerGroupState
from coterie.coordinator.offsets.expire import ExpireOffsets
from coterie.coordinator.records.consumer_group_current_member_assignment import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
)
from coterie.coordinator.records.consumer_group_metadata import (
    ConsumerGroupMetadataKey,
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
from coterie.wire.messages.join_group import JoinGroupRequest
from coterie.wire.messages.sync_group import SyncGroupRequest

Observe = Callable[[float], None]
_Partition = tuple[GroupId, TopicId, int]
_JOIN_EPOCH: Final = 0


class _Owner(NamedTuple):
    """Who had a partition last; `free_since_ms` is -1 while it still has."""

    member_id: MemberId
    free_since_ms: int


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
        """Group epochs that a heartbeat or a classic join bumped (E6-31)."""
        self.partitions_moved = 0
        """Partitions that another member got than had them before."""
        self._observe_rebalance = observe_rebalance
        self._observe_unowned = observe_unowned
        self._rebalancing: dict[GroupId, int] = {}
        self._held: dict[tuple[GroupId, MemberId], set[tuple[TopicId, int]]] = {}
        self._owners: dict[_Partition, _Owner] = {}

    def saw(self, state: State, request: Any, result: Result, now_ms: int) -> None:
        """A result has been made true."""
        assert result.records, "what writes nothing is not counted"
        groups: dict[GroupId, None] = {}
        for record in result.records:
            key = record.key
            if type(key) is OffsetCommitKey:
                self._saw_offset(request, record)
            elif isinstance(key, GroupMetadataKey):
                self._saw_generation(request, record)
            else:
                groups[key.group_id] = None  # type: ignore[attr-defined]
                self._saw_consumer(request, record, now_ms)
        for group_id in groups:
            self._end_rebalance(state, group_id, now_ms)

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

    def _saw_consumer(self, request: Any, record: Record, now_ms: int) -> None:
        key = record.key
        if isinstance(key, ConsumerGroupMetadataKey) and record.value is not None:
            self._rebalancing.setdefault(key.group_id, now_ms)
            self.consumer_rebalances += _is_counted(request)
        elif isinstance(key, ConsumerGroupCurrentMemberAssignmentKey):
            self._saw_current(key, record.value, now_ms)

    def _saw_current(
        self, key: ConsumerGroupCurrentMemberAssignmentKey, value: Any, now_ms: int
    ) -> None:
        """Compare what a member holds with what it held; one that is new here held what
        it holds, as its server may just have started."""
        holder = (key.group_id, key.member_id)
        assert value is None or key.member_id, holder
        now_held = _held(value)
        before = self._held.get(holder)
        self._held[holder] = now_held
        if value is None:
            del self._held[holder]
        if before is None:
            before = now_held if _is_from_before(value) else set()
        for topic, partition in before - now_held:
            name = (key.group_id, topic, partition)
            self._owners[name] = _Owner(key.member_id, now_ms)
        for topic, partition in now_held - before:
            self._got((key.group_id, topic, partition), key.member_id, now_ms)

    def _got(self, name: _Partition, member_id: MemberId, now_ms: int) -> None:
        last = self._owners.get(name)
        assert last is None or last.free_since_ms <= now_ms, name
        if last is not None and last.free_since_ms >= 0:
            self._observe_unowned((now_ms - last.free_since_ms) / 1000)
            self.partitions_moved += last.member_id != member_id
        self._owners[name] = _Owner(member_id, -1)

    def _end_rebalance(self, state: State, group_id: GroupId, now_ms: int) -> None:
        began_ms = self._rebalancing.get(group_id)
        if began_ms is None:
            return
        group = state.consumer_groups.get(group_id)
        if group is None or group.state is ConsumerGroupState.EMPTY:
            del self._rebalancing[group_id]
        elif group.state is ConsumerGroupState.STABLE:
            self._observe_rebalance((now_ms - began_ms) / 1000)
            del self._rebalancing[group_id]

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
    """E6-31: a bump made by a leave or a fence is not counted, as in Kafka."""
    if isinstance(request, ConsumerGroupHeartbeatRequest):
        return request.member_epoch >= _JOIN_EPOCH
    return isinstance(request, JoinGroupRequest)


def _held(
    value: ConsumerGroupCurrentMemberAssignmentValue | None,
) -> set[tuple[TopicId, int]]:
    if value is None:
        return set()
    return {
        (topic.topic_id, partition)
        for topics in (value.assigned_partitions, value.partitions_pending_revocation)
        for topic in topics
        for partition in topic.partitions
    }


def _is_from_before(value: ConsumerGroupCurrentMemberAssignmentValue | None) -> bool:
    return value is not None and value.previous_member_epoch > _JOIN_EPOCH
