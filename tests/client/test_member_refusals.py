"""What a member does when a heartbeat fails or is refused (E7.9), and how it leaves."""

from __future__ import annotations

import pytest

from coterie.client.member_states import MemberState, move
from coterie.client.member_values import Assign, Lose, Revoke, Subscription
from coterie.client.membership import LEAVE_EPOCH, LEAVE_FOR_A_WHILE_EPOCH
from coterie.errors import ApiError
from coterie.wire.error_codes import ErrorCode
from coterie.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatResponse,
)
from tests.client.script import INTERVAL_MS, OWN_ID, Script, listed, owned

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


def stable() -> Script:
    """A member at epoch 5 with partitions 0 and 1; a heartbeat of it is in flight."""
    script = Script()
    script.joined(5, owned(0, 1))
    script.sent_later()
    return script


@pytest.mark.fact("E7-75")
def test_the_heartbeat_after_one_without_answer_is_full() -> None:
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
def test_the_heartbeat_after_a_refused_one_is_full(code: ErrorCode) -> None:
    script = stable()
    script.no(code)
    script.steps()
    full = script.sent_later()
    assert full.subscribed_topic_names == ["orders"]
    assert full.topic_partitions is not None
    assert full.rebalance_timeout_ms == 300_000


def test_the_wait_after_failures_doubles_to_a_bound_until_there_is_an_answer() -> None:
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
def test_a_coordinator_elsewhere_is_looked_for_and_asked_at_once(
    code: ErrorCode,
) -> None:
    script = stable()
    assert script.no(code)
    assert script.wait_ms == 0
    assert script.member.owned == owned(0, 1)
    assert script.sent().member_epoch == 5


def test_coordinators_that_send_it_round_in_circles_are_asked_slower() -> None:
    script = stable()
    for _ in range(3):
        script.no(ErrorCode.NOT_COORDINATOR)
        script.sent_later()
    assert script.no(ErrorCode.NOT_COORDINATOR)
    assert script.wait_ms == 800


@pytest.mark.fact("E7-71")
def test_a_loading_coordinator_is_asked_again_a_moment_later() -> None:
    script = stable()
    assert not script.no(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    assert script.wait_ms == 100
    assert script.sent_later().member_epoch == 5


@pytest.mark.fact("E7-72", "E10-06")
@pytest.mark.parametrize("code", FENCED)
def test_a_fenced_member_loses_everything_then_joins_anew_as_itself(
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
def test_a_member_fenced_while_it_revokes_loses_the_rest_after() -> None:
    script = stable()
    script.yes(5, owned(0))
    assert script.member.begin() == Revoke(owned(1))
    script.sent_later()
    script.no(ErrorCode.FENCED_MEMBER_EPOCH)
    assert script.member.begin() is None
    script.member.finish()
    assert script.steps() == [Lose(owned(0))]
    assert script.member.state is MemberState.JOINING


def test_a_join_that_is_fenced_is_not_repeated_without_pause() -> None:
    script = Script()
    script.member.join()
    script.sent()
    script.no(ErrorCode.FENCED_MEMBER_EPOCH)
    assert script.member.state is MemberState.JOINING
    assert script.wait_ms == 100


def test_a_group_that_was_deleted_is_joined_anew() -> None:
    script = stable()
    script.no(ErrorCode.GROUP_ID_NOT_FOUND)
    assert script.steps() == [Lose(owned(0, 1))]
    assert script.sent().member_epoch == 0
    script.no(ErrorCode.GROUP_ID_NOT_FOUND)
    assert script.member.state is MemberState.FATAL


@pytest.mark.fact("E7-73")
@pytest.mark.parametrize("code", FATAL)
def test_what_cannot_pass_ends_the_membership(code: ErrorCode) -> None:
    script = stable()
    script.no(code)
    assert script.member.state is MemberState.FATAL
    assert isinstance(script.member.failure, ApiError)
    assert script.member.failure.code is code
    assert script.steps() == [Lose(owned(0, 1))]
    assert script.wait_ms is None


@pytest.mark.fact("E7-73")
def test_a_code_that_kafka_added_since_ends_the_membership() -> None:
    script = stable()
    answer = ConsumerGroupHeartbeatResponse(error_code=9_999)
    script.member.answered(answer, script.now_ms)
    assert script.member.state is MemberState.FATAL


@pytest.mark.fact("E7-74")
def test_a_forbidden_topic_is_told_and_asked_for_again_at_the_interval() -> None:
    script = stable()
    script.no(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    assert script.member.refusal is not None
    assert script.member.refusal.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert script.wait_ms == INTERVAL_MS
    assert script.sent_later().subscribed_topic_names == ["orders"]
    script.yes(5)
    assert script.member.refusal is None


@pytest.mark.fact("E7-74")
def test_a_refused_pattern_gives_way_to_the_subscription_before_it() -> None:
    script = Script()
    script.joined(5, owned(0))
    script.member.subscribe(Subscription(pattern="("))
    script.sent()
    script.no(ErrorCode.INVALID_REGULAR_EXPRESSION)
    assert script.member.refusal is not None
    again = script.sent_later()
    assert again.subscribed_topic_names == ["orders"]
    assert again.subscribed_topic_regex == ""
    assert script.member.owned == owned(0)


@pytest.mark.fact("E7-74")
def test_a_refused_pattern_with_none_before_it_ends_the_membership() -> None:
    script = Script(Subscription(pattern="("))
    script.member.join()
    script.sent()
    script.no(ErrorCode.INVALID_REGULAR_EXPRESSION)
    assert script.member.state is MemberState.FATAL


@pytest.mark.parametrize("epoch", [LEAVE_EPOCH, LEAVE_FOR_A_WHILE_EPOCH])
def test_a_leaving_member_gives_everything_up_and_then_says_so(epoch: int) -> None:
    script = Script(instance_id="i")
    script.joined(5, owned(0, 1))
    script.member.leave(epoch)
    assert script.member.state is MemberState.PREPARE_LEAVING
    assert not script.is_due
    assert script.member.begin() == Revoke(owned(0, 1))
    assert script.sent_later().member_epoch == 5  # it is a member still
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


def test_a_member_may_leave_without_a_word() -> None:
    script = Script()
    script.joined(5, owned(0))
    script.member.leave(None)
    assert script.steps() == [Revoke(owned(0))]
    assert script.member.state is MemberState.UNSUBSCRIBED


def test_a_leave_waits_for_the_answer_to_a_join() -> None:
    script = Script()
    script.member.join()
    script.sent()
    script.member.leave(LEAVE_EPOCH)
    assert script.member.state is MemberState.LEAVING
    assert script.wait_ms is None
    script.yes(3, owned(0))
    assert script.sent().member_epoch == LEAVE_EPOCH
    assert script.member.owned == owned()


def test_who_never_asked_to_join_leaves_without_a_word() -> None:
    script = Script()
    script.member.join()
    script.member.leave(LEAVE_EPOCH)
    assert script.member.state is MemberState.UNSUBSCRIBED


@pytest.mark.parametrize("code", FENCED)
def test_a_member_fenced_while_it_leaves_loses_the_rest_and_is_out(
    code: ErrorCode,
) -> None:
    script = Script()
    script.joined(5, owned(0))
    script.sent_later()
    script.member.leave(LEAVE_EPOCH)
    script.no(code)
    assert script.steps() == [Lose(owned(0))]
    assert script.member.state is MemberState.UNSUBSCRIBED


def test_a_member_refused_for_good_while_it_leaves_is_out() -> None:
    script = Script()
    script.joined(5, owned(0))
    script.sent_later()
    script.member.leave(LEAVE_EPOCH)
    script.no(ErrorCode.INVALID_REQUEST)
    assert script.steps() == [Lose(owned(0))]
    assert script.member.state is MemberState.UNSUBSCRIBED


def test_a_fenced_member_that_leaves_loses_what_it_had_and_is_out() -> None:
    script = stable()
    script.no(ErrorCode.UNKNOWN_MEMBER_ID)
    script.member.leave(LEAVE_EPOCH)
    assert script.steps() == [Lose(owned(0, 1))]
    assert script.member.state is MemberState.UNSUBSCRIBED


@pytest.mark.parametrize("code", [*ELSEWHERE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS])
def test_a_leave_is_said_again_where_it_may_be_heard(code: ErrorCode) -> None:
    script = leaving()
    assert script.no(code) is (code in ELSEWHERE)
    assert script.sent_later().member_epoch == LEAVE_EPOCH
    script.member.failed(script.now_ms)
    assert script.sent_later().member_epoch == LEAVE_EPOCH


@pytest.mark.parametrize("code", [*FENCED, *FATAL])
def test_a_leave_that_is_refused_is_the_end_all_the_same(code: ErrorCode) -> None:
    script = leaving()
    script.no(code)
    assert script.member.state is MemberState.UNSUBSCRIBED
    assert script.member.failure is None


def test_a_leave_that_cannot_be_said_is_the_end() -> None:
    script = leaving()
    script.member.failed(script.now_ms)
    script.member.fail(ApiError(ErrorCode.GROUP_AUTHORIZATION_FAILED))
    assert script.member.state is MemberState.UNSUBSCRIBED


def leaving() -> Script:
    """A member whose leave is in flight."""
    script = Script()
    script.joined(5, owned())
    script.member.leave(LEAVE_EPOCH)
    script.sent()
    return script


def test_a_move_that_is_not_in_the_table_is_a_bug() -> None:
    with pytest.raises(AssertionError, match="FATAL -> JOINING"):
        move(MemberState.FATAL, MemberState.JOINING)
