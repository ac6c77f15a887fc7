"""Which partitions of a share group have state, and when it is initialized."""

from __future__ import annotations

import pytest

from coterie.broker.coordinator.admin import DeleteGroup
from coterie.broker.coordinator.share.state_requests import (
    DeleteShareState,
    InitializeShareState,
    SharePartitions,
    ShareStateChanged,
)
from coterie.wire.error_codes import ErrorCode
from tests.broker.coordinator.requests import topic_id
from tests.broker.coordinator.share.share_groups import ShareDriver, assigned

RETRY_MS = 30_000


@pytest.fixture
def driver() -> ShareDriver:
    return ShareDriver()


def pending(driver: ShareDriver) -> InitializeShareState | DeleteShareState:
    """Return the one request to the store that is due."""
    (timer,) = (each for key, each in driver.timers.items() if key[0] == "share-state")
    assert timer.fires_at_ms == driver.now_ms
    request = timer.request
    assert isinstance(request, InitializeShareState | DeleteShareState)
    return request


@pytest.mark.fact("SG-144")
def test_a_new_topic_starts_by_the_reset_policy(driver: ShareDriver) -> None:
    driver.beat("m", 0, ["foo"])
    assert pending(driver) == InitializeShareState(
        "s", 2, (SharePartitions(topic_id("foo"), "foo", (0, 1, 2, 3), -1),)
    )


@pytest.mark.fact("SG-144", "SG-147")
def test_new_partitions_of_a_known_topic_start_at_zero(driver: ShareDriver) -> None:
    driver.join()
    driver.settle_all()
    driver.change_topics(foo=6)
    driver.beat()
    assert driver.wrote_types == ["epoch", "target-epoch", "current", "partitions"]
    assert pending(driver).topics == (
        SharePartitions(topic_id("foo"), "foo", (4, 5), start_offset=0),
    )
    driver.advance(0)
    assert assigned(driver.beat()) == {"foo": [0, 1, 2, 3, 4, 5]}


@pytest.mark.fact("SG-146")
def test_a_failed_initialization_is_repeated_by_the_next_heartbeat(
    driver: ShareDriver,
) -> None:
    driver.share_state_code = ErrorCode.COORDINATOR_NOT_AVAILABLE
    driver.join()
    assert driver.initialized() == {}
    driver.share_state_code = ErrorCode.NONE
    driver.beat()
    assert driver.wrote_types == ["partitions"]
    driver.advance(0)
    assert driver.initialized() == {"foo": [0, 1, 2, 3]}


@pytest.mark.fact("SG-142", "SG-143", "SG-145")
def test_an_initialization_without_an_end_is_repeated_after_an_interval(
    driver: ShareDriver,
) -> None:
    driver.beat("m", 0, ["foo"])
    driver.timers.clear()  # the store never says that it is done
    driver.now_ms += RETRY_MS - 1
    driver.beat()
    assert driver.wrote_types == []
    driver.now_ms += 1
    driver.beat()
    assert driver.wrote_types == ["partitions"]
    # The topic is a known one by now.
    assert pending(driver).topics[0].start_offset == 0


@pytest.mark.fact("SG-149")
def test_the_end_of_an_initialization_in_a_deleted_group_has_no_effect(
    driver: ShareDriver,
) -> None:
    driver.beat("m", 0, ["foo"])
    request = pending(driver)
    driver.timers.clear()
    driver.beat("m", -1)
    assert not driver.delete().error
    driver.fire(request)
    assert driver.wrote_types == []
    assert driver.state.share_groups == {}


@pytest.mark.fact("SG-104")
def test_partitions_are_assigned_after_a_second_bump(driver: ShareDriver) -> None:
    assert assigned(driver.join()) == {}
    assert driver.group.epoch == 2
    assert assigned(driver.beat()) == {"foo": [0, 1, 2, 3]}
    assert driver.group.epoch == 3


@pytest.mark.fact("SG-151")
def test_a_deleted_topic_is_removed_from_all_states(driver: ShareDriver) -> None:
    driver.join("m", ["foo", "bar"])
    driver.delete_topic("foo")
    assert driver.wrote_types == ["partitions"]
    assert driver.initialized() == {"bar": [0, 1]}
    driver.delete_topic("bar")
    assert driver.initialized() == {}


@pytest.mark.fact("SG-171")
def test_a_group_is_deleted_after_the_state_of_its_partitions(
    driver: ShareDriver,
) -> None:
    driver.join("m", ["foo", "bar"])
    driver.beat("m", -1)
    sent = driver.send(DeleteGroup("s"))
    assert sent.parked
    assert driver.wrote_types == ["partitions"]
    request = pending(driver)
    assert [each.topic_name for each in request.topics] == ["bar", "foo"]
    driver.advance(0)
    assert not sent.error
    assert driver.wrote_types == ["-target-epoch", "-partitions", "-epoch"]
    assert driver.state.share_groups == {}
    assert driver.reloaded().state.share_groups == {}


@pytest.mark.fact("SG-171")
def test_a_group_whose_state_cannot_be_deleted_stays(driver: ShareDriver) -> None:
    driver.join()
    driver.beat("m", -1)
    driver.share_state_code = ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert driver.delete().error == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert driver.group.partitions is not None
    assert driver.group.partitions.deleting == {topic_id("foo"): "foo"}
    driver.share_state_code = ErrorCode.NONE
    sent = driver.send(DeleteGroup("s"))
    assert pending(driver).topics[0].partitions == (0, 1, 2, 3)
    driver.advance(0)
    assert not sent.error
    assert driver.state.share_groups == {}


def test_a_group_that_a_member_joins_meanwhile_is_not_deleted(
    driver: ShareDriver,
) -> None:
    driver.join()
    driver.beat("m", -1)
    sent = driver.send(DeleteGroup("s"))
    request = pending(driver)
    driver.timers.clear()
    driver.beat("n", 0, ["foo"])
    # Its partitions are initialized again; the deletion of the state ends only now.
    driver.fire(request)
    assert sent.error == ErrorCode.NON_EMPTY_GROUP
    assert [*driver.group.members] == ["n"]


def test_a_group_without_partitions_is_deleted_at_once(driver: ShareDriver) -> None:
    driver.topics.counts.clear()
    driver.beat("m", 0, ["foo"])
    driver.beat("m", -1)
    sent = driver.send(DeleteGroup("s"))
    assert not sent.error
    assert driver.wrote_types == ["-target-epoch", "-partitions", "-epoch"]


def test_the_end_of_a_change_that_no_request_waits_for_has_no_reply(
    driver: ShareDriver,
) -> None:
    driver.join()
    driver.beat("m", -1)
    request = DeleteShareState("s", (), deletes_group=True)
    driver.fire(ShareStateChanged(request, ErrorCode.NONE))
    assert driver.results[-1].replies == ()
    assert driver.state.share_groups == {}
