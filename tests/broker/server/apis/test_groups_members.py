"""Requests of members: authorization and invalid group ids."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from coterie.auth.acl import Operation, ResourceType
from coterie.wire import messages as m
from coterie.wire.api import ADVERTISED, ApiKey
from coterie.wire.error_codes import ErrorCode
from coterie.wire.schema import Message
from tests.broker.server.apis.in_process_server import InProcessServer


@pytest.fixture
def server() -> Iterator[InProcessServer]:
    with InProcessServer() as server:
        yield server


def join(group_id: str) -> Message:
    protocol = m.JoinGroupRequestProtocol(name="range", metadata=b"")
    return m.JoinGroupRequest(
        group_id=group_id,
        session_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=[protocol],
    )


MEMBER_REQUESTS: list[Callable[[str], Message]] = [
    join,
    lambda group_id: m.SyncGroupRequest(
        group_id=group_id,
        member_id="m",
        protocol_type="consumer",
        protocol_name="range",
    ),
    lambda group_id: m.HeartbeatRequest(group_id=group_id, member_id="m"),
    lambda group_id: m.LeaveGroupRequest(
        group_id=group_id, members=[m.MemberIdentity(member_id="m")]
    ),
]


def heartbeat(group_id: str, *topics: str) -> Message:
    """Return the first heartbeat of a member of the consumer protocol."""
    return m.ConsumerGroupHeartbeatRequest(
        group_id=group_id,
        member_id="m",
        rebalance_timeout_ms=10_000,
        subscribed_topic_names=[*topics],
        topic_partitions=[],
    )


@pytest.mark.fact("E7-02")
@pytest.mark.parametrize("make", [*MEMBER_REQUESTS, heartbeat])
def test_a_member_needs_read_on_its_group(make: Callable[[str], Message]) -> None:
    with InProcessServer((Operation.READ, ResourceType.GROUP, "no")) as server:
        request = make("no")
        refused = server.call(request, ADVERTISED[ApiKey(request.API_KEY)].high)
        assert refused.error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
        allowed = server.call(make("yes"), ADVERTISED[ApiKey(request.API_KEY)].high)
        assert allowed.error_code != ErrorCode.GROUP_AUTHORIZATION_FAILED


@pytest.mark.fact("H-120a")
@pytest.mark.parametrize("make", MEMBER_REQUESTS)
def test_the_empty_group_id_is_invalid_for_members(
    server: InProcessServer, make: Callable[[str], Message]
) -> None:
    request = make("")
    refused = server.call(request, ADVERTISED[ApiKey(request.API_KEY)].high)
    assert refused.error_code == ErrorCode.INVALID_GROUP_ID


@pytest.mark.fact("H-119a", "H-119b")
@pytest.mark.parametrize("version", range(6))
def test_leaving_an_unknown_group_gets_unknown_member_id(
    server: InProcessServer, version: int
) -> None:
    request = m.LeaveGroupRequest(
        group_id="nobody", member_id="m", members=[m.MemberIdentity(member_id="m")]
    )
    answer = server.call(request, version)
    if version < 3:
        assert answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID
    else:
        assert answer.error_code == 0
        assert [each.error_code for each in answer.members] == [25]


@pytest.mark.fact("E7-03")
def test_a_subscription_needs_describe_on_each_topic() -> None:
    with InProcessServer((Operation.DESCRIBE, ResourceType.TOPIC, "u")) as server:
        assert server.call(heartbeat("g", "t", "u"), 1).error_code == 29
        assert server.call(heartbeat("g", "t"), 1).error_code == 0


@pytest.mark.parametrize("group_id", ["g", ""])
@pytest.mark.parametrize(
    ("protocol_type", "name"), [(None, "range"), ("consumer", None)]
)
def test_a_sync_without_protocol_type_or_name_is_refused_from_version_5(
    server: InProcessServer, group_id: str, protocol_type: str | None, name: str | None
) -> None:
    request = m.SyncGroupRequest(
        group_id=group_id, protocol_type=protocol_type, protocol_name=name
    )
    refused = server.call(request, 5).error_code
    assert refused == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert server.call(request, 4).error_code in {
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.INVALID_GROUP_ID,
    }
