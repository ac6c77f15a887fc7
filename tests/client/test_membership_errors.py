"""Failed and rejected heartbeats of a member (E7.9), and leaving."""

from __future__ import annotations

import pytest

from coterie.client.member_states import (
    Assign,
    Lose,
    MemberState,
    Revoke,
    Subscription,
    transition,
)
from coterie.client.membership import LEAVE_EPOCH, LEAVE_FOR_A_WHILE_EPOCH
from coterie.errors import ApiError
from coterie.wire import messages as m
from coterie.wire.error_codes import ErrorCode
from tests.client.membership_script import (
    INTERVAL_MS,
    OWN_ID,
    MembershipScript,
    listed,
    owned,
)

FATAL = (
    ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ErrorCode.INVALID_REQUEST,
    ErrorCode.GROUP_MAX_SIZE_REACHED,
    ErrorCode.UNSUPPORTED_ASSIGNOR,
    ErrorCode.UNRELEASED_INSTANCE_ID,
    ErrorCode.FENCED_INSTANCE_ID,
    ErrorCode.UNSUPPORTED_VERSION,
    ErrorCode.UNKNOWN_SERVER_ERROR,
)
ELSEWHERE = (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE)
FENCED = (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID)


def stable() -> MembershipScript:
    """Return a member at epoch 5 with partitions 0 and 1 and a heartbeat in flight."""
    script = MembershipScript()
    script.joined(5, owned(0, 1))
    script.sent_later()
    return script


@pytest.mark.fact("E7-75")
def test_the_heartbeat_after_a_lost_response_has_all_fields() -> None:
    script = stable()
    script.member.failed(script.now_ms)
    assert script.wait_ms == 100
    full = script.sent_later()
    assert full.member_epoch == 5
    assert full.rebalance_timeout_ms == 300_000
    assert full.subscribed_topic_names == ["orders"]
    assert full.topic_partitions == listed(owned(0, 1))
    script.yes(5, owned(0, 1))
    assert script.sent_later().topic_partitions is None


@pytest.mark.fact("E7-75")
@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.FENCED_MEMBER_EPOCH,
    ],
)
def test_the_heartbeat_after_an_error_has_all_fields(code: ErrorCode) -> None:
    script = stable()
    script.no(code)
    script.steps()
    full = script.sent_later()
    assert full.subscribed_topic_names == ["orders"]
    assert full.topic_partitions is not None
    assert full.rebalance_timeout_ms == 300_000


def test_the_backoff_doubles_to_a_maximum_and_a_response_resets_it() -> None:
    script = stable()
    waits = []
    for _ in range(6):
        script.member.failed(script.now_ms)
        waits.append(script.wait_ms)
        script.sent_later()
    assert waits == [100, 200, 400, 800, 1_000, 1_000]
    script.yes(5)
    script.sent_later()
    script.member.failed(script.now_ms)
    assert script.wait_ms == 100


@pytest.mark.fact("E7-70")
@pytest.mark.parametrize("code", ELSEWHERE)
def test_not_coordinator_is_retried_immediately(
    code: ErrorCode,
) -> None:
    script = stable()
    assert script.no(code)
    assert script.wait_ms == 0
    assert script.member.owned == owned(0, 1)
    assert script.sent().member_epoch == 5


def test_repeated_not_coordinator_errors_back_off() -> None:
    script = stable()
    for _ in range(3):
        script.no(ErrorCode.NOT_COORDINATOR)
        script.sent_later()
    assert script.no(ErrorCode.NOT_COORDINATOR)
    assert script.wait_ms == 800


@pytest.mark.fact("E7-71")
def test_a_loading_coordinator_is_retried() -> None:
    script = stable()
    assert not script.no(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    assert script.wait_ms == 100
    assert script.sent_later().member_epoch == 5


@pytest.mark.fact("E7-72", "E10-06")
@pytest.mark.parametrize("code", FENCED)
def test_a_fenced_member_loses_everything_and_rejoins_with_its_id(
    code: ErrorCode,
) -> None:
    script = stable()
    script.no(code)
    assert script.member.state is MemberState.FENCED
    assert script.wait_ms is None
    assert script.member.begin() == Lose(owned(0, 1))
    assert script.wait_ms is None
    script.member.finish()
    assert script.member.state is MemberState.JOINING
    join = script.sent()
    assert (join.member_epoch, join.member_id) == (0, OWN_ID)
    assert join.topic_partitions == []
    script.yes(9, owned(1))
    assert script.steps() == [Assign(owned(1))]


@pytest.mark.fact("E7-72")
def test_a_member_fenced_while_revoking_loses_its_remaining_partitions() -> None:
    script = stable()
    script.yes(5, owned(0))
    assert script.member.begin() == Revoke(owned(1))
    script.sent_later()
    script.no(ErrorCode.FENCED_MEMBER_EPOCH)
    assert script.member.begin() is None
    script.member.finish()
    assert script.steps() == [Lose(owned(0))]
    assert script.member.state is MemberState.JOINING


def test_a_fenced_join_is_retried_after_a_backoff() -> None:
    script = MembershipScript()
    script.member.join()
    script.sent()
    script.no(ErrorCode.FENCED_MEMBER_EPOCH)
    assert script.member.state is MemberState.JOINING
    assert script.wait_ms == 100


def test_a_deleted_group_is_joined_again() -> None:
    script = stable()
    script.no(ErrorCode.GROUP_ID_NOT_FOUND)
    assert script.steps() == [Lose(owned(0, 1))]
    assert script.sent().member_epoch == 0
    script.no(ErrorCode.GROUP_ID_NOT_FOUND)
    assert script.member.state is MemberState.FATAL


@pytest.mark.fact("E7-73", "E9-03a")
@pytest.mark.parametrize("code", FATAL)
def test_an_error_that_is_not_retriable_ends_the_membership(code: ErrorCode) -> None:
    script = stable()
    script.no(code)
    assert script.member.state is MemberState.FATAL
    assert isinstance(script.member.failure, ApiError)
    assert script.member.failure.code is code
    assert script.steps() == [Lose(owned(0, 1))]
    assert script.wait_ms is None


@pytest.mark.fact("E7-73")
def test_an_unknown_error_code_ends_the_membership() -> None:
    script = stable()
    answer = m.ConsumerGroupHeartbeatResponse(error_code=9_999)
    script.member.answered(answer, script.now_ms)
    assert script.member.state is MemberState.FATAL


@pytest.mark.fact("E7-74")
def test_an_unauthorized_topic_is_retried_at_the_heartbeat_interval() -> None:
    script = stable()
    script.no(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    assert script.member.refusal is not None
    assert script.member.refusal.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert script.wait_ms == INTERVAL_MS
    assert script.sent_later().subscribed_topic_names == ["orders"]
    script.yes(5)
    assert script.member.refusal is None


def test_an_invalid_regex_restores_the_previous_subscription() -> None:
    script = MembershipScript()
    script.joined(5, owned(0))
    script.member.subscribe(Subscription(pattern="("))
    script.sent()
    script.no(ErrorCode.INVALID_REGULAR_EXPRESSION)
    assert script.member.refusal is not None
    again = script.sent_later()
    assert again.subscribed_topic_names == ["orders"]
    assert again.subscribed_topic_regex == ""
    assert script.member.owned == owned(0)


def test_an_invalid_regex_without_a_previous_subscription_ends_the_membership() -> None:
    script = MembershipScript(Subscription(pattern="("))
    script.member.join()
    script.sent()
    script.no(ErrorCode.INVALID_REGULAR_EXPRESSION)
    assert script.member.state is MemberState.FATAL


@pytest.mark.parametrize("epoch", [LEAVE_EPOCH, LEAVE_FOR_A_WHILE_EPOCH])
def test_a_leaving_member_revokes_everything_before_it_leaves(epoch: int) -> None:
    script = MembershipScript(instance_id="i")
    script.joined(5, owned(0, 1))
    script.member.leave(epoch)
    assert script.member.state is MemberState.PREPARE_LEAVING
    assert not script.is_due
    assert script.member.begin() == Revoke(owned(0, 1))
    assert script.sent_later().member_epoch == 5  # still a member
    script.yes(5, owned(0, 1, 2))
    script.member.finish()
    last = script.sent()
    assert last.member_epoch == epoch
    assert last.instance_id == "i"
    assert last.topic_partitions is None
    assert last.subscribed_topic_names is None
    script.yes(epoch)
    assert script.member.state is MemberState.UNSUBSCRIBED
    assert script.wait_ms is None


def test_leaving_by_session_timeout_sends_no_heartbeat() -> None:
    script = MembershipScript()
    script.joined(5, owned(0))
    script.member.leave(None)
    assert script.steps() == [Revoke(owned(0))]
    assert script.member.state is MemberState.UNSUBSCRIBED


def test_a_leave_waits_for_the_response_to_a_join() -> None:
    script = MembershipScript()
    script.member.join()
    script.sent()
    script.member.leave(LEAVE_EPOCH)
    assert script.member.state is MemberState.LEAVING
    assert script.wait_ms is None
    script.yes(3, owned(0))
    assert script.sent().member_epoch == LEAVE_EPOCH
    assert script.member.owned == owned()


def test_a_member_that_never_joined_leaves_silently() -> None:
    script = MembershipScript()
    script.member.join()
    script.member.leave(LEAVE_EPOCH)
    assert script.member.state is MemberState.UNSUBSCRIBED


@pytest.mark.parametrize("code", FENCED)
def test_a_member_fenced_while_leaving_loses_its_remaining_partitions(
    code: ErrorCode,
) -> None:
    script = MembershipScript()
    script.joined(5, owned(0))
    script.sent_later()
    script.member.leave(LEAVE_EPOCH)
    script.no(code)
    assert script.steps() == [Lose(owned(0))]
    assert script.member.state is MemberState.UNSUBSCRIBED


def test_a_member_rejected_while_leaving_has_left() -> None:
    script = MembershipScript()
    script.joined(5, owned(0))
    script.sent_later()
    script.member.leave(LEAVE_EPOCH)
    script.no(ErrorCode.INVALID_REQUEST)
    assert script.steps() == [Lose(owned(0))]
    assert script.member.state is MemberState.UNSUBSCRIBED


def test_a_fenced_member_that_leaves_loses_its_partitions() -> None:
    script = stable()
    script.no(ErrorCode.UNKNOWN_MEMBER_ID)
    script.member.leave(LEAVE_EPOCH)
    assert script.steps() == [Lose(owned(0, 1))]
    assert script.member.state is MemberState.UNSUBSCRIBED


@pytest.mark.parametrize("code", [*ELSEWHERE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS])
def test_a_leave_is_retried_on_another_coordinator(code: ErrorCode) -> None:
    script = leaving()
    assert script.no(code) is (code in ELSEWHERE)
    assert script.sent_later().member_epoch == LEAVE_EPOCH
    script.member.failed(script.now_ms)
    assert script.sent_later().member_epoch == LEAVE_EPOCH


@pytest.mark.parametrize("code", [*FENCED, *FATAL])
def test_a_rejected_leave_ends_the_membership(code: ErrorCode) -> None:
    script = leaving()
    script.no(code)
    assert script.member.state is MemberState.UNSUBSCRIBED
    assert script.member.failure is None


def test_a_leave_that_cannot_be_sent_ends_the_membership() -> None:
    script = leaving()
    script.member.failed(script.now_ms)
    script.member.fail(ApiError(ErrorCode.GROUP_AUTHORIZATION_FAILED))
    assert script.member.state is MemberState.UNSUBSCRIBED


def leaving() -> MembershipScript:
    """Return a member whose leave is in flight."""
    script = MembershipScript()
    script.joined(5, owned())
    script.member.leave(LEAVE_EPOCH)
    script.sent()
    return script


def test_an_undeclared_state_transition_is_an_assertion_error() -> None:
    with pytest.raises(AssertionError, match="FATAL -> JOINING"):
        transition(MemberState.FATAL, MemberState.JOINING)
