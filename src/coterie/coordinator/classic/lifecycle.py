"""A classic group when its shard starts and when it stops."""

from __future__ import annotations

from coterie.coordinator.classic.changes import GroupResigned
from coterie.coordinator.classic.draft import Draft
from coterie.coordinator.classic.group import ClassicGroup, GroupState
from coterie.coordinator.classic.rebalance import prepare, wait_for_joins
from coterie.coordinator.classic.timers import session_timer
from coterie.coordinator.result import Result
from coterie.settings import Settings
from coterie.wire.error_codes import ErrorCode
from coterie.wire.messages.join_group import JoinGroupResponse
from coterie.wire.messages.sync_group import SyncGroupResponse


def loaded(group: ClassicGroup, now_ms: int, settings: Settings) -> Result:
    """Every member has a whole session timeout to be heard of; a group that is larger
    than `group.max.size` now allows rebalances, and so sheds members (E19-17). One that
    was downgraded rebalances as it was to (E20-43)."""
    draft = Draft(group, now_ms, settings)
    for member in group.members.values():
        draft.set(session_timer(group.group_id, member, now_ms))
    if group.state is GroupState.PREPARING_REBALANCE:
        wait_for_joins(draft)
    elif len(group.members) > settings.group_max_size:
        prepare(draft)
    return draft.result()


def resigned(group: ClassicGroup, now_ms: int, settings: Settings) -> Result:
    """Another server coordinates the group: what is parked here is answered
    NOT_COORDINATOR, so that clients look for it (E19-16)."""
    draft = Draft(group, now_ms, settings)
    code = ErrorCode.NOT_COORDINATOR
    for member_id, ticket in group.joins.items():
        draft.reply(ticket, JoinGroupResponse(error_code=code, member_id=member_id))
    for ticket in group.syncs.values():
        draft.reply(ticket, SyncGroupResponse(error_code=code))
    draft.make(GroupResigned(group.group_id, now_ms))
    return draft.result()
