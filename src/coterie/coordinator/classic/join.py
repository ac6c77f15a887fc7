"""JoinGroup, key 11: a member comes, or comes back.

v1 has a rebalance timeout of its own. v4 asks a new member to come back with the id it
is given (KIP-394). v5 has static members (KIP-345). v7 says the protocol type. v8 has
a reason, which only people read (KIP-800). v9 lets a static leader that came back
skip the assignment (KIP-814).

A join is parked until the rebalance it takes part in completes. The order of the
checks is Kafka's (E19-02).
"""

from __future__ import annotations

from typing import Final

from coterie.coordinator.classic.changes import (
    GroupCreated,
    MemberAdded,
    MemberPending,
    MemberRejoined,
    MemberReplaced,
    PendingMemberDropped,
)
from coterie.coordinator.classic.draft import Draft
from coterie.coordinator.classic.group import (
    ClassicGroup,
    GroupState,
    HasGroups,
    Member,
    MemberProtocol,
)
from coterie.coordinator.classic.rebalance import (
    complete_if_all_joined,
    joined_answer,
    rebalance_after_removal,
    rebalance_or_complete,
    remove_member,
)
from coterie.coordinator.classic.records import empty_record, generation_record
from coterie.coordinator.classic.refusals import told
from coterie.coordinator.classic.timers import (
    NEW_MEMBER_JOIN_TIMEOUT_MS,
    cancel_session,
    expiry_timer,
    session_timer,
)
from coterie.coordinator.result import PARKED, Context, Result
from coterie.errors import ApiError
from coterie.settings import Settings
from coterie.types import MemberId
from coterie.wire.error_codes import ErrorCode
from coterie.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from coterie.wire.messages.sync_group import SyncGroupResponse

MEMBER_ID_REQUIRED_SINCE: Final = 4
SKIP_ASSIGNMENT_SINCE: Final = 9


def handle(state: HasGroups, request: JoinGroupRequest, context: Context) -> Result:
    """Park the join, or answer it when no rebalance is needed.

    Raises:
        ApiError: INVALID_GROUP_ID, INVALID_SESSION_TIMEOUT, UNKNOWN_MEMBER_ID,
            INCONSISTENT_GROUP_PROTOCOL, FENCED_INSTANCE_ID, COORDINATOR_NOT_AVAILABLE.
    """
    check(request, context.settings)
    group = state.classic_groups.get(request.group_id)
    if group is None:
        return _join_first(request, context)
    draft = Draft(group, context.now_ms, context.settings)
    if not _has_room(group, request.member_id, context.settings.group_max_size):
        return _turn_away(draft, request.member_id)
    _check_group(group, request)
    join = _Join(draft, request, context)
    if request.member_id:
        return draft.result(join.as_known_member())
    return draft.result(join.as_new_member())


def refuse(request: JoinGroupRequest, code: ErrorCode) -> JoinGroupResponse:
    """The answer that carries an error (E19-18)."""
    return JoinGroupResponse(error_code=told(code), member_id=request.member_id)


def check(request: JoinGroupRequest, settings: Settings) -> None:
    """Refuse what no group of any type takes.

    Raises:
        ApiError: INVALID_GROUP_ID, INVALID_SESSION_TIMEOUT.
    """
    if not request.group_id:
        raise ApiError(ErrorCode.INVALID_GROUP_ID)
    shortest, longest = (
        settings.group_min_session_timeout_ms,
        settings.group_max_session_timeout_ms,
    )
    if not shortest <= request.session_timeout_ms <= longest:
        message = f"session.timeout.ms must be between {shortest} and {longest}"
        raise ApiError(ErrorCode.INVALID_SESSION_TIMEOUT, message)


def rebalance_timeout_ms(request: JoinGroupRequest, context: Context) -> int:
    """How long the member may take to join again; in version 0 it has one timeout for
    both."""
    if context.api_version == 0:
        return request.session_timeout_ms
    return request.rebalance_timeout_ms


def _check_group(group: ClassicGroup, request: JoinGroupRequest) -> None:
    if group.state is GroupState.DEAD:
        raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    names = [protocol.name for protocol in request.protocols]
    if not group.supports(request.protocol_type, names):
        raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)


def _join_first(request: JoinGroupRequest, context: Context) -> Result:
    """A join to a group nobody knew makes it, and writes it empty (E19-15)."""
    if request.member_id:
        raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
    now_ms = context.now_ms
    group = ClassicGroup(request.group_id)
    _check_group(group, request)
    draft = Draft(group, now_ms, context.settings)
    draft.make(GroupCreated(request.group_id))
    response = _Join(draft, request, context).as_new_member()
    draft.write(
        empty_record(request.group_id, protocol_type=None, generation=0, at_ms=now_ms)
    )
    return draft.result(response)


def _has_room(group: ClassicGroup, member_id: MemberId, size_max: int) -> bool:
    """Whether `group.max.size` lets this join in (E19-12).

    During a rebalance those who have come count, not those who were members: so an
    oversized group sheds its last joiners.
    """
    if group.state in (GroupState.EMPTY, GroupState.DEAD):
        return True
    if group.state is GroupState.PREPARING_REBALANCE:
        return member_id in group.joins or len(group.joins) < size_max
    return member_id in group.members or len(group.members) < size_max


def _turn_away(draft: Draft, member_id: MemberId) -> Result:
    group = draft.group
    if member_id in group.members:
        remove_member(draft, member_id)
        rebalance_after_removal(draft)
    elif member_id in group.pending_members:
        draft.make(PendingMemberDropped(draft.group_id, member_id))
        draft.set(cancel_session(draft.group_id, member_id))
        complete_if_all_joined(draft)
    return draft.result(JoinGroupResponse(error_code=ErrorCode.GROUP_MAX_SIZE_REACHED))


class _Join:
    """One join that passed the checks; its methods return the answer, or PARKED."""

    __slots__ = ("context", "draft", "protocols", "request")

    def __init__(self, draft: Draft, request: JoinGroupRequest, context: Context):
        self.draft = draft
        self.request = request
        self.context = context
        self.protocols = tuple(
            MemberProtocol(protocol.name, protocol.metadata)
            for protocol in request.protocols
        )

    def as_new_member(self) -> JoinGroupResponse | None:
        """The member has no id yet: it is new, or a static member that restarted."""
        instance_id = self.request.group_instance_id
        if instance_id is None:
            member_id = f"{self.context.client_id}-{self.context.fresh_id()}"
            if self.context.api_version >= MEMBER_ID_REQUIRED_SINCE:
                return self._require_member_id(member_id)
            return self._add(member_id)
        member_id = f"{instance_id}-{self.context.fresh_id()}"
        old_member_id = self.draft.group.static_members.get(instance_id)
        if old_member_id is None:
            return self._add(member_id)
        return self._replace(old_member_id, member_id)

    def as_known_member(self) -> JoinGroupResponse | None:
        """The member says its id: it is pending, or it rejoins (E19-14)."""
        group, member_id = self.draft.group, self.request.member_id
        if member_id in group.pending_members and not self.request.group_instance_id:
            return self._add(member_id)
        member = group.checked_member(member_id, self.request.group_instance_id)
        if self._keeps_generation(member):
            # Its answer was lost, or a follower asks whether anything is new.
            leads = group.leader_id == member_id
            return joined_answer(group, member_id, with_members=leads)
        return self._rejoin(member_id)

    def _keeps_generation(self, member: Member) -> bool:
        group = self.draft.group
        if group.state is GroupState.PREPARING_REBALANCE:
            return False
        # A leader that rejoins a stable group wants a rebalance: what it assigns may
        # have changed without any member's subscription doing so.
        leads = group.leader_id == member.member_id
        if group.state is GroupState.STABLE and leads:
            return False
        return member.protocols == self.protocols

    def _require_member_id(self, member_id: MemberId) -> JoinGroupResponse:
        """KIP-394: who cannot come back with its id never becomes a member."""
        draft = self.draft
        draft.make(MemberPending(draft.group_id, member_id))
        at_ms = draft.now_ms + self.request.session_timeout_ms
        draft.set(expiry_timer(draft.group_id, member_id, at_ms))
        return JoinGroupResponse(
            error_code=ErrorCode.MEMBER_ID_REQUIRED, member_id=member_id
        )

    def _add(self, member_id: MemberId) -> JoinGroupResponse | None:
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

    def _rejoin(self, member_id: MemberId) -> JoinGroupResponse | None:
        draft = self.draft
        if (ticket := draft.group.joins.get(member_id)) is not None:
            # The client gave this one up and joined again; only one can be parked.
            code = ErrorCode.REBALANCE_IN_PROGRESS
            draft.reply(ticket, refuse(self.request, code))
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
    ) -> JoinGroupResponse | None:
        """KIP-345: the new id takes the old one's place, without a rebalance if the
        group is stable and would choose the same protocol (E19-13)."""
        draft, group = self.draft, self.draft.group
        assert group.state is not GroupState.EMPTY
        old_leader_id = group.leader_id
        self._fence(old_member_id)
        member = self._member(
            member_id, assignment=group.members[old_member_id].assignment
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
        assignments = {m.member_id: m.assignment for m in group.members.values()}
        draft.write(generation_record(group, assignments, group.state_timestamp_ms))
        return self._replaced_answer(member_id, old_leader_id)

    def _replaced_answer(
        self, member_id: MemberId, old_leader_id: MemberId | None
    ) -> JoinGroupResponse:
        group = self.draft.group
        assert group.state is GroupState.STABLE
        leads = group.leader_id == member_id
        if self.context.api_version >= SKIP_ASSIGNMENT_SINCE:
            answer = joined_answer(group, member_id, with_members=leads)
            answer.skip_assignment = leads
            return answer
        # It is told the old leader's id, so that it does not act as the leader: the
        # group has its assignment and waits for none.
        answer = joined_answer(group, member_id, with_members=False)
        answer.leader = old_leader_id or ""
        return answer

    def _fence(self, old_member_id: MemberId) -> None:
        draft, group = self.draft, self.draft.group
        code = ErrorCode.FENCED_INSTANCE_ID
        if (ticket := group.joins.get(old_member_id)) is not None:
            draft.reply(
                ticket, JoinGroupResponse(error_code=code, member_id=old_member_id)
            )
        if (ticket := group.syncs.get(old_member_id)) is not None:
            draft.reply(ticket, SyncGroupResponse(error_code=code))

    def _member(self, member_id: MemberId, assignment: bytes = b"") -> Member:
        return Member(
            member_id=member_id,
            group_instance_id=self.request.group_instance_id,
            client_id=self.context.client_id,
            client_host=self.context.client_host,
            rebalance_timeout_ms=rebalance_timeout_ms(self.request, self.context),
            session_timeout_ms=self.request.session_timeout_ms,
            protocols=self.protocols,
            assignment=assignment,
        )
