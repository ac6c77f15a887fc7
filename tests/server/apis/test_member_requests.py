"""What members ask through the server: who may, and what a group is to be called."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from coterie.auth.authorizer import Operation, ResourceType
from coterie.wire.api import ADVERTISED, ApiKey
from coterie.wire.error_codes import ErrorCode
from coterie.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
)
from coterie.wire.messages.heartbeat import HeartbeatRequest
from coterie.wire.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
)
from coterie.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from coterie.wire.messages.sync_group import SyncGroupRequest
from coterie.wire.schema import Message
from tests.server.apis.in_process import Office


@pytest.fixture
def office() -> Iterator[Office]:
    with Office() as office:
        yield office


def join(group_id: str) -> Message:
    protocol = JoinGroupRequestProtocol(name="range", metadata=b"")
    return JoinGroupRequest(
        group_id=group_id,
        session_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=[protocol],
    )


MEMBER_REQUESTS: list[Callable[[str], Message]] = [
    join,
    lambda group_id: SyncGroupRequest(
        group_id=group_id,
        member_id="m",
        protocol_type="consumer",
        protocol_name="range",
    ),
    lambda group_id: HeartbeatRequest(group_id=group_id, member_id="m"),
    lambda group_id: LeaveGroupRequest(
        group_id=group_id, members=[MemberIdentity(member_id="m")]
    ),
]


def heartbeat(group_id: str, *topics: str) -> Message:
    """The first heartbeat of a member of the consumer protocol."""
    return ConsumerGroupHeartbeatRequest(
        group_id=group_id,
        member_id="m",
        rebalance_timeout_ms=10_000,
        subscribed_topic_names=[*topics],
        topic_partitions=[],
    )


@pytest.mark.fact("E7-02")
@pytest.mark.parametrize("make", [*MEMBER_REQUESTS, heartbeat])
def test_a_member_needs_read_on_its_group(make: Callable[[str], Message]) -> None:
    with Office((Operation.READ, ResourceType.GROUP, "no")) as office:
        request = make("no")
        refused = office.call(request, ADVERTISED[ApiKey(request.API_KEY)].high)
        assert refused.error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
        allowed = office.call(make("yes"), ADVERTISED[ApiKey(request.API_KEY)].high)
        assert allowed.error_code != ErrorCode.GROUP_AUTHORIZATION_FAILED


@pytest.mark.fact("H-120")
@pytest.mark.parametrize("make", MEMBER_REQUESTS)
def test_the_empty_group_id_is_invalid_for_members(
    office: Office, make: Callable[[str], Message]
) -> None:
    request = make("")
    refused = office.call(request, ADVERTISED[ApiKey(request.API_KEY)].high)
    assert refused.error_code == ErrorCode.INVALID_GROUP_ID


@pytest.mark.fact("H-119")
@pytest.mark.parametrize("version", range(6))
def test_a_member_that_leaves_an_unknown_group_is_unknown(
    office: Office, version: int
) -> None:
    request = LeaveGroupRequest(
        group_id="nobody", member_id="m", members=[MemberIdentity(member_id="m")]
    )
    answer = office.call(request, version)
    if version < 3:
        assert answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID
    else:
        assert answer.error_code == 0
        assert [each.error_code for each in answer.members] == [25]


@pytest.mark.fact("E7-03")
def test_who_subscribes_to_a_topic_must_be_allowed_to_know_of_it() -> None:
    with Office((Operation.DESCRIBE, ResourceType.TOPIC, "u")) as office:
        assert office.call(heartbeat("g", "t", "u"), 1).error_code == 29
        assert office.call(heartbeat("g", "t"), 1).error_code == 0
