"""The timers of a consumer group, and the internal requests that are handled when they
fire.

A timer is a value; its deadline is not part of the state. Keys: ("session", group id,
member id), the same as in classic groups, so that a member that changes its protocol
keeps one session; ("rebalance", group id, member id); ("target", group id); ("regex",
group id); ("computation", group id); and for members of the classic protocol ("join",
group id, member id) and ("sync", group id, member id), which differ from those of a
classic group.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from coterie.broker.coordinator.consumer.group import ConsumerGroup
from coterie.broker.coordinator.consumer.member import Member, MemberState
from coterie.broker.coordinator.result import CancelTimer, Context, Result, Timer
from coterie.types import GroupId, MemberId, TopicName


class ExpireMember(NamedTuple):
    """The expiration of a member's session.

    The join and sync timers of a classic member, which run for its rebalance timeout,
    submit it too.
    """

    group_id: GroupId
    member_id: MemberId


class EndRevocation(NamedTuple):
    """The expiration of the rebalance timeout of a member that must revoke
    partitions."""

    group_id: GroupId
    member_id: MemberId
    member_epoch: int


class ResolveRegexes(NamedTuple):
    """The due resolution of a group's regular expressions.

    `may_describe` is the authorization check of the member that triggered it.
    """

    group_id: GroupId
    may_describe: Callable[[TopicName], bool]


class EndComputation(NamedTuple):
    """The expiration of the computing member's rebalance timeout."""

    group_id: GroupId
    member_id: MemberId


def session_timer(group_id: GroupId, member: Member, context: Context) -> Timer:
    """Return the timer of a member's whole session timeout.

    A member of the classic protocol has its own session timeout.
    """
    if member.classic is None:
        timeout_ms = context.environment.configs.session_timeout_ms(group_id)
    else:
        timeout_ms = member.classic.session_timeout_ms
    assert timeout_ms > 0, timeout_ms
    return Timer(
        ("session", group_id, member.member_id),
        context.now_ms + timeout_ms,
        ExpireMember(group_id, member.member_id),
    )


def cancel_session(group_id: GroupId, member_id: MemberId) -> CancelTimer:
    return CancelTimer(("session", group_id, member_id))


def rebalance_timer(group_id: GroupId, member: Member, now_ms: int) -> Timer:
    """Return the timer of a member that must revoke; it is the member's rebalance
    timeout."""
    assert member.state is MemberState.UNREVOKED_PARTITIONS, member.state
    return Timer(
        ("rebalance", group_id, member.member_id),
        now_ms + member.rebalance_timeout_ms,
        EndRevocation(group_id, member.member_id, member.epoch),
    )


def cancel_rebalance(group_id: GroupId, member_id: MemberId) -> CancelTimer:
    return CancelTimer(("rebalance", group_id, member_id))


def join_timer(group_id: GroupId, member: Member, now_ms: int) -> Timer:
    """Return the timer of a classic member that must rejoin.

    Another request to rejoin does not extend it.
    """
    return Timer(
        ("join", group_id, member.member_id),
        now_ms + member.rebalance_timeout_ms,
        ExpireMember(group_id, member.member_id),
        unless_set=True,
    )


def sync_timer(group_id: GroupId, member: Member, now_ms: int) -> Timer:
    """Return the timer of a classic member that has joined and must sync."""
    return Timer(
        ("sync", group_id, member.member_id),
        now_ms + member.rebalance_timeout_ms,
        ExpireMember(group_id, member.member_id),
    )


def cancel_join(group_id: GroupId, member_id: MemberId) -> CancelTimer:
    return CancelTimer(("join", group_id, member_id))


def cancel_sync(group_id: GroupId, member_id: MemberId) -> CancelTimer:
    return CancelTimer(("sync", group_id, member_id))


def cancel_classic(group_id: GroupId, member_id: MemberId) -> tuple[CancelTimer, ...]:
    """Return the cancellations for a classic member that is removed or changes
    protocol."""
    return cancel_join(group_id, member_id), cancel_sync(group_id, member_id)


def regex_timer(group_id: GroupId, at_ms: int, context: Context) -> Timer:
    """Return the timer of a resolution with the authorization of the current client."""
    request = ResolveRegexes(group_id, context.may_describe)
    return Timer(("regex", group_id), at_ms, request)


def computation_timer(group_id: GroupId, member: Member, now_ms: int) -> Timer:
    """Return the timer of a computing member; it is the member's rebalance timeout."""
    return Timer(
        ("computation", group_id),
        now_ms + max(member.rebalance_timeout_ms, 0),
        EndComputation(group_id, member.member_id),
    )


def cancel_computation(group_id: GroupId) -> CancelTimer:
    return CancelTimer(("computation", group_id))


def timers_after_load(group: ConsumerGroup, context: Context) -> Result:
    """Return the timers of a loaded group.

    Every member gets a whole session timeout, and one that must revoke a whole
    rebalance timeout. The refresh of the topics is due by default.
    """
    group_id = group.group_id
    set_now: list[Timer] = []
    for member in group.members.values():
        set_now.append(session_timer(group_id, member, context))
        if member.state is MemberState.UNREVOKED_PARTITIONS:
            set_now.append(rebalance_timer(group_id, member, context.now_ms))
    return Result(timers=tuple(set_now))
