"""OffsetDelete, and the deletion of topics."""

from __future__ import annotations

import pytest

from coterie.broker.coordinator.classic import group as classic_group
from coterie.broker.coordinator.consumer.group import ResolvedRegex
from coterie.broker.coordinator.consumer.record_builders import regex_record
from coterie.broker.coordinator.offsets import deletion
from coterie.broker.coordinator.offsets.deletion import DeletedTopic, TopicsDeleted
from coterie.broker.coordinator.records import GroupMetadataKey, OffsetCommitKey
from coterie.broker.coordinator.result import Record, Result
from coterie.errors import MalformedFrame
from tests.broker.coordinator.classic.members import (
    join,
    leave,
    protocols,
    stable_group,
)
from tests.broker.coordinator.consumer.groups import GroupDriver
from tests.broker.coordinator.driver import Sent
from tests.broker.coordinator.requests import codes, topic_id
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


@pytest.mark.fact("H-97d", "D-52a")
def test_the_empty_group_id_is_invalid_for_any_topic(driver: ShardDriver) -> None:
    sent = driver.delete_offsets({"gone": [0], "t": [99]}, group_id="")
    assert (sent.error, sent.response.topics) == (24, [])


@pytest.mark.fact("H-97c", "D-52b")
def test_an_unknown_group_is_not_found(driver: ShardDriver) -> None:
    sent = delete(driver, "t")
    assert (sent.error, sent.response.topics) == (69, [])


@pytest.mark.fact("D-52b")
def test_a_dead_group_is_not_found(driver: ShardDriver) -> None:
    driver.commit({T0: 1})
    driver.shard.resign()
    assert delete(driver, "t").error == 69


@pytest.mark.fact("D-52c")
def test_deleting_offsets_of_an_active_connect_group_is_refused(
    driver: ShardDriver,
) -> None:
    driver.commit({U0: 1})
    stable_group(driver, 1, protocol_type="connect", protocols=protocols(any=b"x"))
    assert delete(driver, "u").error == 68


@pytest.mark.fact("H-97a", "D-53a")
def test_offsets_of_topics_subscribed_to_by_classic_members_are_not_deleted(
    driver: ShardDriver,
) -> None:
    driver.commit({T0: 1, U0: 2})
    stable_group(driver, 1)
    assert codes(delete(driver, "t", "u")) == {T0: 86, U0: 0}
    assert driver.offsets() == {T0: 1}


@pytest.mark.fact("D-53a")
def test_with_unknown_subscriptions_every_topic_counts_as_subscribed(
    driver: ShardDriver,
) -> None:
    driver.commit({U0: 1})
    join(driver)
    assert codes(delete(driver, "u")) == {U0: 86}


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


@pytest.mark.fact("D-55", "H-98")
def test_deleting_an_offset_also_deletes_the_pending_offset(
    driver: ShardDriver,
) -> None:
    driver.txn_commit({T0: 5})
    assert codes(delete(driver, "t")) == {T0: 0}
    assert driver.written == (tombstone("t", 0),)
    driver.end_transaction(commit=True)
    assert driver.offsets() == {}


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


@pytest.mark.fact("E17-21", "H-100")
def test_deleting_a_topic_deletes_its_offsets_in_every_group(
    driver: ShardDriver,
) -> None:
    driver.commit({T0: 1, T1: 2, U0: 3})
    driver.commit({T1: 4}, group_id="h")
    driver.txn_commit({("t", 2): 5, T0: 6}, group_id="g")
    delete_topics(driver, "t")
    assert {(r.key.group, r.key.topic, r.key.partition) for r in driver.written} == {  # type: ignore[attr-defined]
        ("g", "t", 0),
        ("g", "t", 1),
        ("h", "t", 1),
        ("g", "t", 2),
    }
    assert all(record.value is None for record in driver.written)
    assert len(driver.written) == 4
    driver.end_transaction(commit=True)
    assert driver.offsets() == {U0: 3}
    driver.sweep()
    assert {*driver.groups} == {"g"}


@pytest.mark.fact("E17-21")
def test_deleting_a_subscribed_topic_deletes_its_offsets(driver: ShardDriver) -> None:
    driver.commit({T0: 1})
    stable_group(driver, 1)
    delete_topics(driver, "t", "u")
    assert driver.offsets() == {}


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


@pytest.mark.fact("H-97a", "H-97b", "D-53a")
def test_offsets_of_subscribed_topics_are_not_deleted() -> None:
    driver = GroupDriver()
    driver.commit({F0: 1, B0: 2})
    driver.join("m", ["foo"])
    sent = driver.delete_offsets({"foo": [0], "bar": [0, 3], "nowhere": [0]})
    assert sent.error == 0
    assert codes(sent) == {F0: 86, B0: 0, ("bar", 3): 3, ("nowhere", 0): 3}
    assert driver.written == (tombstone("bar", 0),)
    assert driver.offsets() == {F0: 1}


@pytest.mark.fact("H-13b")
def test_offsets_of_unsubscribed_topics_may_be_deleted() -> None:
    driver = GroupDriver()
    driver.join("m", ["foo"])
    driver.commit({F0: 1}, member_id="m", generation_id_or_member_epoch=1)
    assert not driver.heartbeat("m", 1, subscribed_topic_names=[]).error
    assert codes(driver.delete_offsets({"foo": [0]})) == {F0: 0}
    assert driver.offsets() == {}


@pytest.mark.fact("D-53a")
def test_offsets_of_topics_matched_by_an_expression_are_not_deleted() -> None:
    driver = GroupDriver()
    driver.commit({F0: 1, B0: 2})
    driver.join("m", [], subscribed_topic_regex="f.*")
    resolved = ResolvedRegex(("foo",), 1, 1)
    driver.settle(Result(records=(regex_record("g", "f.*", resolved),)))
    assert codes(driver.delete_offsets({"foo": [0], "bar": [0]})) == {F0: 86, B0: 0}


def test_an_empty_consumer_group_subscribes_to_nothing() -> None:
    driver = GroupDriver()
    driver.commit({F0: 1})
    driver.join("m", ["foo"])
    driver.heartbeat("m", -1)
    assert codes(driver.delete_offsets({"foo": [0]})) == {F0: 0}
    assert driver.group.state.value == "Empty"


@pytest.mark.fact("E17-21", "H-100")
def test_deleting_a_topic_deletes_its_offsets_in_consumer_groups() -> None:
    driver = GroupDriver()
    driver.join("m", ["foo"])
    driver.commit({F0: 1, B0: 2}, member_id="m", generation_id_or_member_epoch=1)
    driver.txn_commit({("foo", 1): 3})
    driver.fire(TopicsDeleted((DeletedTopic("foo", topic_id("foo")),)))
    assert driver.written == (tombstone("foo", 0), tombstone("foo", 1))
    assert driver.offsets() == {B0: 2}


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
