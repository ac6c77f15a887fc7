"""The messages of errors, which tools and clients print."""

from __future__ import annotations

from typing import Any

import pytest

from coterie.wire import messages as m
from tests.broker.server.harness import WireClient

from .members import (
    heartbeat,
    join_classic,
    join_consumer,
    join_request,
    leave_classic,
    new_member_id,
)

INVALID_REQUEST = 42
UNKNOWN_MEMBER_ID = 25
GROUP_ID_NOT_FOUND = 69
FENCED_INSTANCE_ID = 82
UNRELEASED_INSTANCE_ID = 111

JOIN: dict[str, Any] = {
    "rebalance_timeout_ms": 30_000,
    "subscribed_topic_names": ["unknown"],
    "topic_partitions": [],
}


def join(
    wire: WireClient, group: str, member_id: str, **fields: Any
) -> m.ConsumerGroupHeartbeatResponse:
    return heartbeat(wire, group, member_id, 0, **{**JOIN, **fields})


def error(response: m.ConsumerGroupHeartbeatResponse) -> tuple[int, str | None]:
    return response.error_code, response.error_message


@pytest.mark.fact("E7-05", "E7-06", "E7-06a", "E7-09", "E7-10", "E7-11", "E7-12")
@pytest.mark.fact("E7-13", "E7-15")
@pytest.mark.parametrize(
    ("epoch", "fields", "message"),
    [
        (0, {"member_id": " "}, "MemberId can't be empty."),
        (-2, {"member_id": "", "instance_id": "i"}, "MemberId can't be empty."),
        (0, {"group_id": " "}, "GroupId can't be empty."),
        (0, {"instance_id": "\t"}, "InstanceId can't be empty."),
        (0, {"rack_id": ""}, "RackId can't be empty."),
        (
            0,
            {"rebalance_timeout_ms": -1},
            "RebalanceTimeoutMs must be provided in first request.",
        ),
        (
            0,
            {"topic_partitions": None},
            "TopicPartitions must be empty when (re-)joining.",
        ),
        (
            0,
            {"topic_partitions": [m.TopicPartitions(topic_id=bytes(15) + b"1")]},
            "TopicPartitions must be empty when (re-)joining.",
        ),
        (
            0,
            {"subscribed_topic_names": None},
            "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when "
            "(re-)joining.",
        ),
        (-2, {}, "InstanceId can't be null."),
        (-3, {}, "MemberEpoch is invalid."),
    ],
)
def test_an_invalid_heartbeat_is_explained(
    wire: WireClient, group: str, epoch: int, fields: dict[str, Any], message: str
) -> None:
    request = m.ConsumerGroupHeartbeatRequest(
        **{"group_id": group, "member_id": "m", "member_epoch": epoch, **JOIN, **fields}
    )
    assert error(wire.call(request, 1)) == (INVALID_REQUEST, message)


def test_white_space_other_than_that_of_ascii_is_not_blank(
    wire: WireClient, group: str
) -> None:
    response = join(wire, group, new_member_id(), rack_id="\N{NO-BREAK SPACE}")
    assert error(response) == (0, None)


@pytest.mark.parametrize("version", [0, 1])
def test_before_version_1_a_temporary_leave_needs_no_member_id(
    wire: WireClient, group: str, version: int
) -> None:
    member = join_consumer(wire, group, instance_id="i")
    request = m.ConsumerGroupHeartbeatRequest(
        group_id=group, member_id="", member_epoch=-2, instance_id="i"
    )
    fenced = f"Static member  with instance id i was fenced by member {member.id}."
    assert error(wire.call(request, version)) == (
        (INVALID_REQUEST, "MemberId can't be empty.")
        if version
        else (FENCED_INSTANCE_ID, fenced)
    )


def test_an_instance_id_has_one_owner(wire: WireClient, group: str) -> None:
    member = join_consumer(wire, group, instance_id="i")
    other = new_member_id()
    assert error(join(wire, group, other, instance_id="i")) == (
        UNRELEASED_INSTANCE_ID,
        f"Static member {other} with instance id i cannot join the group because the "
        f"instance id is owned by {member.id} member.",
    )
    assert error(heartbeat(wire, group, other, 1, instance_id="i")) == (
        FENCED_INSTANCE_ID,
        f"Static member {other} with instance id i was fenced by member {member.id}.",
    )
    assert error(heartbeat(wire, group, other, 1, instance_id="j")) == (
        UNKNOWN_MEMBER_ID,
        "Instance id j is unknown.",
    )
    assert error(heartbeat(wire, group, other, 1)) == (
        UNKNOWN_MEMBER_ID,
        f"Member {other} is not a member of group {group}.",
    )


@pytest.mark.fact("E7-21", "E7-21a", "E7-61")
def test_a_group_that_is_no_consumer_group_is_named(
    wire: WireClient, group: str
) -> None:
    unknown = f"Consumer group {group} not found."
    assert error(heartbeat(wire, group, "m", 1)) == (GROUP_ID_NOT_FOUND, unknown)
    unknown = f"Group {group} not found."
    assert error(heartbeat(wire, group, "m", -1)) == (GROUP_ID_NOT_FOUND, unknown)
    join_classic(wire, group)
    classic = f"Group {group} is not a consumer group."
    for epoch in (1, -1):
        response = heartbeat(wire, group, "m", epoch)
        assert error(response) == (GROUP_ID_NOT_FOUND, classic)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        (
            {"protocol_type": "connect"},
            "the group does not use the consumer embedded protocol",
        ),
        (
            {
                "protocols": [
                    m.JoinGroupRequestProtocol(name="range", metadata=b"\0\1\0")
                ]
            },
            "the embedded consumer protocol is malformed",
        ),
    ],
)
def test_a_group_that_cannot_be_upgraded_is_explained(
    wire: WireClient, group: str, fields: dict[str, Any], reason: str
) -> None:
    member = wire.call(join_request(group, **fields), 9).member_id
    joined = wire.call(join_request(group, **{**fields, "member_id": member}), 9)
    assert joined.error_code == 0
    assert error(join(wire, group, new_member_id())) == (
        GROUP_ID_NOT_FOUND,
        f"Cannot upgrade classic group {group} to consumer group because {reason}.",
    )
    leave_classic(wire, group, member)
