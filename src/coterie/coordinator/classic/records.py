"""The records a classic group writes: type 2 and its tombstone (E22-32).

One is written when a generation has its assignments, when the group becomes empty,
when a static member is replaced, when a join makes a group, and when a consumer group
becomes a classic one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from coterie.coordinator.classic.group import ClassicGroup
from coterie.coordinator.records.group_metadata import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
)
from coterie.coordinator.result import Record
from coterie.types import GroupId, MemberId

VALUE_VERSION: Final = 3
"""The version Kafka writes: the first with instance ids, the last not flexible."""


def generation_record(
    group: ClassicGroup, assignments: Mapping[MemberId, bytes], at_ms: int
) -> Record:
    """The group's generation with its members; one not in `assignments` gets none."""
    assert group.leader_id in group.members
    return _record(group, assignments, at_ms, group.leader_id)


def rebalancing_record(
    group: ClassicGroup, assignments: Mapping[MemberId, bytes], at_ms: int
) -> Record:
    """The same, of a generation that nobody leads: with it begins a rebalance (E20-43).
    Whoever does not know of that loads a stable group, as from Kafka's own record."""
    assert group.members, "nobody does not rebalance"
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
    """The group without members, since `at_ms`; it keeps its protocol type."""
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
    """The group is gone."""
    return Record(GroupMetadataKey(group=group_id), None)
