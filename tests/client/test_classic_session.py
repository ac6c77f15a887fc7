"""The session of a classic member: what answers mean, and when it ends."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from coterie.client.classic_session import ClassicSession, Effect
from coterie.wire.error_codes import ErrorCode


def joined(prolonged: Callable[[float], None] = lambda _: None) -> ClassicSession:
    """Return a session of 10 s in generation 3, whose SyncGroup was sent at 101 s."""
    session = ClassicSession(10, prolonged)
    session.begin_join()
    session.joined("m", 3, 100)
    session.synced(3, 101)
    return session


def heartbeat(
    session: ClassicSession, code: ErrorCode, generation: int = 3, sent_s: float = 105
) -> Effect:
    return session.heartbeat_answered(
        code, generation, sent_s, was_synced=session.is_synced
    )


def test_a_session_ends_before_the_coordinator_can_expire_it() -> None:
    session = joined()
    assert session.ends_s == 101 + 9
    heartbeat(session, ErrorCode.NONE)
    assert session.ends_s == 105 + 9


def test_an_answer_to_an_earlier_request_does_not_shorten_the_session() -> None:
    prolonged: list[float] = []
    session = joined(prolonged.append)
    heartbeat(session, ErrorCode.NONE, sent_s=105)
    heartbeat(session, ErrorCode.NONE, sent_s=103)
    assert session.ends_s == 105 + 9
    assert prolonged == [100, 101, 105]


def test_a_rebalance_prolongs_the_session_of_a_member_with_an_assignment() -> None:
    session = joined()
    assert heartbeat(session, ErrorCode.REBALANCE_IN_PROGRESS) is Effect.CONTINUE
    assert session.ends_s == 105 + 9
    assert session.is_rebalancing


def test_no_member_is_certainly_kept_during_a_rebalance() -> None:
    # A rebalance ends without members that have not joined again in time, although
    # their heartbeats were answered.
    prolonged: list[float] = []
    session = joined(prolonged.append)
    heartbeat(session, ErrorCode.REBALANCE_IN_PROGRESS, sent_s=105)
    assert session.ends_s == 105 + 9
    assert prolonged == [100, 101]


def test_a_rebalance_does_not_prolong_the_session_before_the_assignment() -> None:
    session = ClassicSession(10, lambda _: None)
    session.begin_join()
    session.joined("m", 3, 100)
    heartbeat(session, ErrorCode.REBALANCE_IN_PROGRESS)
    assert session.ends_s == 100 + 9
    assert not session.is_rebalancing


def test_heartbeats_in_the_old_generation_prolong_the_session_of_a_joining_member() -> (
    None
):
    session = joined()
    session.begin_join()
    heartbeat(session, ErrorCode.REBALANCE_IN_PROGRESS)
    assert session.ends_s == 105 + 9
    assert not session.is_rebalancing, "the member joins already"
    heartbeat(session, ErrorCode.ILLEGAL_GENERATION, sent_s=106)
    assert session.generation == 3, "the JoinGroup response is on its way"


@pytest.mark.parametrize(
    ("code", "member_id"),
    [(ErrorCode.UNKNOWN_MEMBER_ID, ""), (ErrorCode.ILLEGAL_GENERATION, "m")],
)
def test_a_member_that_the_group_removed_is_outside(
    code: ErrorCode, member_id: str
) -> None:
    session = joined()
    assert heartbeat(session, code) is Effect.CONTINUE
    assert (session.member_id, session.generation) == (member_id, -1)
    assert session.ends_s is None


def test_a_late_answer_does_not_revive_a_session() -> None:
    session = joined()
    session.end()
    heartbeat(session, ErrorCode.NONE)
    session.synced(3, 106)
    assert session.ends_s is None
    assert not session.is_synced


def test_an_answer_about_an_earlier_generation_is_ignored() -> None:
    session = joined()
    session.begin_join()
    session.joined("m", 4, 104)
    session.synced(4, 104)
    assert heartbeat(session, ErrorCode.UNKNOWN_MEMBER_ID) is Effect.CONTINUE
    assert session.generation == 4


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.REQUEST_TIMED_OUT,
    ],
)
def test_a_retriable_refusal_changes_nothing(code: ErrorCode) -> None:
    session = joined()
    assert heartbeat(session, code) is Effect.RETRY
    assert (session.generation, session.ends_s) == (3, 101 + 9)


@pytest.mark.parametrize(
    ("code", "ends_s"),
    [
        (ErrorCode.FENCED_INSTANCE_ID, None),
        (ErrorCode.GROUP_AUTHORIZATION_FAILED, 101 + 9),
    ],
)
def test_other_refusals_reject_the_member(code: ErrorCode, ends_s: float) -> None:
    session = joined()
    assert heartbeat(session, code) is Effect.REJECTED
    assert session.ends_s == ends_s


@pytest.mark.parametrize(
    ("code", "is_removed"),
    [
        (ErrorCode.UNKNOWN_MEMBER_ID, True),
        (ErrorCode.FENCED_INSTANCE_ID, True),
        (ErrorCode.REBALANCE_IN_PROGRESS, False),
        (None, False),
    ],
)
def test_a_refused_join_of_a_removed_member_ends_the_session(
    code: ErrorCode | None, *, is_removed: bool
) -> None:
    session = joined()
    session.begin_join()
    session.join_failed(code)
    assert (session.ends_s is None) == is_removed
