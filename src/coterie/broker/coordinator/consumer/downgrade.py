"""Downgrade of a consumer group to the classic protocol, without stopping it (KIP-848).

When the last member of the consumer protocol leaves, or is replaced by a member of the
classic protocol, all records of the consumer group are deleted and record 2 is written:
the members with their owned partitions, in a generation that is the group's epoch. Then
they rebalance, so that the partitions of the former member are assigned. The record has
no leader to show that this rebalance is due, so it also starts after a restart.

See Kafka's `ClassicGroup.fromConsumerGroup`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import Final

from coterie.broker.coordinator.classic import timers as classic_timers
from coterie.broker.coordinator.classic.draft import GroupDowngraded
from coterie.broker.coordinator.classic.group import (
    CONSUMER_PROTOCOL_TYPE,
    ClassicGroup,
    GroupState,
    MemberProtocol,
)
from coterie.broker.coordinator.classic.group import Member as ClassicMember
from coterie.broker.coordinator.classic.group_metadata import (
    generation_record,
    rebalancing_record,
)
from coterie.broker.coordinator.consumer import timers
from coterie.broker.coordinator.consumer.draft import ConsumerDraft
from coterie.broker.coordinator.consumer.embedded import version_of, write_assignment
from coterie.broker.coordinator.consumer.member import Member, MemberState
from coterie.broker.coordinator.consumer.record_builders import group_tombstones
from coterie.errors import ApiError, MalformedFrame
from coterie.types import MemberId, TopicId
from coterie.wire.error_codes import ErrorCode

_DOWNGRADING: Final = frozenset({"downgrade", "bidirectional"})
"""The values of `group.consumer.migration.policy` that allow a downgrade."""
MIGRATING: Final = _DOWNGRADING | {"upgrade"}
"""The values that allow classic members in a consumer group."""


def may_downgrade(
    draft: ConsumerDraft, departing: Collection[Member], *, joining: int = 0
) -> bool:
    """Return whether the group must be downgraded without the `departing` members.

    `joining` members of the classic protocol join at the same time.
    """
    group, settings = draft.group, draft.context.environment.settings
    size = len(group.members) - len(departing) + joining
    classic_departing = sum(member.classic is not None for member in departing)
    classic = group.classic_count - classic_departing + joining
    assert classic <= size
    return (
        0 < classic == size <= settings.group_max_size
        and settings.group_consumer_migration_policy.lower() in _DOWNGRADING
    )


def downgrade(draft: ConsumerDraft, departing: Collection[Member]) -> None:
    """Downgrade the group without some members; the others rebalance.

    Raises:
        ApiError: GROUP_ID_NOT_FOUND: a member's subscription cannot be decoded.
    """
    departing_ids = {member.member_id for member in departing}
    remaining = [
        member
        for member in draft.members().values()
        if member.member_id not in departing_ids
    ]
    classic = _classic_group(draft, remaining)
    _write_downgrade(draft, classic, departing, rebalances=True)


def replace_last(
    draft: ConsumerDraft, replaced: Member, member: Member, *, needs_target: bool
) -> ClassicGroup | None:
    """Downgrade the group, with `member` of the classic protocol in place of
    `replaced`, which may have the same member id.

    Return the classic group, which `member` leads; None if the group rebalances.

    The classic group rebalances if a new target is due. In Kafka that is the only
    reason. Here it also rebalances while another member has not reconciled:
    otherwise two members could own the same partition, or a member would wait for ever
    for partitions that it has not got yet.

    Raises:
        ApiError: GROUP_ID_NOT_FOUND: a member's subscription cannot be decoded.
    """
    assert member.classic is not None, "the member uses the consumer protocol"
    others = [other for other in draft.members().values() if other is not replaced]
    rebalances = needs_target or not all(
        other.is_reconciled(draft.epoch) for other in others
    )
    if not rebalances:
        target = draft.target(replaced.member_id).items()
        held = {topic: dict.fromkeys(some, draft.epoch) for topic, some in target}
        member = member._replace(
            assigned=held, pending_revocation={}, state=MemberState.STABLE
        )
    classic = _classic_group(draft, [*others, member])
    if not rebalances:
        classic.leader_id = member.member_id
    _write_downgrade(draft, classic, (replaced,), rebalances=rebalances)
    return None if rebalances else classic


def _classic_group(draft: ConsumerDraft, members: Iterable[Member]) -> ClassicGroup:
    classic = ClassicGroup(
        draft.group_id,
        state=GroupState.STABLE,
        state_timestamp_ms=draft.context.wall_ms,
        protocol_type=CONSUMER_PROTOCOL_TYPE,
        generation=draft.epoch,
    )
    held: dict[MemberId, dict[TopicId, list[int]]] = {}
    for member in members:
        classic.add(_classic_member(member))
        assigned = member.assigned.items()
        held[member.member_id] = {topic: sorted(some) for topic, some in assigned}
    if len(classic.members) not in classic.supporters.values():
        raise _cannot_downgrade(draft, "its members have no protocol in common")
    classic.choose_protocol(classic.select_protocol())
    for member_id, plain in tuple(classic.members.items()):
        subscription = plain.metadata(classic.protocol_name)
        try:
            version = version_of(subscription)
        except MalformedFrame as error:
            raise _cannot_downgrade(draft, f"{error}") from None
        topics = draft.context.environment.topics
        assignment = write_assignment(held[member_id], topics, version)
        classic.update(replace(plain, assignment=assignment))
    return classic


def _classic_member(member: Member) -> ClassicMember:
    assert member.classic is not None, f"{member.member_id} uses the consumer protocol"
    return ClassicMember(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        session_timeout_ms=member.classic.session_timeout_ms,
        protocols=tuple(MemberProtocol(*each) for each in member.classic.protocols),
    )


def _write_downgrade(
    draft: ConsumerDraft,
    classic: ClassicGroup,
    departing: Collection[Member],
    *,
    rebalances: bool,
) -> None:
    """Write the records of the downgrade, and replace the timers."""
    for record in group_tombstones(draft.group):
        draft.write(record)
    assignments = {each.member_id: each.assignment for each in classic.members.values()}
    build = rebalancing_record if rebalances else generation_record
    draft.write(build(classic, assignments, draft.context.wall_ms))
    draft.make(GroupDowngraded(draft.group_id, classic))
    _replace_timers_of_consumer_group(draft, classic, departing)
    if rebalances:
        now_ms, timeout_ms = draft.context.now_ms, classic.rebalance_timeout_ms
        draft.set(classic_timers.join_timer(draft.group_id, timeout_ms, now_ms))


def _replace_timers_of_consumer_group(
    draft: ConsumerDraft, classic: ClassicGroup, departing: Collection[Member]
) -> None:
    group_id = draft.group_id
    draft.set(timers.cancel_computation(group_id))
    for member_id in draft.group.members:
        draft.set(timers.cancel_rebalance(group_id, member_id))
        for cancel in timers.cancel_classic(group_id, member_id):
            draft.set(cancel)
    for member in departing:
        draft.set(timers.cancel_session(group_id, member.member_id))
    for plain in classic.members.values():
        now_ms = draft.context.now_ms
        draft.set(classic_timers.session_timer(group_id, plain, now_ms))


def _cannot_downgrade(draft: ConsumerDraft, reason: str) -> ApiError:
    return ApiError(
        ErrorCode.GROUP_ID_NOT_FOUND,
        f"Cannot downgrade the classic group {draft.group_id}: {reason}.",
    )
