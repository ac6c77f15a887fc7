from __future__ import annotations

import pytest

from coterie.broker.coordinator.classic import heartbeat, join, leave, sync
from coterie.wire import messages as m
from coterie.wire.error_codes import ErrorCode
from tests.broker.coordinator.driver import Driver

CONTEXT = Driver()._context(1, -1, "", "")
RETURNED = [
    (3, 15),
    (19, 15),
    (20, 15),
    (7, 15),
    (6, 16),
    (56, 16),
    (10, -1),
    (18, -1),
    (4, -1),
    (27, 27),
    (25, 25),
]


@pytest.mark.fact("E19-18", "E19-18a", "E19-18b")
@pytest.mark.parametrize(("code", "returned"), RETURNED)
def test_log_errors_are_translated_to_coordinator_errors(
    code: int, returned: int
) -> None:
    error = ErrorCode(code)
    answers = [
        join.refuse(m.JoinGroupRequest(member_id="m"), CONTEXT, error),
        sync.refuse(m.SyncGroupRequest(), CONTEXT, error),
        heartbeat.refuse(m.HeartbeatRequest(), CONTEXT, error),
        leave.refuse(m.LeaveGroupRequest(), CONTEXT, error),
    ]
    assert [answer.error_code for answer in answers] == [returned] * 4  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("code", "echoed"),
    [
        (ErrorCode.INVALID_GROUP_ID, "m"),
        (ErrorCode.INVALID_SESSION_TIMEOUT, "m"),
        (ErrorCode.NOT_COORDINATOR, ""),
        (ErrorCode.UNKNOWN_MEMBER_ID, ""),
    ],
)
def test_a_refused_join_echoes_the_member_id_if_its_own_fields_are_wrong(
    code: ErrorCode, echoed: str
) -> None:
    request = m.JoinGroupRequest(member_id="m")
    assert join.refuse(request, CONTEXT, code).member_id == echoed


@pytest.mark.fact("H-121a", "E19-10f")
def test_classic_heartbeats_succeed_while_the_shard_loads() -> None:
    loading = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert heartbeat.refuse(m.HeartbeatRequest(), CONTEXT, loading).error_code == 0


@pytest.mark.fact("H-121b")
def test_a_heartbeat_returns_coordinator_errors_unchanged() -> None:
    for code in (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR):
        assert heartbeat.refuse(m.HeartbeatRequest(), CONTEXT, code).error_code == code
