"""Heartbeat, key 12, of a member of a consumer group that speaks the classic protocol:
it lives, and learns whether it is to join again (E20-28)."""

from __future__ import annotations

from coterie.coordinator.classic import heartbeat
from coterie.coordinator.consumer import timers
from coterie.coordinator.consumer.advance import keep_up
from coterie.coordinator.consumer.classic_members import (
    classic_member,
    has_to_join,
)
from coterie.coordinator.consumer.draft import Draft
from coterie.coordinator.consumer.group import ConsumerGroup
from coterie.coordinator.result import Context, Result
from coterie.coordinator.state import State
from coterie.errors import ApiError
from coterie.wire.error_codes import ErrorCode
from coterie.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse


def handle(state: State, request: HeartbeatRequest, context: Context) -> Result:
    """Refresh the session of a member of a group of either type.

    Raises:
        ApiError: What `classic.heartbeat.handle` raises; UNKNOWN_MEMBER_ID,
            FENCED_INSTANCE_ID, ILLEGAL_GENERATION.
    """
    group = state.consumer_groups.get(request.group_id)
    if group is None:
        return heartbeat.handle(state, request, context)
    draft = _kept_up(group, context)
    member, _ = classic_member(
        draft,
        request.member_id,
        request.group_instance_id,
        generation=request.generation_id,
    )
    draft.set(timers.session_timer(group.group_id, member, context))
    response = HeartbeatResponse()
    if has_to_join(draft, member):
        response.error_code = ErrorCode.REBALANCE_IN_PROGRESS
        draft.set(timers.join_timer(group.group_id, member, context.now_ms))
    return draft.result(response)


def _kept_up(group: ConsumerGroup, context: Context) -> Draft:
    """A draft in which everything due is done. Where no member speaks the consumer
    protocol, nobody else would; and such a member knows no error of an assignor's, so
    the old target goes on."""
    draft = Draft(group, context)
    try:
        keep_up(draft)
    except ApiError:
        return Draft(group, context)
    assert draft.epoch >= group.epoch
    return draft
