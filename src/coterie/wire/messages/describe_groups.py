"""DescribeGroups, key 15: versions 0-6, flexible from 5.

v1: throttle time.
v2: throttled responses are sent at once; the client delays (KIP-219).
v3: authorized operations, if requested (KIP-430).
v4: instance ids of members (KIP-345).
v5: flexible (KIP-482).
v6: GROUP_ID_NOT_FOUND and a message instead of a group in state Dead (KIP-1043).

The draft of KIP-181 had four more fields in a version 2, which Kafka later used for
something else (C-11). From v5 on they are private tagged fields: the generation and its
leader, and each member's subscribed topics and offered assignors. A response has them
only if the request asks for them, by the private tagged field `include_private_fields`,
which other brokers skip. Some clients cannot skip tagged fields.
"""

from __future__ import annotations

from coterie.wire.schema import (
    PRIVATE_TAG,
    Message,
    Struct,
    array,
    binary,
    boolean,
    int16,
    int32,
    string,
)


class DescribeGroupsRequest(Message, key=15, versions="0-6", flexible="5+"):
    groups: list[str] = array("string")
    include_authorized_operations: bool = boolean("3+")
    include_private_fields: bool = boolean("5+", tag=PRIVATE_TAG, tagged="5+")


class DescribedGroupMember(Struct):
    member_id: str = string()
    group_instance_id: str | None = string("4+", nullable="4+", default=None)
    client_id: str = string()
    client_host: str = string()
    member_metadata: bytes = binary()
    member_assignment: bytes = binary()
    member_subscription: list[str] | None = array(
        "string", "5+", nullable="5+", default=None, tag=PRIVATE_TAG, tagged="5+"
    )
    member_protocols: list[str] | None = array(
        "string", "5+", nullable="5+", default=None, tag=PRIVATE_TAG + 1, tagged="5+"
    )


class DescribedGroup(Struct):
    error_code: int = int16()
    error_message: str | None = string("6+", nullable="6+", default=None)
    group_id: str = string()
    group_state: str = string()
    protocol_type: str = string()
    protocol_data: str = string()
    members: list[DescribedGroupMember] = array(DescribedGroupMember)
    authorized_operations: int = int32("3+", default=-2147483648)
    generation_id: int = int32("5+", default=-1, tag=PRIVATE_TAG, tagged="5+")
    leader_id: str | None = string(
        "5+", nullable="5+", default=None, tag=PRIVATE_TAG + 1, tagged="5+"
    )


class DescribeGroupsResponse(Message, key=15, versions="0-6", flexible="5+"):
    throttle_time_ms: int = int32("1+")
    groups: list[DescribedGroup] = array(DescribedGroup)
