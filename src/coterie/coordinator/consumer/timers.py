"""The timers of a consumer group, and the requests they become when they fire (E8).

A timer is a value; its deadline is nowhere in the state. Keys: ("session", group id,
member id), as for classic groups, so that a member that changes its protocol has one
session; ("rebalance", group id, member id); ("target", group id); ("regex", group id);
("computation", group id);
and for members of the classic protocol ("join", group id, member id) and ("sync", group
id, member id), which are others than those of a classic group.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from coterie.coordinator.consumer.member import Member, MemberState
from coterie.coordinator.result import CancelTimer, Context, Timer
from coterie.types import GroupId, MemberId, TopicName


class ExpireMember(NamedTuple):
    """A member was not heard of for its session timeout (E8-02); or one of the classic
    protocol did not join, or sync, in its rebalance timeout (E20-29)."""

    group_id: GroupId
    member_id: MemberId


class EndRevocation(NamedTuple):
    """A member had its rebalance timeout to revoke partitions at this epoch (E8-03)."""

    group_id: GroupId
    member_id: MemberId
    member_epoch: int


class MakeTarget(NamedTuple):
    """A group waited long enough for its next target (KIP-1263)."""

    group_id: GroupId


class ResolveRegexes(NamedTuple):
    """A group's regular expressions are to be resolved, for a member that may know of
    some topics (E14-08)."""

    group_id: GroupId
    may_describe: Callable[[TopicName], bool]


class EndComputation(NamedTuple):
    """A member had its rebalance timeout to compute its group's assignment (E8-09)."""

    group_id: GroupId
    member_id: MemberId


TimerRequest = ExpireMember | EndRevocation | MakeTarget | EndComputation


def session_timer(group_id: GroupId, member: Member, context: Context) -> Timer:
    """A member was heard of now: it has its whole session timeout again. One that
    speaks the classic protocol has a session timeout of its own (E8-11)."""
    if member.classic is None:
        timeout_ms = context.configs.session_timeout_ms(group_id)
    else:
        timeout_ms = member.classic.session_timeout_ms
    assert timeout_ms > 0, timeout_ms
    return Timer(
        ("session", group_id, member.member_id),
        context.now_ms + timeout_ms,
        ExpireMember(group_id, member.member_id),
    )


def cancel_session(group_id: GroupId, member_id: MemberId) -> CancelTimer:
    """A member is gone."""
    return CancelTimer(("session", group_id, member_id))


def rebalance_timer(group_id: GroupId, member: Member, now_ms: int) -> Timer:
    """A member has been told to revoke; it has its own rebalance timeout to do so."""
    assert member.state is MemberState.UNREVOKED_PARTITIONS, member.state
    return Timer(
        ("rebalance", group_id, member.member_id),
        now_ms + member.rebalance_timeout_ms,
        EndRevocation(group_id, member.member_id, member.epoch),
    )


def cancel_rebalance(group_id: GroupId, member_id: MemberId) -> CancelTimer:
    """A member has revoked what it had to, or is gone."""
    return CancelTimer(("rebalance", group_id, member_id))


def join_timer(group_id: GroupId, member: Member, now_ms: int) -> Timer:
    """A classic member has been told to join again. Being told once more gives it no
    more time (E20-28)."""
    return Timer(
        ("join", group_id, member.member_id),
        now_ms + member.rebalance_timeout_ms,
        ExpireMember(group_id, member.member_id),
        unless_set=True,
    )


def sync_timer(group_id: GroupId, member: Member, now_ms: int) -> Timer:
    """A classic member has joined, and is to ask for its assignment (E20-29)."""
    return Timer(
        ("sync", group_id, member.member_id),
        now_ms + member.rebalance_timeout_ms,
        ExpireMember(group_id, member.member_id),
    )


def cancel_join(group_id: GroupId, member_id: MemberId) -> CancelTimer:
    """A classic member has joined."""
    return CancelTimer(("join", group_id, member_id))


def cancel_sync(group_id: GroupId, member_id: MemberId) -> CancelTimer:
    """A classic member has asked for its assignment."""
    return CancelTimer(("sync", group_id, member_id))


def cancel_classic(group_id: GroupId, member_id: MemberId) -> tuple[CancelTimer, ...]:
    """A classic member is gone, or speaks the consumer protocol from now on."""
    return cancel_join(group_id, member_id), cancel_sync(group_id, member_id)


def target_timer(group_id: GroupId, at_ms: int) -> Timer:
    """The next target is not made before."""
    return Timer(("target", group_id), at_ms, MakeTarget(group_id))


def cancel_target(group_id: GroupId) -> CancelTimer:
    """The target has been made."""
    return CancelTimer(("target", group_id))


def regex_timer(group_id: GroupId, at_ms: int, context: Context) -> Timer:
    """The expressions are resolved then, as the member that is heard of now sees it."""
    request = ResolveRegexes(group_id, context.may_describe)
    return Timer(("regex", group_id), at_ms, request)


def computation_timer(group_id: GroupId, member: Member, now_ms: int) -> Timer:
    """A member is told to compute; it has its own rebalance timeout to do so."""
    return Timer(
        ("computation", group_id),
        now_ms + max(member.rebalance_timeout_ms, 0),
        EndComputation(group_id, member.member_id),
    )


def cancel_computation(group_id: GroupId) -> CancelTimer:
    """The assignment is there, or nobody has to compute it."""
    return CancelTimer(("computation", group_id))
