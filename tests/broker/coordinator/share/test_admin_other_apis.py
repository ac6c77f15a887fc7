"""The other APIs of groups on share groups."""

from __future__ import annotations

from typing import Any

import pytest

from coterie.broker.coordinator.admin import DescribeConsumerGroup, DescribeGroup
from coterie.broker.coordinator.offsets.deletion import ExpireOffsets
from coterie.wire import messages as m
from coterie.wire.error_codes import ErrorCode
from tests.broker.coordinator.classic.members import join_request
from tests.broker.coordinator.shard_driver import WEEK_MS
from tests.broker.coordinator.share.share_groups import ShareDriver

REQUESTS = [
    (join_request(group_id="s"), ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
    (
        m.SyncGroupRequest(group_id="s", member_id="m"),
        ErrorCode.UNKNOWN_MEMBER_ID,
    ),
    (
        m.HeartbeatRequest(group_id="s", member_id="m"),
        ErrorCode.UNKNOWN_MEMBER_ID,
    ),
    (
        m.ConsumerGroupHeartbeatRequest(
            group_id="s",
            member_id="m",
            rebalance_timeout_ms=1,
            subscribed_topic_names=["foo"],
            topic_partitions=[],
        ),
        ErrorCode.GROUP_ID_NOT_FOUND,
    ),
    (
        m.ConsumerGroupHeartbeatRequest(group_id="s", member_id="m", member_epoch=-1),
        ErrorCode.GROUP_ID_NOT_FOUND,
    ),
    (DescribeConsumerGroup("s"), ErrorCode.GROUP_ID_NOT_FOUND),
    (m.OffsetDeleteRequest(group_id="s"), ErrorCode.GROUP_ID_NOT_FOUND),
]


@pytest.fixture
def driver() -> ShareDriver:
    driver = ShareDriver()
    driver.join()
    return driver


@pytest.mark.fact("H-148", "E20-50", "SG-176a", "SG-176b", "SG-177a", "SG-178b")
@pytest.mark.parametrize("is_empty", [False, True])
@pytest.mark.parametrize(("request_", "code"), REQUESTS)
def test_a_request_of_another_type_is_refused(
    driver: ShareDriver, request_: Any, code: ErrorCode, is_empty: bool
) -> None:
    if is_empty:
        driver.beat(epoch=-1)
    assert driver.send(request_).error == code
    assert [*driver.state.share_groups] == ["s"]
    assert driver.state.offset_group("s") is None


@pytest.mark.fact("H-148")
def test_no_classic_member_leaves_a_share_group(driver: ShareDriver) -> None:
    request = m.LeaveGroupRequest(
        group_id="s", members=[m.MemberIdentity(member_id="m")]
    )
    sent = driver.send(request)
    assert [sent.error, *(each.error_code for each in sent.response.members)] == [
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_MEMBER_ID,
    ]


@pytest.mark.fact("SG-173")
def test_a_description_as_a_classic_group_is_dead(driver: ShareDriver) -> None:
    old = driver.send(DescribeGroup("s"), version=5).response
    assert (old.group_state, old.error_code) == ("Dead", ErrorCode.NONE)
    new = driver.send(DescribeGroup("s"), version=6).response
    assert new.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert new.error_message == "Group s is not a classic group."


def test_no_transaction_commits_offsets_of_a_share_group(driver: ShareDriver) -> None:
    codes = driver.txn_commit({("foo", 0): {"committed_offset": 1}}, group_id="s")
    assert {*codes.values()} == {ErrorCode.ILLEGAL_GENERATION}
    assert driver.state.offsets.stored.group("s") == {}


@pytest.mark.fact("SG-180")
def test_an_empty_share_group_does_not_expire(driver: ShareDriver) -> None:
    driver.beat(epoch=-1)
    driver.now_ms += WEEK_MS
    driver.fire(ExpireOffsets())
    assert driver.wrote_types == []
    assert [*driver.state.share_groups] == ["s"]
