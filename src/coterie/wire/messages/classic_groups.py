"""Members of classic groups: join, synchronize, heartbeat, leave; and the bytes of
subscriptions and assignments that they exchange."""

from __future__ import annotations

from coterie.wire.schema import (
    Message,
    Struct,
    array,
    binary,
    boolean,
    int16,
    int32,
    string,
)


class JoinGroupRequestProtocol(Struct):
    name: str = string()
    metadata: bytes = binary()


class JoinGroupRequest(Message, key=11, versions="0-9", flexible="6+"):
    """JoinGroup, key 11: versions 0-9, flexible from 6.

    v1: rebalance timeout, separate from the session timeout (KIP-62). v2: throttle time.
    v3: throttled responses are sent at once; the client delays (KIP-219). v4: a new member
    receives its member id and joins again with it (KIP-394). v5: instance id (KIP-345). v6:
    flexible (KIP-482). v7: the response has the protocol type; the protocol name may be
    null (KIP-559). v8: the reason for joining (KIP-800). v9: with SkipAssignment in the
    response the leader computes no assignment (KIP-814).
    """

    group_id: str = string()
    session_timeout_ms: int = int32()
    rebalance_timeout_ms: int = int32("1+", default=-1)
    member_id: str = string()
    group_instance_id: str | None = string("5+", nullable="5+", default=None)
    protocol_type: str = string()
    protocols: list[JoinGroupRequestProtocol] = array(JoinGroupRequestProtocol)
    reason: str | None = string("8+", nullable="8+", default=None)


class JoinGroupResponseMember(Struct):
    member_id: str = string()
    group_instance_id: str | None = string("5+", nullable="5+", default=None)
    metadata: bytes = binary()


class JoinGroupResponse(Message, key=11, versions="0-9", flexible="6+"):
    throttle_time_ms: int = int32("2+")
    error_code: int = int16()
    generation_id: int = int32(default=-1)
    protocol_type: str | None = string("7+", nullable="7+", default=None)
    protocol_name: str | None = string(nullable="7+", default=None)
    leader: str = string()
    skip_assignment: bool = boolean("9+")
    member_id: str = string()
    members: list[JoinGroupResponseMember] = array(JoinGroupResponseMember)


class SyncGroupRequestAssignment(Struct):
    member_id: str = string()
    assignment: bytes = binary()


class SyncGroupRequest(Message, key=14, versions="0-5", flexible="4+"):
    """SyncGroup, key 14: versions 0-5, flexible from 4.

    v1: throttle time.
    v2: throttled responses are sent at once; the client delays (KIP-219).
    v3: instance id (KIP-345).
    v4: flexible (KIP-482).
    v5: protocol type and name in request and response (KIP-559).
    """

    group_id: str = string()
    generation_id: int = int32()
    member_id: str = string()
    group_instance_id: str | None = string("3+", nullable="3+", default=None)
    protocol_type: str | None = string("5+", nullable="5+", default=None)
    protocol_name: str | None = string("5+", nullable="5+", default=None)
    assignments: list[SyncGroupRequestAssignment] = array(SyncGroupRequestAssignment)


class SyncGroupResponse(Message, key=14, versions="0-5", flexible="4+"):
    throttle_time_ms: int = int32("1+")
    error_code: int = int16()
    protocol_type: str | None = string("5+", nullable="5+", default=None)
    protocol_name: str | None = string("5+", nullable="5+", default=None)
    assignment: bytes = binary()


class HeartbeatRequest(Message, key=12, versions="0-4", flexible="4+"):
    """Heartbeat, key 12: versions 0-4, flexible from 4.

    v1: throttle time.
    v2: throttled responses are sent at once; the client delays (KIP-219).
    v3: instance id (KIP-345).
    v4: flexible (KIP-482).
    """

    group_id: str = string()
    generation_id: int = int32()
    member_id: str = string()
    group_instance_id: str | None = string("3+", nullable="3+", default=None)


class HeartbeatResponse(Message, key=12, versions="0-4", flexible="4+"):
    throttle_time_ms: int = int32("1+")
    error_code: int = int16()


class MemberIdentity(Struct):
    member_id: str = string("3+")
    group_instance_id: str | None = string("3+", nullable="3+", default=None)
    reason: str | None = string("5+", nullable="5+", default=None)


class LeaveGroupRequest(Message, key=13, versions="0-5", flexible="4+"):
    """LeaveGroup, key 13: versions 0-5, flexible from 4.

    v1: throttle time.
    v2: throttled responses are sent at once; the client delays (KIP-219).
    v3: several members, by member or instance id (KIP-345).
    v4: flexible (KIP-482).
    v5: the reason for leaving (KIP-800).
    """

    group_id: str = string()
    member_id: str = string("0-2")
    members: list[MemberIdentity] = array(MemberIdentity, "3+")


class MemberResponse(Struct):
    member_id: str = string("3+")
    group_instance_id: str | None = string("3+", nullable="3+")
    error_code: int = int16("3+")


class LeaveGroupResponse(Message, key=13, versions="0-5", flexible="4+"):
    throttle_time_ms: int = int32("1+")
    error_code: int = int16()
    members: list[MemberResponse] = array(MemberResponse, "3+")


class ConsumerProtocolTopicPartitions(Struct):
    topic: str = string()
    partitions: list[int] = array("int32")


class ConsumerProtocolSubscription(Message, versions="0-3"):
    topics: list[str] = array("string")
    user_data: bytes | None = binary(nullable="0+", default=None)
    owned_partitions: list[ConsumerProtocolTopicPartitions] = array(
        ConsumerProtocolTopicPartitions, "1+"
    )
    generation_id: int = int32("2+", default=-1)
    rack_id: str | None = string("3+", nullable="3+", default=None)


class ConsumerProtocolAssignment(Message, versions="0-3"):
    """The embedded consumer protocol: subscriptions and assignments of classic members.

    v1: owned partitions (KIP-429).
    v2: generation of the owned partitions (KIP-792).
    v3: rack (KIP-881).
    """

    assigned_partitions: list[ConsumerProtocolTopicPartitions] = array(
        ConsumerProtocolTopicPartitions
    )
    user_data: bytes | None = binary(nullable="0+", default=None)
