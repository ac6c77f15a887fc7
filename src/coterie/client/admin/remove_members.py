"""Making members leave a group, from outside of it (LeaveGroup, KIP-345, KIP-800).

Since version 3 a request names many members, static ones by their instance id alone.
Before, a request is one member's own farewell: it is sent for each that has a member
id, and an instance id is more than the broker can read.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from coterie.client.admin.describe_groups import describe_groups
from coterie.client.admin.driver import GroupDriver, Outcomes
from coterie.client.admin.group_values import MemberDescription, Node
from coterie.client.admin.refusals import refusal
from coterie.client.admin.results import Results
from coterie.client.cluster import TRIED_AGAIN, Cluster
from coterie.client.connection import BrokerConnection
from coterie.errors import ApiError, CoterieError, MalformedFrame, UnsupportedByBroker
from coterie.types import GroupId, MemberId
from coterie.wire.error_codes import ErrorCode
from coterie.wire.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
)

_MANY_SINCE: Final = 3
_REASON: Final = "member was removed by an admin"
_REASON_LENGTH_MAX: Final = 255


@dataclass(frozen=True, slots=True)
class MemberToRemove:
    """A member by its id, or a static one by its instance id alone."""

    member_id: MemberId = ""
    instance_id: str | None = None


_OF_THE_GROUP: Final = TRIED_AGAIN | {
    ErrorCode.INVALID_GROUP_ID,
    ErrorCode.GROUP_AUTHORIZATION_FAILED,
}
_Removed: TypeAlias = Results[MemberToRemove, None]


async def remove_members(
    cluster: Cluster,
    group_id: GroupId,
    members: Collection[MemberToRemove] | None = None,
    *,
    reason: str = "",
) -> _Removed:
    """Make members leave; None means all that are there now. The reason is for the
    coordinator's log.

    Raises ApiError for what is wrong with the group, ClientError when its coordinator
    cannot be asked.
    """
    if members is None:
        members = await _all_members(cluster, group_id)
    leaving = list(dict.fromkeys(members))
    if not leaving:
        return Results()
    words = f"{_REASON}: {reason}" if reason else _REASON
    request = LeaveGroupRequest(
        group_id=group_id,
        members=[
            MemberIdentity(
                member_id=each.member_id,
                group_instance_id=each.instance_id,
                reason=words[:_REASON_LENGTH_MAX],
            )
            for each in leaving
        ],
    )

    async def ask(node: Node, group_ids: Sequence[GroupId]) -> Outcomes[_Removed]:
        connection = await cluster.connection(node.node_id)
        if connection.version_of(LeaveGroupRequest) >= _MANY_SINCE:
            answer = await connection.call(request, LeaveGroupResponse)
            return {group_id: _read(group_id, leaving, answer)}
        return {group_id: await _singly(connection, group_id, leaving)}

    return (await GroupDriver(cluster, ask).run([group_id])).one(group_id)


async def _all_members(cluster: Cluster, group_id: GroupId) -> list[MemberToRemove]:
    group = (await describe_groups(cluster, [group_id])).one(group_id)
    return [_to_remove(each) for each in group.members]


def _to_remove(member: MemberDescription) -> MemberToRemove:
    """A static member goes by its instance id: it may come back under another member
    id between the question and the request."""
    if member.instance_id is not None:
        return MemberToRemove(instance_id=member.instance_id)
    return MemberToRemove(member.member_id)


def _read(
    group_id: GroupId, leaving: Sequence[MemberToRemove], answer: LeaveGroupResponse
) -> _Removed | CoterieError:
    if answer.error_code:
        return _group_error(group_id, ErrorCode.read(answer.error_code))
    told = {
        _key(each.member_id, each.group_instance_id): each.error_code
        for each in answer.members
    }
    codes = {}
    for each in leaving:
        key = _key(each.member_id, each.instance_id)
        if key not in told:
            return MalformedFrame(f"LeaveGroup: nothing about {_name(each)}")
        codes[each] = told[key]
    return _results(codes)


async def _singly(
    connection: BrokerConnection, group_id: GroupId, leaving: Sequence[MemberToRemove]
) -> _Removed | CoterieError:
    errors: dict[MemberToRemove, CoterieError] = {}
    codes: dict[MemberToRemove, int] = {}
    for each in leaving:
        if not each.member_id:
            errors[each] = UnsupportedByBroker(
                f"{connection.address} removes members by their member id only"
            )
            continue
        request = LeaveGroupRequest(group_id=group_id, member_id=each.member_id)
        answer = await connection.call(request, LeaveGroupResponse)
        code = ErrorCode.read(answer.error_code)
        if code in _OF_THE_GROUP:
            return _group_error(group_id, code)
        codes[each] = code
    removed = _results(codes)
    return Results(removed.values, {**removed.errors, **errors})


def _key(member_id: MemberId, instance_id: str | None) -> tuple[bool, str]:
    """What a member goes by."""
    return (False, member_id) if instance_id is None else (True, instance_id)


def _name(member: MemberToRemove) -> str:
    if member.instance_id is None:
        return f"member {member.member_id}"
    return f"static member {member.instance_id}"


def _results(codes: Mapping[MemberToRemove, int]) -> _Removed:
    return Results(
        {each: None for each, number in codes.items() if not number},
        {
            each: _refusal(ErrorCode.read(number), _name(each))
            for each, number in codes.items()
            if number
        },
    )


def _refusal(code: ErrorCode, what: str) -> ApiError:
    if code is ErrorCode.UNKNOWN_MEMBER_ID:
        return ApiError(
            code, f"{what} is not in the group, or is one of KIP-848; stop that itself"
        )
    return refusal(code, what)


def _group_error(group_id: GroupId, code: ErrorCode) -> ApiError:
    return refusal(code, f"group {group_id}")
