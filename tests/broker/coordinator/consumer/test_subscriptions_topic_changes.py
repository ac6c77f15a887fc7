"""Group epoch bumps when subscribed topics are created, extended or deleted."""

from __future__ import annotations

import pytest

from coterie.broker.coordinator.consumer.draft import RefreshSet
from coterie.broker.coordinator.consumer.group import Refresh
from coterie.broker.coordinator.consumer.subscriptions import TopicsChanged
from coterie.broker.coordinator.result import Result
from tests.broker.coordinator.consumer.groups import GroupDriver, received_assignment


@pytest.fixture
def driver() -> GroupDriver:
    return GroupDriver()


def send_change(
    driver: GroupDriver, *names: str, created: tuple[str, ...] = ()
) -> Result:
    """Send a change of topics to the shard, as the catalog does."""
    driver.topics.version += 1
    driver.fire(TopicsChanged(names, created))
    return driver.results[-1]


def test_a_created_topic_must_be_listed_as_changed() -> None:
    with pytest.raises(AssertionError):
        send_change(GroupDriver(), "foo", created=("bar",))


@pytest.mark.fact("H-12", "E6-11", "E15-04", "E15-09", "E15-04a")
def test_a_topic_created_later_is_assigned(driver: GroupDriver) -> None:
    assert received_assignment(driver.join("m", ["new"])) == {}
    assert driver.group.epoch == 1
    driver.heartbeat("m", 1)
    driver.topics.counts["new"] = 4
    assert received_assignment(driver.heartbeat("m", 1)) is None
    send_change(driver, "new", created=("new",))
    assert not driver.wrote
    sent = driver.heartbeat("m", 1)
    assert received_assignment(sent) == {"new": [0, 1, 2, 3]}
    assert sent.response.member_epoch == 2
    assert driver.wrote_types == ["epoch", "target", "target-epoch", "current"]
    left = driver.heartbeat("m", -1)
    assert (left.error, left.response.member_epoch) == (0, -1)


@pytest.mark.fact("E6-10", "E22-24", "E6-32", "E6-30", "E7-37b", "E15-08")
def test_added_partitions_are_assigned_and_the_epoch_is_bumped_once(
    driver: GroupDriver,
) -> None:
    driver.join("m", ["bar"])
    driver.heartbeat("m", 1)
    driver.topics.counts["bar"] = 5
    send_change(driver, "bar")
    assert received_assignment(driver.heartbeat("m", 1)) == {"bar": [0, 1, 2, 3, 4]}
    assert driver.wrote_types == ["epoch", "target", "target-epoch", "current"]
    assert driver.group.epoch == 2
    assert received_assignment(driver.heartbeat("m", 2)) is None
    assert not driver.wrote
    assert driver.group.epoch == 2


@pytest.mark.fact("E15-08")
def test_a_lower_partition_count_bumps_the_epoch(driver: GroupDriver) -> None:
    driver.join("m", ["bar"])
    driver.topics.counts["bar"] = 2
    send_change(driver, "bar")
    driver.settled("m")
    assert driver.group.epoch == 2
    (held,) = driver.member().assigned.values()
    assert sorted(held) == [0, 1]


@pytest.mark.fact("E15-09", "E6-11a")
def test_partitions_of_a_deleted_topic_are_removed_from_assignments(
    driver: GroupDriver,
) -> None:
    driver.join("m", ["foo", "bar"])
    driver.heartbeat("m", 1)
    del driver.topics.counts["foo"]
    send_change(driver, "foo")
    everything = {"foo": range(6), "bar": range(3)}
    assert received_assignment(driver.heartbeat("m", 1, owned=everything)) == {
        "bar": [0, 1, 2]
    }
    driver.settled("m")
    assert driver.group.epoch == driver.member().epoch == 2


@pytest.mark.fact("E15-07", "E6-11b")
def test_a_recreated_topic_is_a_new_topic(driver: GroupDriver) -> None:
    driver.join("m", ["bar"])
    driver.join("n", ["bar"])
    driver.settled("m", "n")
    driver.topics.ids["bar"] = b"bar-again".ljust(16, b"\0")
    send_change(driver, "bar", created=("bar",))
    driver.settled("m", "n")
    assert driver.group.epoch == 3
    for member_id in ("m", "n"):
        assert driver.member(member_id).assigned.keys() == {driver.topics.ids["bar"]}
    members = driver.group.members.values()
    held = [len(each.assigned[driver.topics.ids["bar"]]) for each in members]
    assert sum(held) == 3


@pytest.mark.fact("E6-14", "E15-03d")
def test_changed_racks_of_partitions_bump_the_epoch(driver: GroupDriver) -> None:
    driver.topics.racks["bar"] = [["a"], ["b"], ["c"]]
    driver.join("m", ["bar"])
    driver.heartbeat("m", 1)
    driver.topics.racks["bar"] = [["a"], ["b"], ["b"]]
    send_change(driver, "bar")
    driver.heartbeat("m", 1)
    assert driver.group.epoch == 2


def test_unchanged_topics_bump_no_epoch(driver: GroupDriver) -> None:
    driver.join("m", ["bar"])
    driver.heartbeat("m", 1)
    send_change(driver, "bar")
    assert driver.group.is_refresh_due(driver.now_ms)
    driver.heartbeat("m", 1)
    assert not driver.wrote
    assert not driver.group.is_refresh_due(driver.now_ms)


@pytest.mark.fact("H-24", "E6-18", "E15-06")
def test_topic_changes_while_unloaded_are_detected_after_loading(
    driver: GroupDriver,
) -> None:
    driver.join("m", ["bar"])
    driver.topics.counts["bar"] = 4
    loaded = GroupDriver(shard=driver.reloaded().shard, topics=driver.topics)
    assert loaded.group.epoch == 1
    assert received_assignment(loaded.heartbeat("m", 1)) == {"bar": [0, 1, 2, 3]}
    assert loaded.group.epoch == 2


@pytest.mark.fact("H-25", "E15-05", "E6-32b", "E6-32")
def test_a_refresh_deadline_of_another_epoch_is_ignored(
    driver: GroupDriver,
) -> None:
    driver.join("m", ["bar"])
    driver.heartbeat("m", 1)
    driver.topics.counts["bar"] = 4
    far_ms = driver.now_ms + 3_600_000
    driver.settle(Result(changes=(RefreshSet("g", Refresh(far_ms, 1)),)))
    assert received_assignment(driver.heartbeat("m", 1)) is None
    driver.settle(Result(changes=(RefreshSet("g", Refresh(far_ms, 2)),)))
    assert received_assignment(driver.heartbeat("m", 1)) == {"bar": [0, 1, 2, 3]}
    assert driver.group.epoch == 2


@pytest.mark.fact("H-28", "E15-04", "E6-32a")
def test_only_groups_subscribed_to_changed_topics_are_updated(
    driver: GroupDriver,
) -> None:
    wanted = {"g": ["a"], "h": ["b", "d"], "i": ["c"], "j": ["d"]}
    driver.topics.counts = {"a": 1, "b": 1, "c": 1, "d": 1}
    for group_id, topics in wanted.items():
        driver.join("m", topics, group_id=group_id)
        driver.heartbeat("m", 1, group_id=group_id)
    driver.topics.counts = {"a": 2, "b": 2, "d": 1}
    send_change(driver, "a", "b", "c")
    groups = driver.state.consumer_groups
    due = {name for name in groups if groups[name].is_refresh_due(driver.now_ms)}
    assert due == {"g", "h", "i"}


def test_topic_metadata_is_refreshed_after_five_minutes_at_the_latest(
    driver: GroupDriver,
) -> None:
    driver.join("m", ["bar"])
    driver.heartbeat("m", 1)
    driver.topics.counts["bar"] = 4
    for _ in range(10):
        assert received_assignment(driver.heartbeat("m", 1)) is None
        driver.advance(30_000)
    assert received_assignment(driver.heartbeat("m", 1)) == {"bar": [0, 1, 2, 3]}
