"""JoinGroup, key 11: a new member joins, or a member rejoins.

v1 has a separate rebalance timeout. v4 requires a new member to join again with the
member id it receives (KIP-394). v5 has static members (KIP-345). v7 has the protocol
type (KIP-559). v8 has a reason, which is not used (KIP-800). v9 lets a returning static
leader skip the assignment (KIP-814).

A join is parked until its rebalance completes. The order of the checks is that of
Kafka's `GroupMetadataManager.classicGroupJoin`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from coterie.broker.coordinator.classic.draft import (
    ClassicDraft,
    GroupCreated,
    MemberAdded,
    MemberPending,
    MemberRejoined,
    MemberReplaced,
    PendingMemberDropped,
)
from coterie.broker.coordinator.classic.errors import client_error
from coterie.broker.coordinator.classic.group import (
    ClassicGroup,
    GroupState,
    HasGroups,
    Member,
    MemberProtocol,
)
from coterie.broker.coordinator.classic.group_metadata import (
    empty_record,
    generation_record,
)
from coterie.broker.coordinator.classic.rebalance import (
    complete_if_all_joined,
    joined_response,
    rebalance_after_removal,
    rebalance_or_complete,
    remove_member,
)
from coterie.broker.coordinator.classic.timers import (
    NEW_MEMBER_JOIN_TIMEOUT_MS,
    cancel_session,
    expiry_timer,
    session_timer,
)
from coterie.broker.coordinator.result import PARKED, Context, Result
from coterie.errors import ApiError
from coterie.types import MemberId
from coterie.wire import messages as m
from coterie.wire.error_codes import ErrorCode
from coterie.wire.primitives import STRING_BYTES_MAX

MEMBER_ID_REQUIRED_SINCE: Final = 4
SKIP_ASSIGNMENT_SINCE: Final = 9
METADATA_BATCHES_MAX: Final = 4
"""The metadata of all protocols of a member may be this many times
`message.max.bytes`."""


def handle(state: HasGroups, request: m.JoinGroupRequest, context: Context) -> Result:
    """Park the join, or respond: with an error, or when no rebalance is needed.

    The errors of a classic group have the member id of the request, as in Kafka:
    UNKNOWN_MEMBER_ID, INCONSISTENT_GROUP_PROTOCOL, FENCED_INSTANCE_ID,
    COORDINATOR_NOT_AVAILABLE.

    Raises:
        ApiError: INVALID_GROUP_ID, INVALID_SESSION_TIMEOUT, UNKNOWN_SERVER_ERROR.
    """
    check(request, context)
    try:
        return _handle_checked(state, request, context)
    except ApiError as error:
        if error.code is ErrorCode.UNKNOWN_SERVER_ERROR:
            raise
        return Result(_error_response(request, error.code))


def _handle_checked(
    state: HasGroups, request: m.JoinGroupRequest, context: Context
) -> Result:
    group = state.classic_groups.get(request.group_id)
    if group is None:
        return _join_first(request, context)
    draft = ClassicDraft(group, context)
    if not _has_room(
        group, request.member_id, context.environment.settings.group_max_size
    ):
        return _reject(draft, request.member_id)
    _check_group(group, request)
    join = _Join(draft, request, context)
    if request.member_id:
        return draft.result(join.as_known_member())
    return draft.result(join.as_new_member())


def refuse(
    request: m.JoinGroupRequest,
    context: Context,
    code: ErrorCode,
    message: str | None = None,
) -> m.JoinGroupResponse:
    """Return the response that carries an error.

    It has the member id if `check` raised the error, as Kafka's
    `GroupCoordinatorService.joinGroup`.
    """
    if code in (ErrorCode.INVALID_GROUP_ID, ErrorCode.INVALID_SESSION_TIMEOUT):
        return _error_response(request, code)
    return m.JoinGroupResponse(error_code=client_error(code))


def _error_response(
    request: m.JoinGroupRequest, code: ErrorCode
) -> m.JoinGroupResponse:
    return m.JoinGroupResponse(error_code=code, member_id=request.member_id)


def check(request: m.JoinGroupRequest, context: Context) -> None:
    """Check the fields that do not depend on the group.

    Raises:
        ApiError: INVALID_GROUP_ID, INVALID_SESSION_TIMEOUT, UNKNOWN_SERVER_ERROR.
    """
    settings = context.environment.settings
    if not request.group_id:
        raise ApiError(ErrorCode.INVALID_GROUP_ID)
    shortest, longest = (
        settings.group_min_session_timeout_ms,
        settings.group_max_session_timeout_ms,
    )
    if not shortest <= request.session_timeout_ms <= longest:
        message = f"session.timeout.ms must be between {shortest} and {longest}"
        raise ApiError(ErrorCode.INVALID_SESSION_TIMEOUT, message)
    size_bytes = sum(len(protocol.metadata) for protocol in request.protocols)
    if size_bytes > METADATA_BATCHES_MAX * settings.message_max_bytes:
        # The record of a generation has the metadata of one protocol of each member,
        # and could not be written. Kafka refuses it then, with the same error.
        raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR)


def rebalance_timeout_ms(request: m.JoinGroupRequest, context: Context) -> int:
    """Return the member's rebalance timeout; in version 0 it equals the session
    timeout."""
    if context.api_version == 0:
        return request.session_timeout_ms
    return request.rebalance_timeout_ms


def _check_group(group: ClassicGroup, request: m.JoinGroupRequest) -> None:
    if not _supports(group, request):
        raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)


def _supports(group: ClassicGroup, request: m.JoinGroupRequest) -> bool:
    names = [protocol.name for protocol in request.protocols]
    return group.supports(request.protocol_type, names)


def _join_first(request: m.JoinGroupRequest, context: Context) -> Result:
    """Create the group with its first member, and write it as empty.

    As in Kafka, the group exists even if its first join has no protocol.
    """
    if request.member_id:
        raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
    group = ClassicGroup(request.group_id)
    draft = ClassicDraft(group, context)
    draft.make(GroupCreated(request.group_id))
    response: m.JoinGroupResponse | None
    if _supports(group, request):
        response = _Join(draft, request, context).as_new_member()
    else:
        response = _error_response(request, ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    record = empty_record(
        request.group_id, protocol_type=None, generation=0, at_ms=draft.wall_ms
    )
    draft.write(record)
    return draft.result(response)


def _has_room(group: ClassicGroup, member_id: MemberId, size_max: int) -> bool:
    """Return whether `group.max.size` admits this join.

    During a rebalance the joined members count, not all members, so that an oversized
    group removes the members that join last.
    """
    if group.state is GroupState.EMPTY:
        return True
    if group.state is GroupState.PREPARING_REBALANCE:
        return member_id in group.joins or len(group.joins) < size_max
    return member_id in group.members or len(group.members) < size_max


def _reject(draft: ClassicDraft, member_id: MemberId) -> Result:
    group = draft.group
    if member_id in group.members:
        remove_member(draft, member_id)
        rebalance_after_removal(draft)
    elif member_id in group.pending_members:
        draft.make(PendingMemberDropped(draft.group_id, member_id))
        draft.set(cancel_session(draft.group_id, member_id))
        complete_if_all_joined(draft)
    return draft.result(
        m.JoinGroupResponse(error_code=ErrorCode.GROUP_MAX_SIZE_REACHED)
    )


class _Join:
    """A join that passed the checks; its methods return the response, or PARKED."""

    __slots__ = ("context", "draft", "protocols", "request")

    def __init__(
        self, draft: ClassicDraft, request: m.JoinGroupRequest, context: Context
    ):
        self.draft = draft
        self.request = request
        self.context = context
        self.protocols = tuple(
            MemberProtocol(protocol.name, protocol.metadata)
            for protocol in request.protocols
        )

    def as_new_member(self) -> m.JoinGroupResponse | None:
        """Handle a join without a member id: a new member, or a static member that
        restarted."""
        instance_id = self.request.group_instance_id
        if instance_id is None:
            member_id = self._new_member_id(self.context.client_id)
            if self.context.api_version >= MEMBER_ID_REQUIRED_SINCE:
                return self._require_member_id(member_id)
            return self._add(member_id)
        member_id = self._new_member_id(instance_id)
        old_member_id = self.draft.group.static_members.get(instance_id)
        if old_member_id is None:
            return self._add(member_id)
        return self._replace(old_member_id, member_id)

    def _new_member_id(self, prefix: str) -> MemberId:
        """Return a new member id.

        Raises:
            ApiError: UNKNOWN_SERVER_ERROR, as in Kafka, when no record can hold it.
        """
        member_id = f"{prefix}-{self.context.environment.new_id()}"
        if len(member_id.encode()) > STRING_BYTES_MAX:
            raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR)
        return member_id

    def as_known_member(self) -> m.JoinGroupResponse | None:
        """Handle a join with a member id: a pending member, or a member that
        rejoins."""
        group, member_id = self.draft.group, self.request.member_id
        if member_id in group.pending_members:
            if self.request.group_instance_id is not None:
                # Kafka's `classicGroupJoinExistingMember` throws an exception.
                raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR)
            return self._add(member_id)
        member = group.checked_member(member_id, self.request.group_instance_id)
        if self._keeps_generation(member):
            # The earlier response was lost, or a follower joined again without a
            # change.
            leads = group.leader_id == member_id
            return joined_response(group, member_id, with_members=leads)
        return self._rejoin(member_id)

    def _keeps_generation(self, member: Member) -> bool:
        group = self.draft.group
        if group.state is GroupState.PREPARING_REBALANCE:
            return False
        # A rejoin of the leader of a Stable group requests a rebalance: its assignment
        # may depend on more than the subscriptions, such as the topics' partitions.
        leads = group.leader_id == member.member_id
        if group.state is GroupState.STABLE and leads:
            return False
        return member.protocols == self.protocols

    def _require_member_id(self, member_id: MemberId) -> m.JoinGroupResponse:
        """Make the member pending; it becomes a member when it joins with its id
        (KIP-394)."""
        draft = self.draft
        if len(draft.group.pending_members) >= draft.settings.group_max_pending_members:
            raise ApiError(ErrorCode.GROUP_MAX_SIZE_REACHED)
        draft.make(MemberPending(draft.group_id, member_id))
        at_ms = draft.now_ms + self.request.session_timeout_ms
        draft.set(expiry_timer(draft.group_id, member_id, at_ms))
        return m.JoinGroupResponse(
            error_code=ErrorCode.MEMBER_ID_REQUIRED, member_id=member_id
        )

    def _add(self, member_id: MemberId) -> m.JoinGroupResponse | None:
        draft = self.draft
        draft.make(
            MemberAdded(
                draft.group_id,
                member=self._member(member_id),
                protocol_type=self.request.protocol_type,
                ticket=self.context.ticket,
            )
        )
        at_ms = draft.now_ms + NEW_MEMBER_JOIN_TIMEOUT_MS
        draft.set(expiry_timer(draft.group_id, member_id, at_ms))
        rebalance_or_complete(draft)
        return PARKED

    def _rejoin(self, member_id: MemberId) -> m.JoinGroupResponse | None:
        draft = self.draft
        if (ticket := draft.group.joins.get(member_id)) is not None:
            # The client abandoned the earlier join; only one can be parked.
            code = ErrorCode.REBALANCE_IN_PROGRESS
            draft.reply(
                ticket, m.JoinGroupResponse(error_code=code, member_id=member_id)
            )
        draft.make(
            MemberRejoined(
                draft.group_id,
                member_id,
                protocols=self.protocols,
                rebalance_timeout_ms=rebalance_timeout_ms(self.request, self.context),
                session_timeout_ms=self.request.session_timeout_ms,
                ticket=self.context.ticket,
            )
        )
        rebalance_or_complete(draft)
        return PARKED

    def _replace(
        self, old_member_id: MemberId, member_id: MemberId
    ) -> m.JoinGroupResponse | None:
        """Replace a static member's id (KIP-345).

        No rebalance is needed if the group is Stable and would select the same
        protocol.
        """
        draft, group = self.draft, self.draft.group
        assert group.state is not GroupState.EMPTY
        old_leader_id = group.leader_id
        self._fence(old_member_id)
        old = group.members[old_member_id]
        # Kafka's `ClassicGroup.replaceStaticMember` keeps the old client id and host.
        member = replace(
            self._member(member_id),
            client_id=old.client_id,
            client_host=old.client_host,
            assignment=old.assignment,
        )
        stable = group.state is GroupState.STABLE
        ticket = None if stable else self.context.ticket
        draft.make(MemberReplaced(draft.group_id, old_member_id, member, ticket))
        draft.set(cancel_session(draft.group_id, old_member_id))
        draft.set(session_timer(draft.group_id, member, draft.now_ms))
        if not stable:
            rebalance_or_complete(draft)
            return PARKED
        if group.select_protocol() != group.protocol_name:
            return self._rejoin(member_id)
        assignments = {
            member.member_id: member.assignment for member in group.members.values()
        }
        draft.write(generation_record(group, assignments, group.state_timestamp_ms))
        return self._replaced_response(member_id, old_leader_id)

    def _replaced_response(
        self, member_id: MemberId, old_leader_id: MemberId | None
    ) -> m.JoinGroupResponse:
        group = self.draft.group
        assert group.state is GroupState.STABLE
        leads = group.leader_id == member_id
        if self.context.api_version >= SKIP_ASSIGNMENT_SINCE:
            response = joined_response(group, member_id, with_members=leads)
            response.skip_assignment = leads
            return response
        # The response names the old leader's id, so that the member does not act as
        # the leader: the group is Stable and expects no assignment.
        response = joined_response(group, member_id, with_members=False)
        response.leader = old_leader_id or ""
        return response

    def _fence(self, old_member_id: MemberId) -> None:
        draft, group = self.draft, self.draft.group
        code = ErrorCode.FENCED_INSTANCE_ID
        if (ticket := group.joins.get(old_member_id)) is not None:
            draft.reply(
                ticket, m.JoinGroupResponse(error_code=code, member_id=old_member_id)
            )
        if (ticket := group.syncs.get(old_member_id)) is not None:
            draft.reply(ticket, m.SyncGroupResponse(error_code=code))

    def _member(self, member_id: MemberId) -> Member:
        return Member(
            member_id=member_id,
            group_instance_id=self.request.group_instance_id,
            client_id=self.context.client_id,
            client_host=self.context.client_host,
            rebalance_timeout_ms=rebalance_timeout_ms(self.request, self.context),
            session_timeout_ms=self.request.session_timeout_ms,
            protocols=self.protocols,
        )
