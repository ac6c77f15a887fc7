"""AlterShareGroupOffsets and DeleteShareGroupOffsets in a shard."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from coterie.broker.coordinator.share.state_requests import SharePartitions
from coterie.wire import messages as m
from coterie.wire.error_codes import ErrorCode
from tests.broker.coordinator.driver import Sent
from tests.broker.coordinator.requests import topic_id
from tests.broker.coordinator.share.share_groups import ShareDriver


@pytest.fixture
def driver() -> ShareDriver:
    return ShareDriver()


def alter(driver: ShareDriver, offsets: Mapping[str, Mapping[int, int]]) -> Sent:
    topics = [
        m.AlterShareGroupOffsetsRequestTopic(
            topic_name=name,
            partitions=[
                m.AlterShareGroupOffsetsRequestPartition(
                    partition_index=index, start_offset=offset
                )
                for index, offset in partitions.items()
            ],
        )
        for name, partitions in offsets.items()
    ]
    return driver.send(
        m.AlterShareGroupOffsetsRequest(group_id=driver.group_id, topics=topics)
    )


def delete(driver: ShareDriver, *names: str) -> Sent:
    topics = [m.DeleteShareGroupOffsetsRequestTopic(topic_name=name) for name in names]
    return driver.send(
        m.DeleteShareGroupOffsetsRequest(group_id=driver.group_id, topics=topics)
    )


def requested(driver: ShareDriver) -> Any:
    (timer,) = (each for key, each in driver.timers.items() if key[0] == "share-state")
    return timer.request


@pytest.mark.fact("SG-082", "SG-083")
def test_new_offsets_create_the_group(driver: ShareDriver) -> None:
    sent = alter(driver, {"foo": {0: 5, 1: 7, 2: 5}})
    assert sent.parked
    assert driver.wrote_types == ["partitions"]
    request = requested(driver)
    assert request.state_epoch == 1
    assert request.topics == (
        SharePartitions(topic_id("foo"), "foo", (0, 2), 5),
        SharePartitions(topic_id("foo"), "foo", (1,), 7),
    )
    driver.advance(0)
    (topic,) = sent.response.responses
    assert (topic.topic_name, topic.topic_id) == ("foo", topic_id("foo"))
    found = {each.partition_index: each.error_code for each in topic.partitions}
    assert found == {0: 0, 1: 0, 2: 0}
    assert driver.initialized() == {"foo": [0, 1, 2]}
    assert (driver.group.state.value, driver.group.epoch) == ("Empty", 1)
    assert driver.reloaded().state.share_groups.keys() == {"s"}


@pytest.mark.fact("SG-084")
def test_new_offsets_bump_no_epoch(driver: ShareDriver) -> None:
    driver.join()
    driver.beat(epoch=-1)
    epoch = driver.group.epoch
    alter(driver, {"foo": {0: 1}})
    assert requested(driver).state_epoch == epoch
    driver.advance(0)
    assert driver.group.epoch == epoch


@pytest.mark.fact("SG-083")
def test_an_error_of_the_store_is_that_of_every_partition(driver: ShareDriver) -> None:
    driver.share_state_code = ErrorCode.COORDINATOR_NOT_AVAILABLE
    sent = alter(driver, {"foo": {0: 5}, "bar": {0: 1}})
    driver.advance(0)
    assert not sent.error
    assert [
        each.error_code
        for topic in sent.response.responses
        for each in topic.partitions
    ] == [ErrorCode.COORDINATOR_NOT_AVAILABLE] * 2


@pytest.mark.fact("SG-081", "SG-086")
@pytest.mark.parametrize("is_alteration", [True, False])
def test_the_group_must_be_an_empty_share_group(
    driver: ShareDriver, is_alteration: bool
) -> None:
    def send() -> int:
        if is_alteration:
            return alter(driver, {"foo": {0: 1}}).error
        return delete(driver, "foo").error

    driver.join()
    assert send() == ErrorCode.NON_EMPTY_GROUP
    driver.group_id = ""
    assert send() == ErrorCode.INVALID_GROUP_ID
    driver.group_id = "g"
    driver.commit({("foo", 0): {"committed_offset": 1}})
    assert send() == ErrorCode.GROUP_ID_NOT_FOUND


def test_nothing_to_alter_creates_no_group(driver: ShareDriver) -> None:
    sent = alter(driver, {"none": {0: 1}})
    assert (sent.error, sent.response.responses) == (0, [])
    assert driver.state.share_groups == {}


@pytest.mark.fact("SG-086", "SG-087")
def test_offsets_of_topics_are_deleted(driver: ShareDriver) -> None:
    assert delete(driver, "foo").error == ErrorCode.GROUP_ID_NOT_FOUND
    driver.join("m", ["foo"])
    driver.beat(epoch=-1)
    sent = delete(driver, "foo", "bar", "foo")
    assert sent.parked
    assert driver.group.partitions is not None
    assert driver.group.partitions.deleting == {topic_id("foo"): "foo"}
    assert requested(driver).topics[0].partitions == (0, 1, 2, 3)
    driver.advance(0)
    found = {
        each.topic_name: (each.error_code, each.error_message)
        for each in sent.response.responses
    }
    assert found == {
        "foo": (ErrorCode.NONE, None),
        "bar": (
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            "There is no offset information to delete.",
        ),
    }
    assert driver.group.partitions.deleting == {}
    assert driver.initialized() == {}
    [topic] = delete(driver, "foo").response.responses
    assert topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.fact("SG-087")
def test_a_failed_deletion_is_repeated(driver: ShareDriver) -> None:
    driver.join("m", ["foo"])
    driver.beat(epoch=-1)
    driver.share_state_code = ErrorCode.COORDINATOR_NOT_AVAILABLE
    sent = delete(driver, "foo")
    driver.advance(0)
    [topic] = sent.response.responses
    assert topic.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    driver.share_state_code = ErrorCode.NONE
    sent = delete(driver, "foo")
    assert requested(driver).topics[0].partitions == (0, 1, 2, 3)
    driver.advance(0)
    assert [each.error_code for each in sent.response.responses] == [0]


def test_a_shard_that_is_not_active_refuses_both(driver: ShareDriver) -> None:
    context = driver._context(1, 1, "", "")
    for request in (
        m.AlterShareGroupOffsetsRequest(group_id="s"),
        m.DeleteShareGroupOffsetsRequest(group_id="s"),
    ):
        code = ErrorCode.NOT_COORDINATOR
        assert driver.shard.refuse(request, context, code).error_code == code
        request.group_id = ""
        assert driver.shard.refuse(request, context, code).error_code == (
            ErrorCode.INVALID_GROUP_ID
        )
