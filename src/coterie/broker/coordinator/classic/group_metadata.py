"""Build and replay the record of a classic group, `GroupMetadata` (type 2).

It is written when a generation gets its assignments, when the group becomes empty, when
a static member is replaced, when a join creates the group, and when a consumer group is
downgraded.

Replay is the only way the durable part of a group changes, live and at load. Compaction
may have removed any earlier record, so a record never depends on one before it. The
volatile state of a live group (pending members, parked joins, the other protocols of a
member) is retained.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from coterie.broker.coordinator.classic.group import (
    ClassicGroup,
    GroupState,
    HasGroups,
    Member,
    MemberProtocol,
)
from coterie.broker.coordinator.records import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
)
from coterie.broker.coordinator.result import Record
from coterie.types import GroupId, MemberId

VALUE_VERSION: Final = 3
"""The version that Kafka writes: the first with instance ids, and the last without
tagged fields."""


def generation_record(
    group: ClassicGroup, assignments: Mapping[MemberId, bytes], at_ms: int
) -> Record:
    """Return the record of a generation; a member missing in `assignments` gets an
    empty one."""
    assert group.leader_id in group.members
    return _record(group, assignments, at_ms, group.leader_id)


def rebalancing_record(
    group: ClassicGroup, assignments: Mapping[MemberId, bytes], at_ms: int
) -> Record:
    """Return the record of a generation without a leader: it must rebalance.

    Apache Kafka loads it as a Stable group, like its own record of a downgraded group.
    """
    assert group.members, "a group without members does not rebalance"
    return _record(group, assignments, at_ms, None)


def _record(
    group: ClassicGroup,
    assignments: Mapping[MemberId, bytes],
    at_ms: int,
    leader_id: MemberId | None,
) -> Record:
    members = [
        MemberMetadata(
            member_id=member.member_id,
            group_instance_id=member.group_instance_id,
            client_id=member.client_id,
            client_host=member.client_host,
            rebalance_timeout=member.rebalance_timeout_ms,
            session_timeout=member.session_timeout_ms,
            subscription=member.metadata(group.protocol_name),
            assignment=assignments.get(member.member_id, b""),
        )
        for member in group.members.values()
    ]
    assert group.protocol_name is not None
    value = GroupMetadataValue(
        protocol_type=group.protocol_type or "",
        generation=group.generation,
        protocol=group.protocol_name,
        leader=leader_id,
        current_state_timestamp=at_ms,
        members=members,
    )
    return Record(GroupMetadataKey(group=group.group_id), value, VALUE_VERSION)


def empty_record(
    group_id: GroupId, *, protocol_type: str | None, generation: int, at_ms: int
) -> Record:
    """Return the record of a group without members since `at_ms`."""
    assert generation >= 0
    value = GroupMetadataValue(
        protocol_type=protocol_type or "",
        generation=generation,
        protocol=None,
        leader=None,
        current_state_timestamp=at_ms,
    )
    return Record(GroupMetadataKey(group=group_id), value, VALUE_VERSION)


def tombstone(group_id: GroupId) -> Record:
    """Return the tombstone of a group."""
    return Record(GroupMetadataKey(group=group_id), None)


def replay(
    state: HasGroups, key: GroupMetadataKey, value: GroupMetadataValue | None
) -> None:
    """Apply the record to the state; a tombstone removes the group."""
    if value is None:
        state.classic_groups.pop(key.group, None)
        return
    live = state.classic_groups.get(key.group)
    if live is not None and not value.members and live.joins:
        return  # the record of a group that its first join created
    state.classic_groups[key.group] = _group(key.group, value, live)


def _group(
    group_id: str, value: GroupMetadataValue, live: ClassicGroup | None
) -> ClassicGroup:
    group = ClassicGroup(
        group_id,
        state=_state(value),
        state_timestamp_ms=value.current_state_timestamp,
        protocol_type=value.protocol_type or None,
        protocol_name=value.protocol,
        generation=value.generation,
        leader_id=value.leader,
    )
    is_current = live is not None and live.generation == value.generation
    for stored in value.members:
        known = live.members.get(stored.member_id) if live else None
        member = _member(stored, value.protocol or "", known)
        is_current &= known is not None and known.protocols == member.protocols
        group.add(member)
    assert group.leader_id is not None or not group.members
    group.choose_protocol(value.protocol)
    if live is not None:
        if is_current and live.subscriptions is not None and group.members:
            # It has not started a generation, and is not loaded from several records.
            group.subscriptions = live.subscriptions
        group.pending_members = live.pending_members
        group.unsynced = live.unsynced
    return group


def _state(value: GroupMetadataValue) -> GroupState:
    """Return the state after the record's replay.

    A generation without a leader is a downgraded group that has yet to rebalance.
    """
    if not value.members:
        return GroupState.EMPTY
    return GroupState.PREPARING_REBALANCE if value.leader is None else GroupState.STABLE


def _member(stored: MemberMetadata, protocol: str, known: Member | None) -> Member:
    chosen = MemberProtocol(protocol, stored.subscription)
    # Before KIP-62 the session timeout was also the rebalance timeout, so version 0 has
    # only the session timeout.
    rebalance_timeout_ms = stored.rebalance_timeout
    if rebalance_timeout_ms == -1:
        rebalance_timeout_ms = stored.session_timeout
    return Member(
        member_id=stored.member_id,
        group_instance_id=stored.group_instance_id,
        client_id=stored.client_id,
        client_host=stored.client_host,
        rebalance_timeout_ms=rebalance_timeout_ms,
        session_timeout_ms=stored.session_timeout,
        protocols=known.protocols if known and chosen in known.protocols else (chosen,),
        assignment=stored.assignment,
    )
