"""ShareGroupHeartbeat in a shard: what scenarios do not show."""

from __future__ import annotations

import pytest

from coterie.broker.coordinator.share.record_builders import group_records
from coterie.settings import Settings
from coterie.types import TopicName
from coterie.wire import messages as m
from coterie.wire.error_codes import ErrorCode
from tests.broker.coordinator.shard_driver import assert_same_durable, taken_over
from tests.broker.coordinator.share.share_groups import AT_ONCE, ShareDriver, assigned


@pytest.fixture
def driver() -> ShareDriver:
    return ShareDriver()


def test_a_heartbeat_that_changes_nothing_writes_nothing(driver: ShareDriver) -> None:
    driver.join()
    driver.settle_all()
    driver.beat()
    assert driver.wrote_types == []


def test_the_previous_epoch_is_accepted(driver: ShareDriver) -> None:
    driver.join()
    driver.beat()
    member = driver.member()
    assert (member.previous_epoch, member.epoch) == (2, 3)
    assert driver.beat(epoch=2).response.member_epoch == 3
    assert driver.beat(epoch=1).error == ErrorCode.FENCED_MEMBER_EPOCH
    assert driver.beat(epoch=4).error == ErrorCode.FENCED_MEMBER_EPOCH


def test_a_loaded_member_has_a_whole_session(driver: ShareDriver) -> None:
    driver.join()
    driver.now_ms += 44_000
    loaded = driver.reloaded()
    assert loaded.timers["session", "s", "m"].fires_at_ms == driver.now_ms + 45_000


def test_a_member_without_heartbeats_is_removed(driver: ShareDriver) -> None:
    driver.join()
    driver.advance(45_000)
    assert driver.group.members == {}
    assert driver.group.state.value == "Empty"


def test_the_session_and_the_interval_of_a_group_are_used(driver: ShareDriver) -> None:
    driver.settings = Settings(
        group_share_session_timeout_ms=50_000, group_share_heartbeat_interval_ms=7_000
    )
    sent = driver.join()
    assert sent.response.heartbeat_interval_ms == 7_000
    assert driver.timers["session", "s", "m"].fires_at_ms == driver.now_ms + 50_000


def test_a_group_is_limited_in_its_members_and_the_shard_in_its_groups() -> None:
    settings = Settings(group_share_max_size=1, offsets_topic_partition_max_groups=1)
    driver = ShareDriver(settings=settings)
    driver.join()
    assert driver.beat("n", 0, ["foo"]).error == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert driver.beat("n", 3).error == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert not driver.beat("m", 0, ["foo"]).error
    driver.group_id = "another"
    assert driver.beat("m", 0, ["foo"]).error == ErrorCode.POLICY_VIOLATION


@pytest.mark.fact("SG-107", "SG-117")
def test_targets_have_an_interval() -> None:
    driver = ShareDriver(settings=Settings())
    driver.join()
    assert driver.beat().response.member_epoch == 2
    assert driver.group.epoch == 3
    driver.advance(999)
    driver.beat()
    assert driver.wrote_types == []
    driver.advance(1)
    sent = driver.beat()
    assert (sent.response.member_epoch, assigned(sent)) == (3, {"foo": [0, 1, 2, 3]})


def test_a_failing_assignor_fails_the_heartbeat(
    driver: ShareDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver.join()
    # A target with a topic of which the catalog has lost the size.
    monkeypatch.setattr(
        "coterie.broker.coordinator.share.draft.simple.assign", lambda spec: 1 // 0
    )
    assert driver.beat().error == ErrorCode.UNKNOWN_SERVER_ERROR
    assert driver.results[-1].records == ()


def test_members_describe_only_topics_that_they_may(driver: ShareDriver) -> None:
    driver.join()
    driver.settle_all()

    def no_topic(topic: TopicName) -> bool:
        return False

    driver.may_describe = no_topic
    assert driver.described().error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED


def test_a_shard_loads_the_log_and_a_snapshot(driver: ShareDriver) -> None:
    driver.join("m", ["foo", "bar"])
    driver.join("n", ["foo"])
    driver.settle_all()
    driver.beat("n", topics=["bar"])
    driver.advance(0)
    driver.beat("m", -1)
    assert_same_durable(driver.state, driver.reloaded().state)
    assert_same_durable(driver.state, taken_over(driver.state).state)
    assert group_records(driver.group)


def test_a_deleted_topic_leaves_the_assignment_at_the_next_epoch(
    driver: ShareDriver,
) -> None:
    driver.join("m", ["foo", "bar"])
    driver.settle_all()
    driver.delete_topic("foo")
    assert driver.initialized() == {"bar": [0, 1]}
    assert assigned(driver.beat()) == {"bar": [0, 1]}
    assert driver.described().members[0].member_epoch == 4


def test_leaving_cancels_the_session(driver: ShareDriver) -> None:
    driver.join()
    assert driver.beat(epoch=-1).response.member_epoch == -1
    assert ("session", "s", "m") not in driver.timers


def test_an_expired_session_of_a_member_that_left_has_no_effect(
    driver: ShareDriver,
) -> None:
    driver.join("m")
    driver.join("n")
    expired = driver.timers["session", "s", "m"].request
    driver.beat("m", -1)
    driver.fire(expired)
    assert driver.wrote_types == []
    assert [*driver.group.members] == ["n"]


def test_a_refusal_has_the_error_of_the_fields_first() -> None:
    driver = ShareDriver(settings=AT_ONCE)
    request = m.ShareGroupHeartbeatRequest(group_id="s", member_id="m", member_epoch=0)
    context = driver._context(1, 1, "", "")
    code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert driver.shard.refuse(request, context, code).error_code == (
        ErrorCode.INVALID_REQUEST
    )
    request.subscribed_topic_names = ["foo"]
    assert driver.shard.refuse(request, context, code).error_code == code
