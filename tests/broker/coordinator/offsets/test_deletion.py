"""OffsetDelete, and the deletion of topics."""

from __future__ import annotations

import pytest

from coterie.broker.coordinator.classic import group as classic_group
from coterie.broker.coordinator.offsets import deletion
from coterie.broker.coordinator.offsets.deletion import DeletedTopic, TopicsDeleted
from coterie.broker.coordinator.records import GroupMetadataKey, OffsetCommitKey
from coterie.broker.coordinator.result import Record
from coterie.errors import MalformedFrame
from tests.broker.coordinator.classic.members import (
    leave,
    protocols,
    stable_group,
)
from tests.broker.coordinator.consumer.groups import GroupDriver
from tests.broker.coordinator.driver import Sent
from tests.broker.coordinator.requests import codes
from tests.broker.coordinator.shard_driver import ShardDriver

T0, T1, U0 = ("t", 0), ("t", 1), ("u", 0)


@pytest.fixture
def driver() -> ShardDriver:
    return ShardDriver()


def tombstone(topic: str, partition: int, group_id: str = "g") -> Record:
    return Record(
        OffsetCommitKey(group=group_id, topic=topic, partition=partition), None
    )


def delete(driver: ShardDriver, *topics: str) -> Sent:
    return driver.delete_offsets({topic: [0] for topic in topics})


def test_a_deleted_offset_is_not_fetched(driver: ShardDriver) -> None:
    driver.commit({T0: 1, T1: 2})
    assert codes(driver.delete_offsets({"t": [0]})) == {T0: 0}
    assert driver.written == (tombstone("t", 0),)
    assert driver.offsets() == {T1: 2}


@pytest.mark.fact("D-50b")
def test_the_offset_delete_response_has_a_top_level_error_code(
    driver: ShardDriver,
) -> None:
    driver.commit({T0: 1})
    answer = delete(driver, "t").response
    assert (answer.error_code, answer.throttle_time_ms) == (0, 0)


@pytest.mark.fact("D-52c")
def test_deleting_offsets_of_an_active_connect_group_is_refused(
    driver: ShardDriver,
) -> None:
    driver.commit({U0: 1})
    stable_group(driver, 1, protocol_type="connect", protocols=protocols(any=b"x"))
    assert delete(driver, "u").error == 68


def test_a_group_without_members_subscribes_to_nothing(driver: ShardDriver) -> None:
    driver.commit({T0: 1})
    leave(driver, *stable_group(driver, 1))
    assert codes(delete(driver, "t")) == {T0: 0}


@pytest.mark.fact("H-97b", "D-54a", "D-53b")
def test_each_unknown_partition_has_its_own_error(driver: ShardDriver) -> None:
    driver.commit({T0: 1})
    sent = driver.delete_offsets({"gone": [0], "t": [0, 4]})
    assert codes(sent) == {("gone", 0): 3, T0: 0, ("t", 4): 3}


@pytest.mark.fact("D-54b")
def test_a_partition_without_an_offset_is_deleted_without_a_record(
    driver: ShardDriver,
) -> None:
    driver.commit({T0: 1})
    assert codes(driver.delete_offsets({"t": [1]})) == {T1: 0}
    assert driver.written == ()


def test_a_sweep_deletes_a_simple_group_without_offsets(driver: ShardDriver) -> None:
    driver.commit({T0: 1})
    delete(driver, "t")
    assert driver.groups["g"].is_simple
    driver.sweep()
    assert driver.written == (Record(GroupMetadataKey(group="g"), None),)
    assert "g" not in driver.groups


def test_a_group_that_had_members_is_kept_when_its_offsets_are_deleted(
    driver: ShardDriver,
) -> None:
    driver.commit({T0: 1})
    leave(driver, *stable_group(driver, 1))
    delete(driver, "t")
    assert driver.groups["g"].generation == 2


def delete_topics(driver: ShardDriver, *names: str) -> None:
    topics = [DeletedTopic(name, name.encode().ljust(16, b"\0")) for name in names]
    driver.fire(TopicsDeleted(tuple(topics)))


def test_an_offset_of_a_recreated_topic_is_kept(driver: ShardDriver) -> None:
    driver.commit({T0: 1})
    # A record with a retention time has no topic id, so it is of any topic of the name.
    driver.commit({T1: 2}, version=4, retention_time_ms=99)
    driver.fire(TopicsDeleted((DeletedTopic("t", b"older".ljust(16, b"\0")),)))
    assert driver.offsets() == {T0: 1}


def test_many_groups_are_scanned_in_slices(
    driver: ShardDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deletion, "TOPIC_SLICE_GROUPS", 2)
    for number in range(5):
        driver.commit({T0: 1, U0: 2}, group_id=f"g{number}")
    driver.txn_commit({T1: 3}, group_id="pending")
    steps = len(driver.results)
    delete_topics(driver, "t")
    driver.advance(0)
    assert [len(result.records) for result in driver.results[steps:]] == [2, 2, 2]
    driver.end_transaction(commit=True)
    assert driver.offsets(group_id="g4") == {U0: 2}


# Consumer groups.

F0, B0 = ("foo", 0), ("bar", 0)


def test_an_empty_consumer_group_subscribes_to_nothing() -> None:
    driver = GroupDriver()
    driver.commit({F0: 1})
    driver.join("m", ["foo"])
    driver.heartbeat("m", -1)
    assert codes(driver.delete_offsets({"foo": [0]})) == {F0: 0}
    assert driver.group.state.value == "Empty"


def test_malformed_subscriptions_are_decoded_once_for_many_topics(
    driver: ShardDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    stable_group(driver)
    decoded: list[bytes] = []

    def count(subscription: bytes) -> list[str]:
        decoded.append(subscription)
        raise MalformedFrame("a test")

    monkeypatch.setattr(classic_group, "_topics_in", count)
    driver.topics.counts.update({f"topic-{number}": 1 for number in range(20)})
    driver.delete_offsets({f"topic-{number}": [0] for number in range(20)})
    assert len(decoded) == 1
