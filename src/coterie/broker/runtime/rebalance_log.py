"""The log of rebalances: a line when one starts, and one when it ends.

    rebalance_started group=billing type=classic reason="member m-2 joined" ...
    rebalance group=billing type=classic reason="member m-2 joined" outcome=stable
        members_before=1 members_after=2 generation_before=1 generation_after=2
        duration_ms=3004

Rebalances are derived from the results of the coordinator, which stays pure: a classic
group's from the change that prepares one and the record that completes it, a consumer
group's from the record of its epoch and those of its members. At load nothing is
logged. Clients can cause any number of rebalances, so lines are limited to
`LINES_PER_S`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from coterie.broker.coordinator.classic.draft import MemberRemoved, RebalancePrepared
from coterie.broker.coordinator.classic.group import GroupState
from coterie.broker.coordinator.classic.timers import (
    EndJoinPhase,
    EndSyncPhase,
    ExpireSession,
)
from coterie.broker.coordinator.consumer.group import ConsumerGroupState
from coterie.broker.coordinator.consumer.subscriptions import TopicsChanged
from coterie.broker.coordinator.consumer.timers import (
    EndComputation,
    EndRevocation,
    ExpireMember,
    ResolveRegexes,
)
from coterie.broker.coordinator.records import (
    ConsumerGroupCurrentMemberAssignmentKey as _CurrentKey,
)
from coterie.broker.coordinator.records import (
    ConsumerGroupMetadataKey as _EpochKey,
)
from coterie.broker.coordinator.records import GroupMetadataKey, OffsetCommitKey
from coterie.broker.coordinator.result import Result
from coterie.broker.coordinator.state import State
from coterie.broker.runtime.structured_log import Value, log_event
from coterie.types import GroupId
from coterie.wire import messages as m

_LOGGER = logging.getLogger(__name__)

LINES_PER_S: Final = 200
RebalanceListener = Callable[[str, int, Mapping[str, Value]], None]
"""A callback with an event ("rebalance_started" or "rebalance"), its time in ms and its
fields. It gets all events, those above `LINES_PER_S` too."""
CLASSIC: Final = "classic"
CONSUMER: Final = "consumer"
_IDLE: Final = (GroupState.EMPTY, GroupState.STABLE)


class Before(NamedTuple):
    """A group before a rebalance: its members, and its generation or epoch."""

    kind: str
    members: int
    epoch: int
    is_idle: bool
    """Whether no rebalance was in progress."""


class _Rebalance(NamedTuple):
    before: Before
    reason: str
    began_ms: int


def may_rebalance(result: Result) -> bool:
    """Return whether a result may start or end a rebalance. A commit never does, and
    has offsets as its last record."""
    records = result.records
    if result.changes or not records:
        return bool(result.changes)
    return type(records[-1].key) is not OffsetCommitKey


def groups_before(state: State, result: Result) -> Mapping[GroupId, Before]:
    """Return the groups whose rebalance a result starts, before it is applied."""
    found: dict[GroupId, Before] = {}
    for change in result.changes:
        if type(change) is RebalancePrepared:
            found[change.group_id] = _classic_before(state, change.group_id)
    for record in result.records:
        if type(record.key) is _EpochKey and record.value is not None:
            group_id: GroupId = record.key.group_id
            found[group_id] = _consumer_before(state, group_id)
    return found


def _classic_before(state: State, group_id: GroupId) -> Before:
    group = state.classic_groups.get(group_id)
    if group is None:  # new, or converted from a consumer group
        return _consumer_before(state, group_id)._replace(kind=CLASSIC)
    is_idle = group.state in _IDLE
    return Before(CLASSIC, len(group.members), group.generation, is_idle)


def _consumer_before(state: State, group_id: GroupId) -> Before:
    group = state.consumer_groups.get(group_id)
    if group is not None:
        return Before(CONSUMER, len(group.members), group.epoch, is_idle=False)
    classic = state.classic_groups.get(group_id)
    if classic is not None:
        return Before(CONSUMER, len(classic.members), classic.generation, is_idle=True)
    return Before(CONSUMER, 0, 0, is_idle=True)


class RebalanceLog:
    """The rebalances in progress on a server, and their log."""

    def __init__(self) -> None:
        self._open: dict[GroupId, _Rebalance] = {}
        self.listener: RebalanceListener | None = None
        self._second = -1
        self._lines = 0
        self._suppressed = 0

    def observe(
        self,
        state: State,
        request: Any,
        result: Result,
        before: Mapping[GroupId, Before],
        now_ms: int,
    ) -> None:
        """Log the rebalances that an applied result has started and ended. `before` is
        from `groups_before`."""
        for group_id, group in before.items():
            self._start(state, group_id, group, _reason(request, result), now_ms)
        touched: dict[GroupId, None] = dict.fromkeys(before)
        for record in result.records:
            key = record.key
            if type(key) is GroupMetadataKey:
                self._classic_record(state, key.group, request, now_ms)
            elif type(key) is _EpochKey or type(key) is _CurrentKey:
                touched[key.group_id] = None
        for group_id in touched:
            self._end_if_stable(state, group_id, now_ms)

    def _start(
        self, state: State, group_id: GroupId, before: Before, reason: str, now_ms: int
    ) -> None:
        known = self._open.get(group_id)
        if before.kind == CONSUMER:
            group = state.consumer_groups.get(group_id)
            if group is None or group.epoch == before.epoch:
                return
        if known is None or before.is_idle or known.before.kind != before.kind:
            self._open[group_id] = _Rebalance(before, reason, now_ms)
        self._log(
            "rebalance_started",
            now_ms,
            {
                "group": group_id,
                "type": before.kind,
                "reason": reason,
                "members": before.members,
                "generation" if before.kind == CLASSIC else "epoch": before.epoch,
            },
        )

    def _classic_record(
        self, state: State, group_id: GroupId, request: Any, now_ms: int
    ) -> None:
        group = state.classic_groups.get(group_id)
        if group is None:
            self._end(group_id, CLASSIC, "empty", (0, -1), now_ms)
        elif not group.members:
            self._end(group_id, CLASSIC, "empty", (0, group.generation), now_ms)
        elif isinstance(request, m.SyncGroupRequest):
            after = len(group.members), group.generation
            self._end(group_id, CLASSIC, "stable", after, now_ms)

    def _end_if_stable(self, state: State, group_id: GroupId, now_ms: int) -> None:
        """End the rebalance of a consumer group that has become Stable or Empty."""
        rebalance = self._open.get(group_id)
        if rebalance is None or rebalance.before.kind != CONSUMER:
            return
        group = state.consumer_groups.get(group_id)
        if group is None or not group.members:
            epoch = -1 if group is None else group.epoch
            self._end(group_id, CONSUMER, "empty", (0, epoch), now_ms)
        elif group.state is ConsumerGroupState.STABLE:
            after = len(group.members), group.epoch
            self._end(group_id, CONSUMER, "stable", after, now_ms)

    def _end(
        self,
        group_id: GroupId,
        kind: str,
        outcome: str,
        after: tuple[int, int],
        now_ms: int,
    ) -> None:
        rebalance = self._open.get(group_id)
        if rebalance is None or rebalance.before.kind != kind:
            return
        del self._open[group_id]
        assert rebalance.began_ms <= now_ms, group_id
        members, epoch = after
        word = "generation" if kind == CLASSIC else "epoch"
        self._log(
            "rebalance",
            now_ms,
            {
                "group": group_id,
                "type": kind,
                "reason": rebalance.reason,
                "outcome": outcome,
                "members_before": rebalance.before.members,
                "members_after": members,
                f"{word}_before": rebalance.before.epoch,
                f"{word}_after": None if epoch < 0 else epoch,
                "duration_ms": now_ms - rebalance.began_ms,
            },
        )

    def _log(self, event: str, now_ms: int, fields: dict[str, Value]) -> None:
        if self.listener is not None:
            self.listener(event, now_ms, fields)
        if now_ms // 1_000 != self._second:
            self._second, self._lines = now_ms // 1_000, 0
        self._lines += 1
        if self._lines > LINES_PER_S:
            self._suppressed += 1
            return
        suppressed, self._suppressed = self._suppressed, 0
        log_event(_LOGGER, event, {**fields, "suppressed": suppressed or None})


# Reasons.

_FIXED_REASONS: Final[Mapping[type, str]] = {
    EndJoinPhase: "members did not join in time",
    EndSyncPhase: "members did not sync in time",
    EndComputation: "a member did not compute the assignment in time",
    TopicsChanged: "topics changed",
    ResolveRegexes: "a regular expression matches other topics",
}


def _reason(request: Any, result: Result) -> str:
    """Return why a request or a timer starts a rebalance, as Kafka's log does."""
    match request:
        case m.JoinGroupRequest():
            who = request.group_instance_id or request.member_id
            why = f": {request.reason}" if request.reason else ""
            return f"member {who} joined{why}" if who else f"a new member joined{why}"
        case m.LeaveGroupRequest():
            return _leave_reason(request, result)
        case m.ConsumerGroupHeartbeatRequest():
            return _heartbeat_reason(request)
        case ExpireSession() | ExpireMember():
            return f"the session of member {request.member_id} expired"
        case EndRevocation():
            return f"member {request.member_id} did not revoke partitions in time"
    return _FIXED_REASONS.get(type(request), type(request).__name__)


def _leave_reason(request: m.LeaveGroupRequest, result: Result) -> str:
    if not request.members:
        return f"member {request.member_id} left"
    first = request.members[0]
    who = first.group_instance_id or first.member_id
    removed = sum(type(change) is MemberRemoved for change in result.changes)
    others = f" and {removed - 1} more" if removed > 1 else ""
    why = f": {first.reason}" if first.reason else ""
    return f"member {who}{others} left{why}"


def _heartbeat_reason(request: m.ConsumerGroupHeartbeatRequest) -> str:
    who = request.instance_id or request.member_id
    if request.member_epoch < 0:
        return f"member {who} left"
    if request.member_epoch == 0:
        return f"member {who} joined"
    if request.subscribed_topic_names is not None or request.subscribed_topic_regex:
        return f"member {who} changed its subscription"
    return f"member {who} sent a heartbeat after topics changed"
