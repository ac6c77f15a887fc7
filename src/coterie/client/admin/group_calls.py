"""Calls about groups of every type.

ListGroups is sent to every broker: each lists the groups that it coordinates (E28). The
error of a loading or unavailable broker does not affect the groups of other brokers.
Brokers filter; a broker too old for a filter fails the call, because a list without
that filter would be incomplete in an unknown way (E28-07).

Brokers before 1.1 lack DeleteGroups (KIP-229); then UnsupportedByBroker is the error of
each of their groups, and nothing is emulated (D-47).

Members are removed by LeaveGroup (KIP-345, KIP-800). From version 3 on, a request may
contain several members, static ones by instance id only. Older versions need one
request for each member that has a member id, and cannot identify a static member by
its instance id.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from coterie.client.admin.calls import ask_nodes
from coterie.client.admin.describe_groups import DescribeRequests
from coterie.client.admin.family import Family, SyncFamily, blocking
from coterie.client.admin.group_offsets import GROUP_CODES
from coterie.client.admin.groups import (
    GroupDescription,
    GroupListing,
    GroupListings,
    GroupState,
    GroupType,
    Node,
)
from coterie.client.admin.results import Progress, Results, api_error
from coterie.client.admin.routing import (
    Outcomes,
    send_to_coordinator,
    send_to_coordinators,
)
from coterie.client.connection import ANY_VERSION, BrokerConnection
from coterie.errors import ApiError, CoterieError, MalformedFrame, UnsupportedByBroker
from coterie.types import GroupId, MemberId
from coterie.wire import messages as m
from coterie.wire.api import ApiKey
from coterie.wire.error_codes import ErrorCode

_STATES: Final = m.ListGroupsRequest.FIELDS["states_filter"].versions
_TYPES: Final = m.ListGroupsRequest.FIELDS["types_filter"].versions
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


class Groups(Family):
    """Calls about groups of every type and their members."""

    async def list(
        self,
        *,
        states: Collection[GroupState] = (),
        types: Collection[GroupType] = (),
    ) -> GroupListings:
        """List the groups of all brokers that match both filters; an empty filter
        matches every group.

        Raises UnsupportedByBroker when a broker is too old for a filter (E28-07).
        """
        request = m.ListGroupsRequest(
            states_filter=[each.value for each in states],
            types_filter=[each.value for each in types],
        )
        wanted = _TYPES if types else _STATES if states else ANY_VERSION
        classic_only: set[int] = set()

        async def list_on(node_id: int) -> list[GroupListing]:
            connection = await self._cluster.connection(node_id)
            version = connection.version_of(m.ListGroupsRequest, wanted)
            response = await connection.call(
                request, m.ListGroupsResponse, wanted=wanted
            )
            if version not in _TYPES and not connection.serves(
                ApiKey.CONSUMER_GROUP_DESCRIBE
            ):
                classic_only.add(node_id)
            if response.error_code:
                code = ErrorCode.read(response.error_code)
                message = f"{connection.address} cannot list its groups: {code.name}"
                raise ApiError(code, message)
            return [
                GroupListing(
                    each.group_id,
                    each.protocol_type,
                    GroupState.read(each.group_state) if version in _STATES else None,
                    GroupType.read(each.group_type) if version in _TYPES else None,
                    node_id,
                )
                for each in response.groups
            ]

        results = await ask_nodes(self._cluster, list_on)
        for error in results.errors.values():
            # Without that filter the list would be incomplete.
            if isinstance(error, UnsupportedByBroker) and wanted != ANY_VERSION:
                raise error
        groups = {
            each.group_id: each
            for listings in results.values.values()
            for each in listings
        }
        listed = tuple(groups[each] for each in sorted(groups))
        return GroupListings(listed, results.errors, frozenset(classic_only))

    async def describe(
        self,
        group_ids: Iterable[GroupId],
        *,
        with_operations: bool = False,
        progress: Progress | None = None,
    ) -> Results[GroupId, GroupDescription]:
        """Describe groups of any type. A group that does not exist has the error
        GROUP_ID_NOT_FOUND (E29-03), and a share or streams group on a broker that is
        too old to describe it UnsupportedGroupType. Brokers before 2.3 return no
        operations."""
        requests = DescribeRequests(self._cluster, with_operations)
        return await send_to_coordinators(
            self._cluster, group_ids, requests.describe, progress=progress
        )

    async def delete(
        self, group_ids: Iterable[GroupId], *, progress: Progress | None = None
    ) -> Results[GroupId, None]:
        """Delete groups without members, with their offsets (KIP-229)."""

        async def request(
            node_id: int, group_ids: Sequence[GroupId]
        ) -> Outcomes[GroupId, None]:
            response = await self._cluster.call(
                m.DeleteGroupsRequest(groups_names=list(group_ids)),
                m.DeleteGroupsResponse,
                node_id=node_id,
            )
            return {
                each.group_id: api_error(
                    each.error_code, f"group {each.group_id}", each.error_message
                )
                if each.error_code
                else None
                for each in response.results
            }

        return await send_to_coordinators(
            self._cluster, group_ids, request, progress=progress
        )

    async def find_coordinators(
        self, group_ids: Iterable[GroupId]
    ) -> Results[GroupId, Node]:
        """Look up the coordinator of each group again, bypassing the cache
        (KIP-699)."""
        wanted = list(group_ids)
        for each in wanted:
            self._cluster.forget_coordinator(each)

        async def request(
            node_id: int, group_ids: Sequence[GroupId]
        ) -> Outcomes[GroupId, Node]:
            return dict.fromkeys(group_ids, self._cluster.node(node_id))

        return await send_to_coordinators(self._cluster, wanted, request)

    async def remove_members(
        self,
        group_id: GroupId,
        members: Collection[MemberToRemove] | None = None,
        *,
        reason: str = "",
    ) -> Results[MemberToRemove, None]:
        """Remove members from a group (KIP-345); None removes every member.

        `reason` is for the coordinator's log (KIP-800). Raises the group's ApiError.
        """
        if members is None:
            group = (await self.describe([group_id])).one(group_id)
            # A static member may rejoin with another member id before the request
            # arrives, but not with another instance id.
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

        async def request(node_id: int) -> _Removed | CoterieError:
            connection = await self._cluster.connection(node_id)
            if connection.version_of(m.LeaveGroupRequest) >= _MANY_SINCE:
                response = await connection.call(leave, m.LeaveGroupResponse)
                return _removed(group_id, leaving, response)
            return await _remove_one_by_one(connection, group_id, leaving)

        return await send_to_coordinator(self._cluster, group_id, request)


class SyncGroups(SyncFamily[Groups]):
    """The blocking methods of `Groups`."""

    list = blocking(Groups.list)
    describe = blocking(Groups.describe)
    delete = blocking(Groups.delete)
    find_coordinators = blocking(Groups.find_coordinators)
    remove_members = blocking(Groups.remove_members)


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
