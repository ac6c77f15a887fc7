"""DescribeGroups, key 15, for one classic group: its state and its members.

v4 has instance ids. v6 says GROUP_ID_NOT_FOUND where older versions describe a group
nobody knows, or one of another type, as Dead, without an error (KIP-1043, C-21).

What KIP-181 asks for beside that is told in every state of the group, and in tagged
fields that only our own client looks at: generation, leader, and what each member
joined with. No bytes are among it, so nothing of C-23 is undone.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from coterie.coordinator.classic.group import ClassicGroup, GroupState, Member
from coterie.coordinator.consumer.embedded import read_subscription
from coterie.coordinator.result import Context, Result
from coterie.coordinator.state import State
from coterie.errors import ApiError, MalformedFrame
from coterie.types import GroupId, TopicName
from coterie.wire.error_codes import ErrorCode
from coterie.wire.messages.describe_groups import DescribedGroup, DescribedGroupMember

HONEST_SINCE: Final = 6


class DescribeGroup(NamedTuple):
    """One group of a DescribeGroups request."""

    group_id: GroupId


def handle(state: State, request: DescribeGroup, context: Context) -> Result:
    """Describe the group. What members subscribe to and are assigned is told only of a
    stable group: before, it is not settled (C-23).

    Raises:
        ApiError: GROUP_ID_NOT_FOUND, from v6 on.
    """
    group_id = request.group_id
    group = state.classic_groups.get(group_id)
    if group is None:
        if context.api_version >= HONEST_SINCE:
            is_other = group_id in state.consumer_groups
            what = "is not a classic group" if is_other else "not found"
            raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} {what}.")
        return Result(_dead(group_id))
    protocol = group.protocol_name if group.state is GroupState.STABLE else None
    return Result(
        DescribedGroup(
            group_id=group.group_id,
            group_state=group.state.value,
            protocol_type=group.protocol_type or "",
            protocol_data=protocol or "",
            members=_members(group, protocol),
            generation_id=group.generation,
            leader_id=group.leader_id,
        )
    )


def refuse(
    request: DescribeGroup, code: ErrorCode, message: str | None = None
) -> DescribedGroup:
    """The answer that carries an error; a group not found is Dead."""
    answer = DescribedGroup(group_id=request.group_id)
    if code == ErrorCode.GROUP_ID_NOT_FOUND:
        answer = _dead(request.group_id)
    answer.error_code = code
    answer.error_message = message
    return answer


def _dead(group_id: GroupId) -> DescribedGroup:
    return DescribedGroup(group_id=group_id, group_state=GroupState.DEAD.value)


def _members(group: ClassicGroup, protocol: str | None) -> list[DescribedGroupMember]:
    described = [_member(member) for member in group.members.values()]
    for told, member in zip(described, group.members.values(), strict=True):
        if protocol is not None:
            told.member_metadata = member.metadata(protocol)
            told.member_assignment = member.assignment
        if group.uses_consumer_protocol:
            told.member_subscription = _topics(member, protocol)
    return described


def _member(member: Member) -> DescribedGroupMember:
    return DescribedGroupMember(
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        member_protocols=[name for name, _ in member.protocols],
    )


def _topics(member: Member, protocol: str | None) -> list[TopicName] | None:
    """What a consumer subscribes to, under its favourite protocol while none is chosen.
    Bytes that are no subscription tell nothing."""
    favourite = next((name for name, _ in member.protocols), None)
    metadata = member.metadata(protocol or favourite)
    try:
        return sorted(read_subscription(metadata).topics)
    except MalformedFrame:
        return None
