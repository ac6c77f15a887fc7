"""JoinGroup, key 11: versions 0-9, flexible from 6.

v1: rebalance timeout, separate from the session timeout (KIP-62). v2: throttle time.
v3: throttled responses are sent at once; the client delays (KIP-219). v4: a new member
receives its member id and joins again with it (KIP-394). v5: instance id (KIP-345). v6:
flexible (KIP-482). v7: the response has the protocol type; the protocol name may be
null (KIP-559). v8: the reason for joining (KIP-800). v9: with SkipAssignment in the
response the leader computes no assignment (KIP-814).
"""

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
