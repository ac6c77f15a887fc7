"""The timers of a classic group, and the requests they become when they fire.

A timer is a value; its deadline is nowhere in the state. Keys:
("session", group id, member id), ("join", group id), ("sync", group id). Handled by
expire.py.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from coterie.coordinator.classic.group import ClassicGroup, GroupState, Member
from coterie.coordinator.result import CancelTimer, Timer
from coterie.types import GroupId, MemberId

NEW_MEMBER_JOIN_TIMEOUT_MS: Final = 5 * 60 * 1000
"""How long a new member's join may be parked: it does not know its id yet, so it
cannot send a heartbeat, and may retry as yet another member. Kafka's constant."""


class ExpireSession(NamedTuple):
    """A member, or a pending one, was not heard of for its session timeout."""

    group_id: GroupId
    member_id: MemberId


class EndInitialDelay(NamedTuple):
    """The delay of a group's first rebalance is over, or to be set again (E19-04)."""

    group_id: GroupId
    delay_ms: int
    remaining_ms: int


class EndJoinPhase(NamedTuple):
    """The rebalance timeout is over: go on with those who came (E19-05)."""

    group_id: GroupId


class EndSyncPhase(NamedTuple):
    """The members of a generation had their time to sync (E19-09)."""

    group_id: GroupId
    generation: int


TimerRequest = ExpireSession | EndInitialDelay | EndJoinPhase | EndSyncPhase


def session_timer(group_id: GroupId, member: Member, now_ms: int) -> Timer:
    """A member was heard of now: it has its whole session timeout again."""
    return expiry_timer(group_id, member.member_id, now_ms + member.session_timeout_ms)


def expiry_timer(group_id: GroupId, member_id: MemberId, at_ms: int) -> Timer:
    """The session timer of one who has no session yet: a pending or a new member."""
    return Timer(
        ("session", group_id, member_id), at_ms, ExpireSession(group_id, member_id)
    )


def cancel_session(group_id: GroupId, member_id: MemberId) -> CancelTimer:
    """A member is gone."""
    return CancelTimer(("session", group_id, member_id))


def initial_delay_timer(
    group_id: GroupId, delay_ms: int, remaining_ms: int, *, now_ms: int
) -> Timer:
    """Wait `delay_ms` for the first members, and later up to `remaining_ms` more."""
    request = EndInitialDelay(group_id, delay_ms, remaining_ms)
    return Timer(("join", group_id), now_ms + delay_ms, request)


def join_timer(group_id: GroupId, timeout_ms: int, now_ms: int) -> Timer:
    """Wait for members to rejoin; replaces an initial delay."""
    return Timer(("join", group_id), now_ms + timeout_ms, EndJoinPhase(group_id))


def cancel_join(group_id: GroupId) -> CancelTimer:
    """The join phase is over."""
    return CancelTimer(("join", group_id))


def sync_timer(group: ClassicGroup, now_ms: int) -> Timer:
    """Wait for the syncs of the generation that has just begun."""
    return Timer(
        ("sync", group.group_id),
        now_ms + group.rebalance_timeout_ms,
        EndSyncPhase(group.group_id, group.generation),
    )


def cancel_sync(group_id: GroupId) -> CancelTimer:
    """Every member has sent its sync, or a rebalance makes syncs pointless."""
    return CancelTimer(("sync", group_id))


def commit_timers(
    group: ClassicGroup, member_id: MemberId, now_ms: int
) -> tuple[Timer, ...]:
    """What a commit by a member does for its session (E17-10).

    It counts as a heartbeat while the group is stable or prepares a rebalance. Empty
    when the id is no member's.
    """
    member = group.members.get(member_id)
    if member is None or group.state not in _COMMIT_REFRESHES:
        return ()
    return (session_timer(group.group_id, member, now_ms),)


_COMMIT_REFRESHES: Final = (GroupState.STABLE, GroupState.PREPARING_REBALANCE)
