"""Replay of a classic group's record: the one way its durable part changes.

Live traffic and loading run the same replay. It forgives: compaction may have taken
any earlier record of the group, so what a record says never depends on one before it.
What only a live group has (pending members, parked joins, the protocols a member
could also do) is carried over to what the record makes.
"""

from __future__ import annotations

from coterie.coordinator.classic.group import (
    ClassicGroup,
    GroupState,
    HasGroups,
    Member,
    MemberProtocol,
)
from coterie.coordinator.records.group_metadata import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
)


def replay(
    state: HasGroups, key: GroupMetadataKey, value: GroupMetadataValue | None
) -> None:
    """Make true what the record says; a tombstone removes the group (E22-32)."""
    if value is None:
        state.classic_groups.pop(key.group, None)
        return
    live = state.classic_groups.get(key.group)
    if live is not None and not value.members and live.joins:
        return  # the record of a group that its first join made: E19-15
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
    for stored in value.members:
        known = live.members.get(stored.member_id) if live else None
        group.add(_member(stored, value.protocol or "", known))
    assert group.leader_id is not None or not group.members
    if live is not None:
        group.pending_members = live.pending_members
        group.unsynced = live.unsynced
    return group


def _state(value: GroupMetadataValue) -> GroupState:
    """A generation that nobody leads was the last word of a consumer group: its members
    are to rebalance (E20-43)."""
    if not value.members:
        return GroupState.EMPTY
    return GroupState.PREPARING_REBALANCE if value.leader is None else GroupState.STABLE


def _member(stored: MemberMetadata, protocol: str, known: Member | None) -> Member:
    chosen = MemberProtocol(protocol, stored.subscription)
    # Before KIP-62 a member had one timeout for both; version 0 has only that.
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
