"""A consumer group becomes a classic one when the last member that speaks the new
protocol goes, or is replaced by one that speaks the old (E20.4).

Everything the consumer group was is written away, and then record 2: its members, each
with what it holds, in a generation that is the group's epoch. Then they rebalance, so
that somebody gets what the member that is gone had. That this is to happen is in the
record, which has no leader: it is not forgotten when the server stops right then.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import Final

from coterie.coordinator.classic import timers as classic_timers
from coterie.coordinator.classic.changes import GroupDowngraded
from coterie.coordinator.classic.group import (
    CONSUMER_PROTOCOL_TYPE,
    ClassicGroup,
    GroupState,
    MemberProtocol,
)
from coterie.coordinator.classic.group import Member as ClassicMember
from coterie.coordinator.classic.join import SKIP_ASSIGNMENT_SINCE
from coterie.coordinator.classic.records import (
    generation_record,
    rebalancing_record,
)
from coterie.coordinator.consumer import timers
from coterie.coordinator.consumer.draft import Draft
from coterie.coordinator.consumer.embedded import version_of, write_assignment
from coterie.coordinator.consumer.member import Member, MemberState
from coterie.coordinator.consumer.records import group_tombstones
from coterie.errors import ApiError, MalformedFrame
from coterie.types import MemberId, TopicId
from coterie.wire.error_codes import ErrorCode

_DOWNGRADING: Final = frozenset({"downgrade", "bidirectional"})
"""The policies under which a group may be downgraded (E20-01)."""


def may_downgrade(draft: Draft, gone: Collection[Member], *, joining: int = 0) -> bool:
    """Whether the group is to be a classic one without these members, and with so many
    that join it by the classic protocol (E20-40, E20-41)."""
    group, settings = draft.group, draft.context.settings
    size = len(group.members) - len(gone) + joining
    classic_gone = sum(member.classic is not None for member in gone)
    classic = group.classic_count - classic_gone + joining
    assert classic <= size
    return (
        classic_gone < len(gone)
        and 0 < classic == size <= settings.group_max_size
        and settings.group_consumer_migration_policy.lower() in _DOWNGRADING
    )


def downgrade(draft: Draft, gone: Collection[Member]) -> None:
    """Write the group away without these members, and let the others rebalance.

    Raises:
        ApiError: GROUP_ID_NOT_FOUND: a member's subscription cannot be read (E20-41).
    """
    left = {member.member_id for member in gone}
    members = [m for m in draft.members().values() if m.member_id not in left]
    classic = _classic_group(draft, members)
    _convert(draft, classic, gone, rebalances=True)


def replace_last(draft: Draft, leaver: Member, member: Member) -> ClassicGroup:
    """Write the group away with `member`, which speaks the classic protocol, in the
    place of `leaver`; the group as it is then. Nobody rebalances if everybody has what
    it shall have (E20-43): then the one who joins leads, as somebody has to see when
    topics change, and can be told so without having to assign (KIP-814).

    Raises:
        ApiError: GROUP_ID_NOT_FOUND: a member's subscription cannot be read.
    """
    assert member.classic is not None, "who speaks the new protocol upgrades"
    others = [m for m in draft.members().values() if m is not leaver]
    settled = _is_settled(draft, others, leaver, member)
    if settled:
        epoch = draft.epoch
        target = draft.target(leaver.member_id)
        held = {topic: dict.fromkeys(some, epoch) for topic, some in target.items()}
        # What the leaver had yet to revoke, its successor has never had.
        member = replace(
            member, assigned=held, pending_revocation={}, state=MemberState.STABLE
        )
    classic = _classic_group(draft, [*others, member])
    if settled:
        classic.leader_id = member.member_id
    _convert(draft, classic, (leaver,), rebalances=not settled)
    return classic


def _is_settled(
    draft: Draft, others: Iterable[Member], leaver: Member, member: Member
) -> bool:
    """Whether nothing of what the leaver shall have is anybody else's yet, and its
    successor wants the same and can be told to lead."""
    return (
        draft.context.api_version >= SKIP_ASSIGNMENT_SINCE
        and draft.epoch == draft.assignment_epoch
        and leaver.topic_regex is None
        and leaver.topic_names == member.topic_names
        and all(other.is_reconciled(draft.epoch) for other in others)
    )


def _classic_group(draft: Draft, members: Iterable[Member]) -> ClassicGroup:
    classic = ClassicGroup(
        draft.group_id,
        state=GroupState.STABLE,
        state_timestamp_ms=draft.context.now_ms,
        protocol_type=CONSUMER_PROTOCOL_TYPE,
        generation=draft.epoch,
    )
    held: dict[MemberId, dict[TopicId, list[int]]] = {}
    for member in members:
        classic.add(_classic_member(member))
        assigned = member.assigned.items()
        held[member.member_id] = {topic: sorted(some) for topic, some in assigned}
    if len(classic.members) not in classic.supporters.values():
        raise _refused(draft, "its members have no protocol in common")
    classic.choose_protocol(classic.select_protocol())
    for member_id, plain in tuple(classic.members.items()):
        subscription = plain.metadata(classic.protocol_name)
        try:
            version = version_of(subscription)
        except MalformedFrame as error:
            raise _refused(draft, f"{error}") from None
        topics = draft.context.topics
        assignment = write_assignment(held[member_id], topics, version)
        classic.update(replace(plain, assignment=assignment))
    return classic


def _classic_member(member: Member) -> ClassicMember:
    assert member.classic is not None, f"{member.member_id} speaks the new protocol"
    return ClassicMember(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        session_timeout_ms=member.classic.session_timeout_ms,
        protocols=tuple(MemberProtocol(*each) for each in member.classic.protocols),
    )


def _convert(
    draft: Draft,
    classic: ClassicGroup,
    gone: Collection[Member],
    *,
    rebalances: bool,
) -> None:
    """Write it all down, and replace the timers (E20-42)."""
    for record in group_tombstones(draft.group):
        draft.write(record)
    assignments = {each.member_id: each.assignment for each in classic.members.values()}
    written = rebalancing_record if rebalances else generation_record
    draft.write(written(classic, assignments, draft.context.now_ms))
    draft.make(GroupDowngraded(draft.group_id, classic))
    _replace_timers(draft, classic, gone)
    if rebalances:
        now_ms, timeout_ms = draft.context.now_ms, classic.rebalance_timeout_ms
        draft.set(classic_timers.join_timer(draft.group_id, timeout_ms, now_ms))


def _replace_timers(
    draft: Draft, classic: ClassicGroup, gone: Collection[Member]
) -> None:
    group_id = draft.group_id
    draft.set(timers.cancel_target(group_id))
    draft.set(timers.cancel_computation(group_id))
    for member_id in draft.group.members:
        draft.set(timers.cancel_rebalance(group_id, member_id))
        for cancel in timers.cancel_classic(group_id, member_id):
            draft.set(cancel)
    for member in gone:
        draft.set(timers.cancel_session(group_id, member.member_id))
    for plain in classic.members.values():
        now_ms = draft.context.now_ms
        draft.set(classic_timers.session_timer(group_id, plain, now_ms))


def _refused(draft: Draft, reason: str) -> ApiError:
    return ApiError(
        ErrorCode.GROUP_ID_NOT_FOUND,
        f"Consumer group {draft.group_id} cannot become a classic group: {reason}.",
    )
