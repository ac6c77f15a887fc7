"""Share sessions: epochs, limits and disconnects."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import pytest

from coterie.broker.coordinator.share_partition.state import ShareKey
from coterie.broker.runtime.share_partitions import SharePartitions
from coterie.broker.runtime.share_sessions import (
    PartitionId,
    SessionKey,
    ShareSessions,
    next_epoch,
)
from coterie.errors import ApiError
from coterie.wire.error_codes import ErrorCode

pytestmark = pytest.mark.pure

TOPIC_ID = b"t" * 16
FIRST = SessionKey(1, "g", "m")


class RecordedShares:
    """Share partitions that record what is released."""

    def __init__(self) -> None:
        self.released: list[tuple[ShareKey, str]] = []
        self.closed: list[str] = []

    def release(self, key: ShareKey, member: str) -> None:
        self.released.append((key, member))

    def close_group(self, group_id: str) -> None:
        self.closed.append(group_id)


@pytest.fixture
def shares() -> RecordedShares:
    return RecordedShares()


@pytest.fixture
def sessions(shares: RecordedShares) -> ShareSessions:
    return ShareSessions(cast(SharePartitions, shares), 2, 5)


def partitions(*indexes: int) -> dict[PartitionId, str | None]:
    return {PartitionId(TOPIC_ID, index): "t" for index in indexes}


def refusal(call: Callable[[], object]) -> ErrorCode:
    with pytest.raises(ApiError) as refused:
        call()
    return refused.value.code


def test_one_follows_the_greatest_epoch() -> None:
    assert next_epoch(0) == 1
    assert next_epoch(2**31 - 1) == 1


def test_a_repeated_epoch_is_refused_and_the_session_stays(
    sessions: ShareSessions,
) -> None:
    session = sessions.open(FIRST, "c")
    assert sessions.advance(FIRST, 1) is session
    assert sessions.is_current(session, 1)
    assert refusal(lambda: sessions.advance(FIRST, 1)) == 123
    assert sessions.advance(FIRST, 2) is session
    assert not sessions.is_current(session, 1)
    assert sessions.advance(FIRST, -1) is session


def test_a_session_is_of_one_node(sessions: ShareSessions) -> None:
    sessions.open(FIRST, "c")
    assert refusal(lambda: sessions.advance(FIRST._replace(node_id=2), 1)) == 122


def test_each_node_has_its_limit_of_sessions(sessions: ShareSessions) -> None:
    for member in "ab":
        sessions.open(SessionKey(1, "g", member), member)
    assert refusal(lambda: sessions.open(FIRST, "c")) == 133
    sessions.open(SessionKey(1, "g", "a"), "again")
    sessions.open(FIRST._replace(node_id=2), "other")
    assert len(sessions) == 3


def test_the_partitions_of_all_sessions_are_limited(sessions: ShareSessions) -> None:
    first = sessions.open(FIRST, "c")
    sessions.update(first, partitions(0, 1, 2), ())
    second = sessions.open(FIRST._replace(member_id="n"), "d")
    assert refusal(lambda: sessions.update(second, partitions(0, 1, 2), ())) == 133
    sessions.update(first, partitions(0), partitions(1, 2))
    sessions.update(second, partitions(0, 1, 2), ())
    sessions.close(first)
    sessions.update(second, partitions(3, 4), ())


def test_a_disconnect_releases_and_the_last_one_closes_the_group(
    sessions: ShareSessions, shares: RecordedShares
) -> None:
    sessions.update(sessions.open(FIRST, "c"), partitions(3), ())
    sessions.open(FIRST._replace(member_id="n"), "d")
    sessions.disconnect("c")
    assert shares.released == [(ShareKey("g", TOPIC_ID, 3), "m")]
    assert shares.closed == []
    sessions.disconnect("d")
    assert shares.closed == ["g"]
    assert len(sessions) == 0


def test_a_disconnect_leaves_a_session_of_a_newer_connection(
    sessions: ShareSessions, shares: RecordedShares
) -> None:
    sessions.update(sessions.open(FIRST, "old"), partitions(3), ())
    sessions.open(FIRST, "new")
    sessions.disconnect("old")
    sessions.disconnect("unknown")
    assert len(sessions) == 1
    assert shares.released == shares.closed == []
