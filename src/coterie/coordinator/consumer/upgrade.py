"""A classic group becomes a consumer group while its members go on consuming (E20.2).

The first member of the consumer protocol that joins brings it about. Its heartbeat
begins with a draft of the group as it will be: everything the classic group was is
written away, and the same members, with all they own, into the new group. Then the
heartbeat goes its usual way, and everything is one batch (E20-03).

Who waits for a join or a sync is told to join again, and all others learn so by their
next heartbeat. Nobody loses a partition before it says that it let it go.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from coterie.coordinator.classic.group import ClassicGroup
from coterie.coordinator.classic.group import Member as ClassicMember
from coterie.coordinator.classic.records import tombstone
from coterie.coordinator.classic.timers import cancel_join, cancel_sync
from coterie.coordinator.consumer import timers
from coterie.coordinator.consumer.draft import Draft
from coterie.coordinator.consumer.embedded import (
    known_partitions,
    read_assignment,
    read_subscription,
)
from coterie.coordinator.consumer.group import ConsumerGroup
from coterie.coordinator.consumer.member import ClassicFace, Member, Target
from coterie.coordinator.consumer.records import group_records
from coterie.coordinator.records.group_metadata import GroupMetadataValue
from coterie.coordinator.result import Context, Record, Reply, TopicView
from coterie.errors import ApiError, MalformedFrame
from coterie.settings import Settings
from coterie.types import MemberId, TopicId
from coterie.wire.consumer_protocol import ConsumerProtocolSubscription
from coterie.wire.error_codes import ErrorCode
from coterie.wire.messages.join_group import JoinGroupResponse
from coterie.wire.messages.sync_group import SyncGroupResponse

_UPGRADING: Final = frozenset({"upgrade", "bidirectional"})
"""The policies under which a group with members may be upgraded (E20-01)."""

_MEMOS_ONLY: Final = frozenset({"range", "roundrobin", "sticky", "cooperative-sticky"})
"""Kafka's own assignors: data of theirs is at most a memo of the last assignment, which
this group keeps itself. librdkafka's sticky ones put it into every assignment (E20-12
is about data that would be lost)."""


def upgraded(
    classic: ClassicGroup, context: Context, written: Record | None = None
) -> Draft:
    """A draft of the consumer group that takes a classic one's place. `written` is the
    newest record of the classic group: what its members were assigned last.

    Raises:
        ApiError: GROUP_ID_NOT_FOUND: the group may not be upgraded (E20-11), or what
            its members say to each other makes that impossible (E20-12).
    """
    group = ConsumerGroup(classic.group_id)
    if classic.members:
        _check_eligible(classic, context.settings)
        _fill(group, classic, context.topics, _last_assignments(written))
    draft = Draft(group, context)
    draft.write(tombstone(classic.group_id))
    if classic.members:
        for record in group_records(group):
            draft.write(record)
    _answer_the_waiting(draft, classic)
    _replace_timers(draft, classic)
    return draft


def _check_eligible(classic: ClassicGroup, settings: Settings) -> None:
    group_id = classic.group_id
    if settings.group_consumer_migration_policy.lower() not in _UPGRADING:
        raise _refused(group_id, "online upgrades are disabled")
    if not classic.uses_consumer_protocol:
        raise _refused(group_id, f"its protocol type is {classic.protocol_type}")
    most = settings.group_consumer_max_size
    if len(classic.members) > most:
        raise _refused(group_id, f"it has more than {most} members")


def _last_assignments(written: Record | None) -> Mapping[MemberId, bytes]:
    if written is None:
        return {}
    assert isinstance(written.value, GroupMetadataValue)
    return {each.member_id: each.assignment for each in written.value.members}


def _fill(
    group: ConsumerGroup,
    classic: ClassicGroup,
    topics: TopicView,
    last: Mapping[MemberId, bytes],
) -> None:
    """Put the members in, all at the epoch that was the generation (E20-14)."""
    group.epoch = group.assignment_epoch = classic.generation
    try:
        targets = _targets(classic, topics, last)
        members = [
            _member(member, targets[member.member_id], classic)
            for member in classic.members.values()
        ]
    except MalformedFrame as error:
        reason = f"its members' protocol is malformed: {error}"
        raise _refused(classic.group_id, reason) from None
    for member in members:
        group.put_member(member)
    group.targets.update(targets)


def _targets(
    classic: ClassicGroup, topics: TopicView, last: Mapping[MemberId, bytes]
) -> dict[MemberId, Target]:
    """What each member was assigned in the group's last generation. One that was broken
    off assigned nothing, and who has not joined since may still read what the one
    before it gave: `last`.

    Besides, a member may still own what it owned when it joined: it has no assignment
    yet, as its generation was broken off, or it has one and is about to give the rest
    up (KIP-429). None of that is to be given to anybody else before the member has
    joined again.
    """
    targets: dict[MemberId, Target] = {}
    taken: set[tuple[TopicId, int]] = set()
    for member in classic.members.values():
        assignment = member.assignment or last.get(member.member_id, b"")
        if assignment:
            target = _assigned(assignment, classic, topics)
            targets[member.member_id] = target
            if not taken.isdisjoint(of_target := set(_each(target))):
                reason = "partitions of it are assigned to several members"
                raise _refused(classic.group_id, reason)
            taken |= of_target
    for member in classic.members.values():
        owned = _free(_owned(member, classic, topics), taken)
        assigned = targets.get(member.member_id, {})
        targets[member.member_id] = _together(assigned, owned)
        taken.update(_each(owned))
    return targets


def _together(one: Target, other: Target) -> Target:
    none: frozenset[int] = frozenset()
    topics = {**one, **other}
    return {topic: one.get(topic, none) | other.get(topic, none) for topic in topics}


def _assigned(data: bytes, classic: ClassicGroup, topics: TopicView) -> Target:
    assignment = read_assignment(data)
    if assignment.user_data and classic.protocol_name not in _MEMOS_ONLY:
        reason = "its assignor has data of its own, which would be lost"
        raise _refused(classic.group_id, reason)
    return known_partitions(assignment.assigned_partitions, topics)


def _owned(member: ClassicMember, classic: ClassicGroup, topics: TopicView) -> Target:
    subscription = _subscription(member, classic)
    return known_partitions(subscription.owned_partitions, topics)


def _each(target: Target) -> list[tuple[TopicId, int]]:
    return [(topic, p) for topic, partitions in target.items() for p in partitions]


def _free(target: Target, taken: set[tuple[TopicId, int]]) -> Target:
    free = {
        topic: frozenset(p for p in partitions if (topic, p) not in taken)
        for topic, partitions in target.items()
    }
    return {topic: partitions for topic, partitions in free.items() if partitions}


def _subscription(
    member: ClassicMember, classic: ClassicGroup
) -> ConsumerProtocolSubscription:
    """What the member says under the group's protocol, or under its own first one: a
    group whose first generation is still to come has chosen none. All must be readable,
    as any of them may count from now on."""
    assert member.protocols, "a member can do at least one protocol"
    said = {name: read_subscription(data) for name, data in member.protocols}
    return said.get(classic.protocol_name or "", said[member.protocols[0].name])


def _member(member: ClassicMember, target: Target, classic: ClassicGroup) -> Member:
    subscription = _subscription(member, classic)
    generation = classic.generation
    return Member(
        member_id=member.member_id,
        instance_id=member.group_instance_id,
        rack_id=subscription.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        topic_names=tuple(subscription.topics),
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        classic=ClassicFace(
            session_timeout_ms=member.session_timeout_ms,
            protocols=tuple((name, metadata) for name, metadata in member.protocols),
        ),
        epoch=generation,
        previous_epoch=generation,
        assigned={
            topic: dict.fromkeys(sorted(partitions), generation)
            for topic, partitions in target.items()
        },
    )


def _answer_the_waiting(draft: Draft, classic: ClassicGroup) -> None:
    """Their generation will never be: they join again (E20-13)."""
    code = ErrorCode.REBALANCE_IN_PROGRESS
    for member_id, ticket in classic.joins.items():
        no = JoinGroupResponse(error_code=code, member_id=member_id)
        draft.replies.append(Reply(ticket, no))
    for ticket in classic.syncs.values():
        draft.replies.append(Reply(ticket, SyncGroupResponse(error_code=code)))


def _replace_timers(draft: Draft, classic: ClassicGroup) -> None:
    """Sessions go on, with the timeouts that the members chose (E20-15)."""
    draft.set(cancel_join(classic.group_id))
    draft.set(cancel_sync(classic.group_id))
    for member_id in classic.pending_members:
        draft.set(timers.cancel_session(classic.group_id, member_id))
    for member in draft.members().values():
        draft.set(timers.session_timer(draft.group_id, member, draft.context))


def _refused(group_id: str, reason: str) -> ApiError:
    return ApiError(
        ErrorCode.GROUP_ID_NOT_FOUND,
        f"Classic group {group_id} cannot become a consumer group: {reason}.",
    )
