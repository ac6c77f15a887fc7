"""Fencing of a member: a static one is replaced, a dynamic one is removed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final
from uuid import uuid4

from coterie.broker import Broker, ClassicGroup, ConsumerGroup
from coterie.testing.faults.fault import Rule, ServerFault
from coterie.wire import messages as m
from coterie.wire.api import ApiKey, api_of
from coterie.wire.error_codes import ErrorCode

_LEAVE: Final = -1
_LEAVE_STATIC: Final = -2
_ERRORS: Final = ("FENCED_INSTANCE_ID", "UNKNOWN_MEMBER_ID", "FENCED_MEMBER_EPOCH")
_REASON: Final = "fenced by a test"


class Fence(ServerFault):
    """A member that was fenced. Its hits are its requests that were refused."""

    name = "fence"

    def __init__(self, rule: Rule) -> None:
        super().__init__(rule, *_ERRORS)


class _Caller:
    """The client of the requests that fence a member."""

    client_id = "coterie.testing"
    client_host = "/127.0.0.1"

    def __init__(self, key: ApiKey) -> None:
        self.api_version = api_of(key).served.high

    def may_describe(self, topic: str) -> bool:
        return True


def fence_member(broker: Broker, group: str, member: str) -> None:
    """Fence a member of a group, given by its member id or its instance id.

    A static member is replaced by a new member with its instance id, as when a second
    process starts with the same `group.instance.id`: the old one gets
    FENCED_INSTANCE_ID. The new member sends no heartbeats, so its session expires. A
    dynamic member is removed, as after an expired session: it gets UNKNOWN_MEMBER_ID.

    Raises ValueError when the group has no such member.
    """
    state = broker.runtime.shards[broker.shard_of(group)].shard.state
    classic = state.classic_groups.get(group)
    consumer = state.consumer_groups.get(group)
    if consumer is not None and consumer.members:
        _fence_consumer(broker, consumer, member)
    elif classic is not None and classic.members:
        _fence_classic(broker, classic, member)
    else:
        raise ValueError(f"the group {group!r} has no members")


def remove_members(broker: Broker, group: str, names: Iterable[str]) -> None:
    """Remove the members of a group that have one of these member ids or instance ids,
    as the end of their sessions does. Other names are ignored."""
    state = broker.runtime.shards[broker.shard_of(group)].shard.state
    classic = state.classic_groups.get(group)
    consumer = state.consumer_groups.get(group)
    for name in names:
        if consumer is not None and consumer.members:
            member = consumer.members.get(_instances(consumer).get(name, name))
            if member is not None:
                _submit(broker, _heartbeat(consumer, member, member.member_id, _LEAVE))
        elif classic is not None:
            member_id = classic.static_members.get(name, name)
            if member_id in classic.members:
                _submit(broker, _leave(classic, member_id))


def _leave(group: ClassicGroup, member_id: str) -> m.LeaveGroupRequest:
    identity = m.MemberIdentity(
        member_id=member_id,
        group_instance_id=group.members[member_id].group_instance_id,
        reason=_REASON,
    )
    return m.LeaveGroupRequest(group_id=group.group_id, members=[identity])


def _fence_classic(broker: Broker, group: ClassicGroup, name: str) -> None:
    member_id = group.static_members.get(name, name)
    member = group.members.get(member_id)
    if member is None:
        raise _unknown(group.group_id, name, group.members, group.static_members)
    if member.group_instance_id is None:
        _submit(broker, _leave(group, member_id))
        return
    _submit(
        broker,
        m.JoinGroupRequest(
            group_id=group.group_id,
            session_timeout_ms=member.session_timeout_ms,
            rebalance_timeout_ms=member.rebalance_timeout_ms,
            group_instance_id=member.group_instance_id,
            protocol_type=group.protocol_type or "consumer",
            protocols=[
                m.JoinGroupRequestProtocol(name=each.name, metadata=each.metadata)
                for each in member.protocols
            ],
            reason=_REASON,
        ),
    )


def _fence_consumer(broker: Broker, group: ConsumerGroup, name: str) -> None:
    instances = _instances(group)
    member = group.members.get(instances.get(name, name))
    if member is None:
        raise _unknown(group.group_id, name, group.members, instances)
    if member.instance_id is None:
        _submit(broker, _heartbeat(group, member, member.member_id, _LEAVE))
        return
    # A static member that has not left would keep the new one out
    # (UNRELEASED_INSTANCE_ID), so it leaves first, as a process that restarts does.
    _submit(broker, _heartbeat(group, member, member.member_id, _LEAVE_STATIC))
    join = _heartbeat(group, member, str(uuid4()), 0)
    join.subscribed_topic_names = list(member.topic_names)
    join.subscribed_topic_regex = member.topic_regex or None
    join.rebalance_timeout_ms = member.rebalance_timeout_ms
    join.topic_partitions = []
    _submit(broker, join)


def _instances(group: ConsumerGroup) -> dict[str, str]:
    return {
        each.instance_id: each.member_id
        for each in group.members.values()
        if each.instance_id is not None
    }


def _heartbeat(
    group: ConsumerGroup, member: Any, member_id: str, epoch: int
) -> m.ConsumerGroupHeartbeatRequest:
    return m.ConsumerGroupHeartbeatRequest(
        group_id=group.group_id,
        member_id=member_id,
        member_epoch=epoch,
        instance_id=member.instance_id,
    )


def _submit(broker: Broker, request: Any) -> None:
    """Handle a request of the fencing client. Its effects are complete at return.

    Raises ValueError when it is refused.
    """
    refused: list[str] = []

    def respond(response: Any) -> None:
        if response.error_code:
            refused.append(ErrorCode(response.error_code).name)

    caller = _Caller(ApiKey(request.API_KEY))
    shard = broker.shard_of(request.group_id)
    broker.runtime.submit(shard, request, caller, respond)
    if refused:
        raise ValueError(f"the member could not be fenced: {refused[0]}")


def _unknown(group: str, name: str, members: Any, instances: Any) -> ValueError:
    known = ", ".join((*members, *instances)) or "none"
    return ValueError(
        f"the group {group!r} has no member {name!r}; it has the members and instance "
        f"ids {known}"
    )
