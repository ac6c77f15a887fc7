from __future__ import annotations

import pytest

from coterie.coordinator.classic import heartbeat, join, leave, sync
from coterie.wire.error_codes import ErrorCode
from coterie.wire.messages.heartbeat import HeartbeatRequest
from coterie.wire.messages.join_group import JoinGroupRequest
from coterie.wire.messages.leave_group import LeaveGroupRequest
from coterie.wire.messages.sync_group import SyncGroupRequest

TOLD = [
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


@pytest.mark.fact("E19-18")
@pytest.mark.parametrize(("code", "told"), TOLD)
def test_members_are_told_errors_of_the_log_as_a_coordinators(
    code: int, told: int
) -> None:
    error = ErrorCode(code)
    answers = [
        join.refuse(JoinGroupRequest(member_id="m"), error),
        sync.refuse(SyncGroupRequest(), error),
        heartbeat.refuse(HeartbeatRequest(), error),
        leave.refuse(LeaveGroupRequest(), error),
    ]
    assert [answer.error_code for answer in answers] == [told] * 4  # type: ignore[attr-defined]


def test_a_refused_join_says_the_id_it_came_with() -> None:
    request = JoinGroupRequest(member_id="m")
    assert join.refuse(request, ErrorCode.UNKNOWN_MEMBER_ID).member_id == "m"


@pytest.mark.fact("H-121")
def test_heartbeats_succeed_while_the_shard_loads() -> None:
    loading = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert heartbeat.refuse(HeartbeatRequest(), loading).error_code == 0


@pytest.mark.fact("H-121")
def test_heartbeats_fail_when_there_is_no_coordinator() -> None:
    for code in (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR):
        assert heartbeat.refuse(HeartbeatRequest(), code).error_code == code
