"""The timers of a classic group, and the internal requests that are handled when they
fire.

A timer is a value; its deadline is not part of the state. Keys: ("session", group id,
member id), ("join", group id), ("sync", group id). lifecycle.py handles the requests.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from coterie.broker.coordinator.classic.group import ClassicGroup, GroupState, Member
from coterie.broker.coordinator.result import CancelTimer, Timer
from coterie.types import GroupId, MemberId

NEW_MEMBER_JOIN_TIMEOUT_MS: Final = 5 * 60 * 1000
"""The time that a new member's join may be parked, Kafka's
`CLASSIC_GROUP_NEW_MEMBER_JOIN_TIMEOUT_MS`. Such a member has no id yet, so it cannot
send heartbeats, and it may retry as yet another member."""


class ExpireSession(NamedTuple):
    """The expiration of the session of a member or a pending member."""

    group_id: GroupId
    member_id: MemberId


class EndInitialDelay(NamedTuple):
    """The end of the initial rebalance delay, which may be extended."""

    group_id: GroupId
    delay_ms: int
    remaining_ms: int


class EndJoinPhase(NamedTuple):
    """The expiration of the rebalance timeout, after which missing members are
    removed."""

    group_id: GroupId


class EndSyncPhase(NamedTuple):
    """The expiration of the time for the syncs of a generation."""

    group_id: GroupId
    generation: int


TimerRequest = ExpireSession | EndInitialDelay | EndJoinPhase | EndSyncPhase


def session_timer(group_id: GroupId, member: Member, now_ms: int) -> Timer:
    """Return the timer of a member's whole session timeout."""
    return expiry_timer(group_id, member.member_id, now_ms + member.session_timeout_ms)


def expiry_timer(group_id: GroupId, member_id: MemberId, at_ms: int) -> Timer:
    """Return a session timer with a given deadline, for pending and new members."""
    return Timer(
        ("session", group_id, member_id), at_ms, ExpireSession(group_id, member_id)
    )


def cancel_session(group_id: GroupId, member_id: MemberId) -> CancelTimer:
    return CancelTimer(("session", group_id, member_id))


def initial_delay_timer(
    group_id: GroupId, delay_ms: int, remaining_ms: int, *, now_ms: int
) -> Timer:
    """Return the timer of the initial delay; later it may be extended by
    `remaining_ms`."""
    request = EndInitialDelay(group_id, delay_ms, remaining_ms)
    return Timer(("join", group_id), now_ms + delay_ms, request)


def join_timer(group_id: GroupId, timeout_ms: int, now_ms: int) -> Timer:
    """Return the timer of the join phase; it replaces an initial delay."""
    return Timer(("join", group_id), now_ms + timeout_ms, EndJoinPhase(group_id))


def cancel_join(group_id: GroupId) -> CancelTimer:
    return CancelTimer(("join", group_id))


def sync_timer(group: ClassicGroup, now_ms: int) -> Timer:
    """Return the timer for the syncs of a new generation."""
    return Timer(
        ("sync", group.group_id),
        now_ms + group.rebalance_timeout_ms,
        EndSyncPhase(group.group_id, group.generation),
    )


def cancel_sync(group_id: GroupId) -> CancelTimer:
    return CancelTimer(("sync", group_id))


def commit_timers(
    group: ClassicGroup, member_id: MemberId, now_ms: int
) -> tuple[Timer, ...]:
    """Return the session timer that a member's offset commit refreshes.

    A commit counts as a heartbeat while the group is Stable or PreparingRebalance.
    Return no timer when the id is not a member's.
    """
    member = group.members.get(member_id)
    if member is None or group.state not in _COMMIT_REFRESHES:
        return ()
    return (session_timer(group.group_id, member, now_ms),)


_COMMIT_REFRESHES: Final = (GroupState.STABLE, GroupState.PREPARING_REBALANCE)
