"""Group requests to a node that is not the coordinator, or still loads: an error of the
request's own fields comes first."""

from __future__ import annotations

from typing import Any

import pytest

from coterie.broker.runtime.shards import Phase
from coterie.wire import messages as m
from coterie.wire.api import ApiKey, api_of
from coterie.wire.schema import Message
from tests.broker.server.apis.in_process_server import InProcessServer

LOADING, NOT_COORDINATOR = 14, 16
INVALID_GROUP_ID = 24

WRONG: list[tuple[Any, int]] = [
    (m.JoinGroupRequest(session_timeout_ms=10_000), INVALID_GROUP_ID),
    (m.JoinGroupRequest(group_id="g", session_timeout_ms=1), 26),
    (
        m.SyncGroupRequest(protocol_type="consumer", protocol_name="range"),
        INVALID_GROUP_ID,
    ),
    (m.HeartbeatRequest(), INVALID_GROUP_ID),
    (m.LeaveGroupRequest(), INVALID_GROUP_ID),
    (m.OffsetDeleteRequest(), INVALID_GROUP_ID),
    (m.ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=-3), 42),
    (
        m.ConsumerGroupHeartbeatRequest(
            group_id="g", member_id="m", member_epoch=1, server_assignor="none"
        ),
        112,
    ),
]
RIGHT: list[Any] = [
    m.JoinGroupRequest(group_id="g", session_timeout_ms=10_000),
    m.SyncGroupRequest(group_id="g", protocol_type="consumer", protocol_name="range"),
    m.LeaveGroupRequest(group_id="g"),
    m.OffsetDeleteRequest(group_id="g"),
    m.ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=1),
]


def label(value: object) -> str | None:
    return None if isinstance(value, int) else type(value).__name__


def newest(request: Message) -> int:
    return api_of(ApiKey(request.API_KEY)).served.high


def error_elsewhere(request: Any) -> int:
    with InProcessServer(node_count=2) as server:
        right = server.broker.shard_of(request.group_id) % 2
        return int(server.call(request, newest(request), 1 - right).error_code)


def error_while_loading(request: Any) -> int:
    with InProcessServer() as server:
        for driven in server.shards:
            driven.phase = Phase.LOADING
        return int(server.call(request, newest(request)).error_code)


@pytest.mark.parametrize(("request_", "code"), WRONG, ids=label)
def test_a_wrong_request_is_refused_by_any_node(request_: Any, code: int) -> None:
    assert error_elsewhere(request_) == code
    assert error_while_loading(request_) == code


@pytest.mark.parametrize("request_", RIGHT, ids=label)
def test_a_right_request_is_refused_for_the_node(request_: Any) -> None:
    assert error_elsewhere(request_) == NOT_COORDINATOR
    assert error_while_loading(request_) == LOADING
