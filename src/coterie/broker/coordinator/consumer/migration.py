"""Online migration of a group between the two protocols, without stopping it (KIP-848,
E20).

Upgrade: the first member of the consumer protocol that joins a classic group converts
it. Its heartbeat starts with a draft that deletes the classic group and writes the same
members, with their owned partitions, into a consumer group; then the heartbeat is
handled as usual, and all records are one batch (E20.2, E20-03). Parked joins and syncs
fail with REBALANCE_IN_PROGRESS, and so do the next heartbeats of the other members. No
member loses a partition before it has revoked it.

Downgrade: when the last member of the consumer protocol leaves, or is replaced by a
member of the classic protocol, all records of the consumer group are deleted and record
2 is written: the members with their owned partitions, in a generation that is the
group's epoch (E20.4). Then they rebalance, so that the partitions of the former member
are assigned. The record has no leader to show that this rebalance is due, so it also
starts after a restart.

See Kafka's `ConsumerGroup.fromClassicGroup` and `ClassicGroup.fromConsumerGroup`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
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
    tombstone,
)
from coterie.broker.coordinator.classic.timers import cancel_join, cancel_sync
from coterie.broker.coordinator.consumer import timers
from coterie.broker.coordinator.consumer.draft import ConsumerDraft
from coterie.broker.coordinator.consumer.embedded import (
    known_partitions,
    read_assignment,
    read_subscription,
    version_of,
    write_assignment,
)
from coterie.broker.coordinator.consumer.group import ConsumerGroup
from coterie.broker.coordinator.consumer.member import (
    ClassicMemberInfo,
    Member,
    MemberState,
    Target,
    unique_names,
)
from coterie.broker.coordinator.consumer.record_builders import (
    group_records,
    group_tombstones,
)
from coterie.broker.coordinator.consumer.topics import (
    ExistingTopic,
    existing_topics,
    hash_of_topics,
)
from coterie.broker.coordinator.records import GroupMetadataValue
from coterie.broker.coordinator.result import Context, Record, Reply, TopicView
from coterie.errors import ApiError, MalformedFrame
from coterie.settings import Settings
from coterie.types import MemberId, TopicId
from coterie.wire import messages as m
from coterie.wire.error_codes import ErrorCode

_UPGRADING: Final = frozenset({"upgrade", "bidirectional"})
"""The values of `group.consumer.migration.policy` that allow an upgrade (E20-01)."""

_DISPOSABLE_USER_DATA: Final = frozenset(
    {"range", "roundrobin", "sticky", "cooperative-sticky"}
)
"""Assignors whose user data may be dropped.

Kafka's own assignors store at most their last assignment in it, which is part of this
group's state anyway; librdkafka's sticky assignors send it in every assignment. Kafka
refuses to upgrade such groups (E20-12), and so does this module if
`group.consumer.migration.drop.user.data` is false.
"""


def upgrade(
    classic: ClassicGroup, context: Context, written: Record | None = None
) -> ConsumerDraft:
    """Return a draft of the consumer group that replaces a classic one.

    `written` is the newest record of the classic group, with the last durable
    assignments.

    Raises:
        ApiError: GROUP_ID_NOT_FOUND: the group may not be upgraded (E20-11), or its
            members' metadata makes that impossible (E20-12).
    """
    group = ConsumerGroup(classic.group_id)
    if classic.members:
        _check_eligible(classic, context.environment.settings)
        last: Mapping[MemberId, bytes] = {}
        if written is not None:
            assert isinstance(written.value, GroupMetadataValue)
            last = {each.member_id: each.assignment for each in written.value.members}
        _fill(group, classic, context, last)
    draft = ConsumerDraft(group, context)
    draft.write(tombstone(classic.group_id))
    if classic.members:
        for record in group_records(group):
            draft.write(record)
    # Parked joins and syncs are of a generation that will not complete (E20-13).
    code = ErrorCode.REBALANCE_IN_PROGRESS
    for member_id, ticket in classic.joins.items():
        response = m.JoinGroupResponse(error_code=code, member_id=member_id)
        draft.replies.append(Reply(ticket, response))
    for ticket in classic.syncs.values():
        draft.replies.append(Reply(ticket, m.SyncGroupResponse(error_code=code)))
    # Sessions continue with the timeouts that the members chose (E20-15).
    draft.set(cancel_join(classic.group_id))
    draft.set(cancel_sync(classic.group_id))
    for member_id in classic.pending_members:
        draft.set(timers.cancel_session(classic.group_id, member_id))
    for member in draft.members().values():
        draft.set(timers.session_timer(draft.group_id, member, context))
    return draft


def _check_eligible(classic: ClassicGroup, settings: Settings) -> None:
    group_id = classic.group_id
    if settings.group_consumer_migration_policy.lower() not in _UPGRADING:
        raise _cannot_upgrade(group_id, "online upgrade is disabled")
    if not classic.uses_consumer_protocol:
        reason = "the group does not use the consumer embedded protocol"
        raise _cannot_upgrade(group_id, reason)
    most = settings.group_consumer_max_size
    if len(classic.members) > most:
        reason = "the group size exceeds the consumer group maximum size"
        raise _cannot_upgrade(group_id, reason)


def _fill(
    group: ConsumerGroup,
    classic: ClassicGroup,
    context: Context,
    last: Mapping[MemberId, bytes],
) -> None:
    """Add the members to the group, at the epoch that was the generation (E20-14)."""
    group.epoch = group.assignment_epoch = classic.generation
    try:
        targets = _targets(classic, context, last)
        members = [
            _consumer_member(member, targets[member.member_id], classic)
            for member in classic.members.values()
        ]
    except MalformedFrame:
        reason = "the embedded consumer protocol is malformed"
        raise _cannot_upgrade(classic.group_id, reason) from None
    for member in members:
        group.put_member(member)
    group.targets.update(targets)
    topics = context.environment.topics
    if classic.state is GroupState.STABLE and not _have_grown(
        existing_topics(group.topic_counts, topics), targets.values()
    ):
        group.metadata_hash = hash_of_topics(group.topic_counts, topics)
    # Otherwise the first heartbeat bumps the epoch for the topics. In Kafka a static
    # member that changes its protocol during a rebalance stays without partitions, and
    # partitions that were created since the last one stay without a member.


def _have_grown(topics: Iterable[ExistingTopic], targets: Iterable[Target]) -> bool:
    """Return whether partitions seem to have been created since the last assignment: it
    has none of the last ones of a topic, and all before them.

    A leader that assigns others, or nothing, does so on purpose.
    """
    assigned: dict[TopicId, set[int]] = {}
    for target in targets:
        for topic_id, partition in _each(target):
            assigned.setdefault(topic_id, set()).add(partition)
    for topic in topics:
        partitions = assigned.get(topic.topic_id, set())
        has_first = len(partitions) == max(partitions, default=-1) + 1
        if assigned and has_first and len(partitions) < topic.partition_count:
            return True
    return False


def _targets(
    classic: ClassicGroup, context: Context, last: Mapping[MemberId, bytes]
) -> dict[MemberId, Target]:
    """Return the partitions that each member may own.

    That is its assignment in the group's last complete generation. An unfinished
    rebalance has cleared it, so `last` holds the assignments of the last record.

    A member may also still own the partitions that it reported when it joined: it has
    no assignment yet, or is about to revoke some of them (KIP-429). None of that may be
    assigned to another member before the member has joined again.
    """
    topics = context.environment.topics
    targets: dict[MemberId, Target] = {}
    taken: set[tuple[TopicId, int]] = set()
    for member in classic.members.values():
        assignment = member.assignment or last.get(member.member_id, b"")
        if assignment:
            target = _assigned(assignment, classic, context)
            targets[member.member_id] = target
            if not taken.isdisjoint(of_target := set(_each(target))):
                reason = "partitions are assigned to several members"
                raise _cannot_upgrade(classic.group_id, reason)
            taken |= of_target
    for member in classic.members.values():
        owned = _free(_owned(member, classic, topics), taken)
        assigned = targets.get(member.member_id, {})
        targets[member.member_id] = _union(assigned, owned)
        taken.update(_each(owned))
    return targets


def _union(one: Target, other: Target) -> Target:
    none: frozenset[int] = frozenset()
    topics = {**one, **other}
    return {topic: one.get(topic, none) | other.get(topic, none) for topic in topics}


def _assigned(data: bytes, classic: ClassicGroup, context: Context) -> Target:
    assignment = read_assignment(data)
    may_drop_user_data = (
        context.environment.settings.group_consumer_migration_drop_user_data
        and classic.protocol_name in _DISPOSABLE_USER_DATA
    )
    if assignment.user_data and not may_drop_user_data:
        reason = (
            "an unsupported custom assignor is in use. Please refer to the "
            "documentation or switch to a default assignor before re-attempting the "
            "upgrade"
        )
        raise _cannot_upgrade(classic.group_id, reason)
    return known_partitions(assignment.assigned_partitions, context.environment.topics)


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
) -> m.ConsumerProtocolSubscription:
    """Return the member's subscription under the group's protocol.

    Use the subscription of the member's first protocol if the group has no protocol yet
    or has one that the member does not support. Kafka fails there with
    UNKNOWN_SERVER_ERROR.
    """
    assert member.protocols, "a member without a protocol"
    name = classic.protocol_name
    chosen = (each.metadata for each in member.protocols if each.name == name)
    return read_subscription(next(chosen, member.protocols[0].metadata))


def _consumer_member(
    member: ClassicMember, target: Target, classic: ClassicGroup
) -> Member:
    subscription = _subscription(member, classic)
    generation = classic.generation
    return Member(
        member_id=member.member_id,
        instance_id=member.group_instance_id,
        rack_id=subscription.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        topic_names=unique_names(subscription.topics),
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        classic=ClassicMemberInfo(
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


def _cannot_upgrade(group_id: str, reason: str) -> ApiError:
    return ApiError(
        ErrorCode.GROUP_ID_NOT_FOUND,
        f"Cannot upgrade classic group {group_id} to consumer group because {reason}.",
    )


_DOWNGRADING: Final = frozenset({"downgrade", "bidirectional"})
"""The values of `group.consumer.migration.policy` that allow a downgrade (E20-01)."""
MIGRATING: Final = _UPGRADING | _DOWNGRADING
"""The values that allow classic members in a consumer group (E20-01)."""


def may_downgrade(
    draft: ConsumerDraft, gone: Collection[Member], *, joining: int = 0
) -> bool:
    """Return whether the group must be downgraded without the `gone` members.

    `joining` members of the classic protocol join at the same time (E20-40, E20-41).
    """
    group, settings = draft.group, draft.context.environment.settings
    size = len(group.members) - len(gone) + joining
    classic_gone = sum(member.classic is not None for member in gone)
    classic = group.classic_count - classic_gone + joining
    assert classic <= size
    return (
        0 < classic == size <= settings.group_max_size
        and settings.group_consumer_migration_policy.lower() in _DOWNGRADING
    )


def downgrade(draft: ConsumerDraft, gone: Collection[Member]) -> None:
    """Downgrade the group without some members; the others rebalance.

    Raises:
        ApiError: GROUP_ID_NOT_FOUND: a member's subscription cannot be decoded
            (E20-41).
    """
    left = {member.member_id for member in gone}
    members = [
        member for member in draft.members().values() if member.member_id not in left
    ]
    classic = _classic_group(draft, members)
    _write_downgrade(draft, classic, gone, rebalances=True)


def replace_last(
    draft: ConsumerDraft, replaced: Member, member: Member, *, needs_target: bool
) -> ClassicGroup | None:
    """Downgrade the group, with `member` of the classic protocol in place of
    `replaced`, which may have the same member id.

    Return the classic group, which `member` leads; None if the group rebalances.

    The classic group rebalances if a new target is due. In Kafka that is the only
    reason. Here it also rebalances while another member has not reconciled (E20-43):
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
    gone: Collection[Member],
    *,
    rebalances: bool,
) -> None:
    """Write the records of the downgrade, and replace the timers (E20-42)."""
    for record in group_tombstones(draft.group):
        draft.write(record)
    assignments = {each.member_id: each.assignment for each in classic.members.values()}
    build = rebalancing_record if rebalances else generation_record
    draft.write(build(classic, assignments, draft.context.wall_ms))
    draft.make(GroupDowngraded(draft.group_id, classic))
    _replace_timers_of_consumer_group(draft, classic, gone)
    if rebalances:
        now_ms, timeout_ms = draft.context.now_ms, classic.rebalance_timeout_ms
        draft.set(classic_timers.join_timer(draft.group_id, timeout_ms, now_ms))


def _replace_timers_of_consumer_group(
    draft: ConsumerDraft, classic: ClassicGroup, gone: Collection[Member]
) -> None:
    group_id = draft.group_id
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


def _cannot_downgrade(draft: ConsumerDraft, reason: str) -> ApiError:
    return ApiError(
        ErrorCode.GROUP_ID_NOT_FOUND,
        f"Cannot downgrade the classic group {draft.group_id}: {reason}.",
    )
