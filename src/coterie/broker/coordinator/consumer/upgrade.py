"""Upgrade of a classic group to the consumer protocol, without stopping it (KIP-848).

The first member of the consumer protocol that joins a classic group converts it. Its
heartbeat starts with a draft that deletes the classic group and writes the same
members, with their owned partitions, into a consumer group; then the heartbeat is
handled as usual, and all records are one batch. Parked joins and syncs fail
with REBALANCE_IN_PROGRESS, and so do the next heartbeats of the other members. No
member loses a partition before it has revoked it.

See Kafka's `ConsumerGroup.fromClassicGroup`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from coterie.broker.coordinator.classic.group import ClassicGroup, GroupState
from coterie.broker.coordinator.classic.group import Member as ClassicMember
from coterie.broker.coordinator.classic.group_metadata import tombstone
from coterie.broker.coordinator.classic.timers import cancel_join, cancel_sync
from coterie.broker.coordinator.consumer import timers
from coterie.broker.coordinator.consumer.draft import ConsumerDraft
from coterie.broker.coordinator.consumer.embedded import (
    known_partitions,
    read_assignment,
    read_subscription,
)
from coterie.broker.coordinator.consumer.group import ConsumerGroup
from coterie.broker.coordinator.consumer.member import (
    JOIN_EPOCH,
    ClassicMemberInfo,
    Member,
    Target,
    unique_names,
)
from coterie.broker.coordinator.consumer.record_builders import group_records
from coterie.broker.coordinator.consumer.topics import (
    ExistingTopic,
    existing_topics,
    hash_of_topics,
)
from coterie.broker.coordinator.records import GroupMetadataValue
from coterie.broker.coordinator.result import Context, Record, Reply, TopicView
from coterie.broker.coordinator.state import State
from coterie.errors import ApiError, MalformedFrame
from coterie.settings import Settings
from coterie.types import GroupId, MemberId, TopicId, TopicName
from coterie.wire import messages as m
from coterie.wire.error_codes import ErrorCode

_UPGRADING: Final = frozenset({"upgrade", "bidirectional"})
"""The values of `group.consumer.migration.policy` that allow an upgrade."""

_DISPOSABLE_USER_DATA: Final = frozenset(
    {"range", "roundrobin", "sticky", "cooperative-sticky"}
)
"""Assignors whose user data may be dropped.

Kafka's own assignors store at most their last assignment in it, which is part of this
group's state anyway; librdkafka's sticky assignors send it in every assignment. Kafka
refuses to upgrade such groups, and so does this module if
`group.consumer.migration.drop.user.data` is false.
"""


def get_or_convert(
    state: State, request: m.ConsumerGroupHeartbeatRequest, context: Context
) -> ConsumerGroup:
    """Return the group of a request before the request.

    A join may create the group. When it joins a classic group, return the consumer
    group with the same members; `upgrade` writes it.

    Raises:
        ApiError: GROUP_ID_NOT_FOUND, also when the group may not be upgraded,
            or its members' metadata makes that impossible.
    """
    group_id = request.group_id
    group = state.consumer_groups.get(group_id)
    if group is not None:
        return group
    classic = state.classic_groups.get(group_id)
    if request.member_epoch != JOIN_EPOCH or group_id in state.share_groups:
        raise ApiError(
            ErrorCode.GROUP_ID_NOT_FOUND,
            f"Consumer group {group_id} not found."
            if state.group(group_id) is None
            else f"Group {group_id} is not a consumer group.",
        )
    if classic is None:
        state.check_room(group_id, context.environment.settings)
    elif classic.members:
        return _convert(classic, context, state.group_records.get(group_id))
    return ConsumerGroup(group_id)


def upgrade(draft: ConsumerDraft, classic: ClassicGroup) -> None:
    """Delete the classic group, and write the consumer group that replaces it."""
    group = draft.group
    draft.write(tombstone(group.group_id))
    if group.members:
        for record in group_records(group):
            draft.write(record)
    # Parked joins and syncs are of a generation that will not complete.
    code = ErrorCode.REBALANCE_IN_PROGRESS
    for member_id, ticket in classic.joins.items():
        response = m.JoinGroupResponse(error_code=code, member_id=member_id)
        draft.replies.append(Reply(ticket, response))
    for ticket in classic.syncs.values():
        draft.replies.append(Reply(ticket, m.SyncGroupResponse(error_code=code)))
    # Sessions continue with the timeouts that the members chose.
    draft.set(cancel_join(group.group_id))
    draft.set(cancel_sync(group.group_id))
    for member_id in classic.pending_members:
        draft.set(timers.cancel_session(group.group_id, member_id))
    for member in group.members.values():
        draft.set(timers.session_timer(group.group_id, member, draft.context))


def _convert(
    classic: ClassicGroup, context: Context, written: Record | None
) -> ConsumerGroup:
    """Return a consumer group with the members of a classic group, at the epoch that
    was the generation.

    `written` is the newest record of the classic group, with the last durable
    assignments.
    """
    _check_eligible(classic, context.environment.settings)
    decoded = _decoded(classic, context.environment.topics, written)
    _check_user_data(classic, decoded, context.environment.settings)
    targets = _targets(classic.group_id, decoded)
    metadata_hash = _metadata_hash(classic, decoded, targets, context)
    group = ConsumerGroup(classic.group_id)
    group.epoch = group.assignment_epoch = classic.generation
    group.metadata_hash = metadata_hash
    group.targets.update(targets)
    for member in decoded:
        target = targets[member.classic.member_id]
        group.put_member(_consumer_member(member, target, classic.generation))
    return group


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


class _DecodedMember(NamedTuple):
    """A classic member with its decoded subscription and assignment."""

    classic: ClassicMember
    topic_names: tuple[TopicName, ...]
    rack_id: str | None
    owned: Target
    """The partitions that it owned when it joined."""
    assigned: Target
    """Its assignment; empty without one."""
    user_data: bytes | None
    """The user data of its assignment."""


def _decoded(
    classic: ClassicGroup, topics: TopicView, written: Record | None
) -> list[_DecodedMember]:
    """Decode the members' subscriptions, and their assignments in the last complete
    generation.

    An unfinished rebalance has cleared the assignments; then the last record has them.
    """
    last: Mapping[MemberId, bytes] = {}
    if written is not None:
        assert isinstance(written.value, GroupMetadataValue)
        last = {each.member_id: each.assignment for each in written.value.members}
    try:
        return [
            _decode(member, classic.protocol_name, topics, last.get(member_id, b""))
            for member_id, member in classic.members.items()
        ]
    except MalformedFrame:
        reason = "the embedded consumer protocol is malformed"
        raise _cannot_upgrade(classic.group_id, reason) from None


def _decode(
    member: ClassicMember, protocol: str | None, topics: TopicView, last: bytes
) -> _DecodedMember:
    """Decode a member's subscription under the group's protocol, and its assignment.

    Use the subscription of the member's first protocol if the group has no protocol yet
    or has one that the member does not support. Kafka fails there with
    UNKNOWN_SERVER_ERROR.
    """
    assert member.protocols, "a member without a protocol"
    chosen = (each.metadata for each in member.protocols if each.name == protocol)
    subscription = read_subscription(next(chosen, member.protocols[0].metadata))
    assigned: Target = {}
    user_data = None
    if data := member.assignment or last:
        assignment = read_assignment(data)
        assigned = known_partitions(assignment.assigned_partitions, topics)
        user_data = assignment.user_data
    return _DecodedMember(
        classic=member,
        topic_names=unique_names(subscription.topics),
        rack_id=subscription.rack_id,
        owned=known_partitions(subscription.owned_partitions, topics),
        assigned=assigned,
        user_data=user_data,
    )


def _check_user_data(
    classic: ClassicGroup, decoded: Iterable[_DecodedMember], settings: Settings
) -> None:
    if (
        settings.group_consumer_migration_drop_user_data
        and classic.protocol_name in _DISPOSABLE_USER_DATA
    ):
        return
    if any(member.user_data for member in decoded):
        reason = (
            "an unsupported custom assignor is in use. Please refer to the "
            "documentation or switch to a default assignor before re-attempting the "
            "upgrade"
        )
        raise _cannot_upgrade(classic.group_id, reason)


def _targets(
    group_id: GroupId, members: Sequence[_DecodedMember]
) -> dict[MemberId, Target]:
    """Return the partitions that each member may own.

    That is its assignment in the group's last complete generation. A member may also
    still own the partitions that it reported when it joined: it has no assignment yet,
    or is about to revoke some of them (KIP-429). None of that may be assigned to
    another member before the member has joined again.
    """
    targets: dict[MemberId, Target] = {}
    taken: set[tuple[TopicId, int]] = set()
    for member in members:
        assigned = set(_each(member.assigned))
        if not taken.isdisjoint(assigned):
            reason = "partitions are assigned to several members"
            raise _cannot_upgrade(group_id, reason)
        taken |= assigned
    for member in members:
        owned = _free(member.owned, taken)
        targets[member.classic.member_id] = _union(member.assigned, owned)
        taken.update(_each(owned))
    return targets


def _union(one: Target, other: Target) -> Target:
    none: frozenset[int] = frozenset()
    topics = {**one, **other}
    return {topic: one.get(topic, none) | other.get(topic, none) for topic in topics}


def _each(target: Target) -> list[tuple[TopicId, int]]:
    return [(topic, p) for topic, partitions in target.items() for p in partitions]


def _free(target: Target, taken: set[tuple[TopicId, int]]) -> Target:
    free = {
        topic: frozenset(p for p in partitions if (topic, p) not in taken)
        for topic, partitions in target.items()
    }
    return {topic: partitions for topic, partitions in free.items() if partitions}


def _consumer_member(member: _DecodedMember, target: Target, generation: int) -> Member:
    classic = member.classic
    return Member(
        member_id=classic.member_id,
        instance_id=classic.group_instance_id,
        rack_id=member.rack_id,
        client_id=classic.client_id,
        client_host=classic.client_host,
        topic_names=member.topic_names,
        rebalance_timeout_ms=classic.rebalance_timeout_ms,
        classic=ClassicMemberInfo(
            session_timeout_ms=classic.session_timeout_ms,
            protocols=tuple((name, metadata) for name, metadata in classic.protocols),
        ),
        epoch=generation,
        previous_epoch=generation,
        assigned={
            topic: dict.fromkeys(sorted(partitions), generation)
            for topic, partitions in target.items()
        },
    )


def _metadata_hash(
    classic: ClassicGroup,
    members: Iterable[_DecodedMember],
    targets: Mapping[MemberId, Target],
    context: Context,
) -> int:
    """Return the hash of the topics at the last assignment; 0 if they changed since.

    Then the first heartbeat bumps the epoch for the topics. In Kafka a static member
    that changes its protocol during a rebalance stays without partitions, and
    partitions that were created since the last one stay without a member.
    """
    names = {name for member in members for name in member.topic_names}
    topics = context.environment.topics
    if classic.state is not GroupState.STABLE:
        return 0
    if _have_grown(existing_topics(names, topics), targets.values()):
        return 0
    return hash_of_topics(names, topics)


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


def _cannot_upgrade(group_id: str, reason: str) -> ApiError:
    return ApiError(
        ErrorCode.GROUP_ID_NOT_FOUND,
        f"Cannot upgrade classic group {group_id} to consumer group because {reason}.",
    )
