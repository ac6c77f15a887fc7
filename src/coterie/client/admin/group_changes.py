"""DeleteGroups (KIP-229) and the removal of members by LeaveGroup (KIP-345, KIP-800).

Brokers before 1.1 lack DeleteGroups; then UnsupportedByBroker is the error of each of
their groups, and nothing is emulated (D-47).

From version 3 on, a LeaveGroup request may contain several members, static ones by
instance id only. Older versions need one request for each member that has a member id,
and cannot identify a static member by its instance id.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from coterie.client.admin.describe_groups import describe_groups
from coterie.client.admin.group_driver import GroupDriver, Outcomes
from coterie.client.admin.group_offsets import GROUP_CODES
from coterie.client.admin.groups import Node
from coterie.client.admin.results import Progress, Results, api_error
from coterie.client.cluster import Cluster
from coterie.client.connection import BrokerConnection
from coterie.errors import ApiError, CoterieError, MalformedFrame, UnsupportedByBroker
from coterie.types import GroupId, MemberId
from coterie.wire import messages as m
from coterie.wire.error_codes import ErrorCode

_MANY_SINCE: Final = 3
_REASON: Final = "member was removed by an admin"
_REASON_LENGTH_MAX: Final = 255


@dataclass(frozen=True, slots=True)
class MemberToRemove:
    """A member by its id, or a static member by its instance id only."""

    member_id: MemberId = ""
    instance_id: str | None = None

    def __str__(self) -> str:
        if self.instance_id is None:
            return f"member {self.member_id}"
        return f"static member {self.instance_id}"


_Removed: TypeAlias = Results[MemberToRemove, None]


async def delete_groups(
    cluster: Cluster,
    group_ids: Iterable[GroupId],
    progress: Progress | None,
) -> Results[GroupId, None]:
    """Delete groups without members, each with its own outcome."""

    async def request(node: Node, group_ids: Sequence[GroupId]) -> Outcomes[None]:
        response = await cluster.call(
            m.DeleteGroupsRequest(groups_names=list(group_ids)),
            m.DeleteGroupsResponse,
            node_id=node.node_id,
        )
        return {
            each.group_id: api_error(
                each.error_code, f"group {each.group_id}", each.error_message
            )
            if each.error_code
            else None
            for each in response.results
        }

    return await GroupDriver[None](cluster, request, progress=progress).run(group_ids)


async def remove_members(
    cluster: Cluster,
    group_id: GroupId,
    members: Collection[MemberToRemove] | None,
    reason: str,
) -> _Removed:
    """Remove members from a group; None removes all current members.

    Raises the group's ApiError, and ClientError when its coordinator is unavailable.
    """
    if members is None:
        group = (await describe_groups(cluster, [group_id])).one(group_id)
        # A static member may rejoin with another member id before the request arrives,
        # but not with another instance id.
        members = [
            MemberToRemove(each.member_id)
            if each.instance_id is None
            else MemberToRemove(instance_id=each.instance_id)
            for each in group.members
        ]
    leaving = list(dict.fromkeys(members))
    if not leaving:
        return Results()
    full_reason = f"{_REASON}: {reason}" if reason else _REASON
    leave = m.LeaveGroupRequest(
        group_id=group_id,
        members=[
            m.MemberIdentity(
                member_id=each.member_id,
                group_instance_id=each.instance_id,
                reason=full_reason[:_REASON_LENGTH_MAX],
            )
            for each in leaving
        ],
    )

    async def request(node: Node, _: Sequence[GroupId]) -> Outcomes[_Removed]:
        connection = await cluster.connection(node.node_id)
        if connection.version_of(m.LeaveGroupRequest) >= _MANY_SINCE:
            response = await connection.call(leave, m.LeaveGroupResponse)
            return {group_id: _removed(group_id, leaving, response)}
        return {group_id: await _remove_one_by_one(connection, group_id, leaving)}

    results = await GroupDriver[_Removed](cluster, request).run([group_id])
    return results.one(group_id)


def _removed(
    group_id: GroupId, leaving: Sequence[MemberToRemove], response: m.LeaveGroupResponse
) -> _Removed | CoterieError:
    if response.error_code:
        return api_error(response.error_code, f"group {group_id}")
    # Match a static member by its instance id: the response has a member id that the
    # request did not contain.
    by_member_id: dict[str, int] = {}
    by_instance_id: dict[str, int] = {}
    for member in response.members:
        if member.group_instance_id is None:
            by_member_id[member.member_id] = member.error_code
        else:
            by_instance_id[member.group_instance_id] = member.error_code
    codes = {}
    for each in leaving:
        code = (
            by_member_id.get(each.member_id)
            if each.instance_id is None
            else by_instance_id.get(each.instance_id)
        )
        if code is None:
            return MalformedFrame(f"the LeaveGroup response omits {each}")
        codes[each] = code
    return _results(codes)


async def _remove_one_by_one(
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
        request = m.LeaveGroupRequest(group_id=group_id, member_id=each.member_id)
        response = await connection.call(request, m.LeaveGroupResponse)
        code = ErrorCode.read(response.error_code)
        if code in GROUP_CODES:
            return api_error(code, f"group {group_id}")
        codes[each] = code
    removed = _results(codes)
    return Results(removed.values, {**removed.errors, **errors})


def _results(codes: Mapping[MemberToRemove, int]) -> _Removed:
    errors: dict[MemberToRemove, CoterieError] = {}
    for each, code in codes.items():
        if code == ErrorCode.UNKNOWN_MEMBER_ID:
            errors[each] = ApiError(
                ErrorCode.UNKNOWN_MEMBER_ID,
                f"{each} is not in the group, or uses KIP-848 and has to be stopped "
                "itself",
            )
        elif code:
            errors[each] = api_error(code, str(each))
    return Results({each: None for each in codes if each not in errors}, errors)
