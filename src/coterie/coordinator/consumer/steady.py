"""Which heartbeats of consumer groups do nothing but refresh a session.

Whoever keeps their answers asks here, once, and again when anything has changed.
"""

from __future__ import annotations

from coterie.coordinator.consumer.group import ConsumerGroup
from coterie.coordinator.consumer.member import Member
from coterie.coordinator.result import GroupConfigView, Session
from coterie.coordinator.state import State
from coterie.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
)


def session_of(
    state: State, request: ConsumerGroupHeartbeatRequest, configs: GroupConfigView
) -> Session | None:
    """The session that this heartbeat refreshes and does nothing else to, as long as
    its group does not change; None when there may be more to it."""
    group = state.consumer_groups.get(request.group_id)
    member = None if group is None else group.members.get(request.member_id)
    if group is None or member is None:
        return None
    if not _says_nothing(request) or not _is_settled(group, member, request):
        return None
    return Session(
        ("session", group.group_id, member.member_id),
        configs.session_timeout_ms(group.group_id),
        group.quiet_until_ms,
    )


def _says_nothing(request: ConsumerGroupHeartbeatRequest) -> bool:
    assert request.group_id, "a group has an id"
    return (
        request.rack_id is None
        and request.rebalance_timeout_ms == -1
        and request.subscribed_topic_names is None
        and request.subscribed_topic_regex is None
        and request.server_assignor is None
        and request.client_assignors is None
    )


def _is_settled(
    group: ConsumerGroup, member: Member, request: ConsumerGroupHeartbeatRequest
) -> bool:
    """Whether the member is where its group wants it, and said so."""
    return (
        member.classic is None
        and member.instance_id == request.instance_id
        and member.epoch == request.member_epoch == group.epoch
        and group.epoch >= group.refresh.epoch
        and group.is_resolved(member.topic_regex)
        and member.is_reconciled(group.assignment_epoch)
    )
