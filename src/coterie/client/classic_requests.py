"""The requests of a member of a classic group, in the versions of a coordinator.

JoinGroup 0, SyncGroup 0, Heartbeat 0 and LeaveGroup 0 suffice for a dynamic member. A
static member needs JoinGroup 5 (Kafka 2.3): an older coordinator would not know its
instance id.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from coterie.client.classic_session import ClassicSession
from coterie.client.connection import ANY_VERSION, BrokerConnection
from coterie.errors import ApiError
from coterie.types import GroupId, MemberId
from coterie.wire import messages as m
from coterie.wire.error_codes import ErrorCode
from coterie.wire.schema import Versions

_STATIC_SINCE: Final = 5
_REASON_LENGTH_MAX: Final = 255
"""The longest reason of Kafka's clients (`JoinGroupRequest.maybeTruncateReason`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicIdentity:
    """The constant properties of a member."""

    group_id: GroupId
    protocol_type: str
    instance_id: str | None
    session_timeout_ms: int
    rebalance_timeout_ms: int


@dataclass(frozen=True, slots=True)
class JoinedMember:
    """A member of the group as the leader gets it."""

    member_id: MemberId
    instance_id: str | None
    metadata: bytes
    """The member's metadata of the chosen protocol."""


@dataclass(frozen=True, slots=True)
class Joined:
    """A successful JoinGroup response. Only the leader gets `members`."""

    member_id: MemberId
    generation: int
    protocol: str
    protocol_type: str | None
    is_leader: bool
    skips_assignment: bool
    members: Sequence[JoinedMember]


async def join(
    connection: BrokerConnection,
    request: m.JoinGroupRequest,
    session: ClassicSession,
    clock: Callable[[], float],
) -> tuple[Joined, float]:
    """Send JoinGroup; return the response and when the request was sent.

    A coordinator refuses the first request of a dynamic member, to give it a member id
    (KIP-394); it is repeated with this id. Raises ApiError for other refusals.
    """
    wanted = Versions(_STATIC_SINCE, 99) if request.group_instance_id else ANY_VERSION
    sent_s = clock()
    response = await connection.call(request, m.JoinGroupResponse, wanted=wanted)
    if response.error_code == ErrorCode.MEMBER_ID_REQUIRED:
        session.member_id = request.member_id = response.member_id
        sent_s = clock()
        response = await connection.call(request, m.JoinGroupResponse, wanted=wanted)
    if response.error_code:
        code = ErrorCode.read(response.error_code)
        raise ApiError(code, f"JoinGroup of group {request.group_id}: {code.name}")
    members = [
        JoinedMember(each.member_id, each.group_instance_id, each.metadata)
        for each in response.members
    ]
    joined = Joined(
        member_id=response.member_id,
        generation=response.generation_id,
        protocol=response.protocol_name or "",
        protocol_type=response.protocol_type,
        is_leader=response.leader == response.member_id,
        skips_assignment=response.skip_assignment,
        members=members,
    )
    return joined, sent_s


def join_request(
    identity: ClassicIdentity,
    member_id: MemberId,
    metadata: Mapping[str, bytes],
    reason: str | None,
) -> m.JoinGroupRequest:
    """Return a JoinGroup request; `metadata` holds the protocols, preferred first."""
    return m.JoinGroupRequest(
        group_id=identity.group_id,
        session_timeout_ms=identity.session_timeout_ms,
        rebalance_timeout_ms=identity.rebalance_timeout_ms,
        member_id=member_id,
        group_instance_id=identity.instance_id,
        protocol_type=identity.protocol_type,
        protocols=[
            m.JoinGroupRequestProtocol(name=name, metadata=data)
            for name, data in metadata.items()
        ],
        reason=reason and reason[:_REASON_LENGTH_MAX],
    )


def sync_request(
    identity: ClassicIdentity, joined: Joined, assignments: Mapping[MemberId, bytes]
) -> m.SyncGroupRequest:
    """Return the SyncGroup request of a generation; only the leader's has
    assignments."""
    return m.SyncGroupRequest(
        group_id=identity.group_id,
        generation_id=joined.generation,
        member_id=joined.member_id,
        group_instance_id=identity.instance_id,
        protocol_type=identity.protocol_type,
        protocol_name=joined.protocol,
        assignments=[
            m.SyncGroupRequestAssignment(member_id=member_id, assignment=data)
            for member_id, data in assignments.items()
        ],
    )


def leave_request(
    identity: ClassicIdentity, member_id: MemberId, reason: str | None
) -> m.LeaveGroupRequest:
    """Return a LeaveGroup request. It names the member for every version."""
    member = m.MemberIdentity(
        member_id=member_id,
        group_instance_id=identity.instance_id,
        reason=reason and reason[:_REASON_LENGTH_MAX],
    )
    return m.LeaveGroupRequest(
        group_id=identity.group_id, member_id=member_id, members=[member]
    )
