"""Topics come, grow and go: which groups look again, and when their epoch is bumped."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from coterie.coordinator.consumer.changes import RefreshSet
from coterie.coordinator.consumer.group import Refresh
from coterie.coordinator.consumer.topic_news import TopicsChanged
from coterie.coordinator.result import Result
from tests.coordinator.consumer.groups import GroupDriver, told

Change = Callable[[GroupDriver], None]


@pytest.fixture
def driver() -> GroupDriver:
    return GroupDriver()


def hear(driver: GroupDriver, *names: str, created: tuple[str, ...] = ()) -> Result:
    """The catalog's word to the shard."""
    driver.topics.version += 1
    driver.fire(TopicsChanged(names, created))
    return driver.results[-1]


def test_topics_that_are_new_have_changed() -> None:
    with pytest.raises(AssertionError):
        hear(GroupDriver(), "foo", created=("bar",))


@pytest.mark.fact("H-12", "E6-11", "E15-04", "E15-09")
def test_a_topic_that_is_made_later_is_assigned(driver: GroupDriver) -> None:
    assert told(driver.join("m", ["new"])) == {}
    assert driver.group.epoch == 1
    driver.heartbeat("m", 1)
    driver.topics.counts["new"] = 4
    assert told(driver.heartbeat("m", 1)) is None
    hear(driver, "new", created=("new",))
    assert not driver.wrote
    sent = driver.heartbeat("m", 1)
    assert told(sent) == {"new": [0, 1, 2, 3]}
    assert sent.response.member_epoch == 2
    assert driver.wrote_types == ["epoch", "target", "target-epoch", "current"]
    left = driver.heartbeat("m", -1)
    assert (left.error, left.response.member_epoch) == (0, -1)


@pytest.mark.fact("E6-10", "E22-24", "E6-32", "E6-30")
def test_added_partitions_are_assigned_and_the_epoch_is_bumped_once(
    driver: GroupDriver,
) -> None:
    driver.join("m", ["bar"])
    driver.heartbeat("m", 1)
    driver.topics.counts["bar"] = 5
    hear(driver, "bar")
    assert told(driver.heartbeat("m", 1)) == {"bar": [0, 1, 2, 3, 4]}
    assert driver.group.epoch == 2
    assert told(driver.heartbeat("m", 2)) is None
    assert not driver.wrote
    assert driver.group.epoch == 2


@pytest.mark.fact("E15-08")
def test_a_topic_that_shrinks_has_changed(driver: GroupDriver) -> None:
    driver.join("m", ["bar"])
    driver.topics.counts["bar"] = 2
    hear(driver, "bar")
    driver.settled("m")
    assert driver.group.epoch == 2
    (held,) = driver.member().assigned.values()
    assert sorted(held) == [0, 1]


@pytest.mark.fact("E6-11", "E15-09")
def test_a_deleted_topic_is_taken_from_its_members(driver: GroupDriver) -> None:
    driver.join("m", ["foo", "bar"])
    driver.heartbeat("m", 1)
    del driver.topics.counts["foo"]
    hear(driver, "foo")
    everything = {"foo": range(6), "bar": range(3)}
    assert told(driver.heartbeat("m", 1, owned=everything)) == {"bar": [0, 1, 2]}
    driver.settled("m")
    assert driver.group.epoch == driver.member().epoch == 2


@pytest.mark.fact("E15-07", "E6-11")
def test_a_topic_made_anew_is_another_topic(driver: GroupDriver) -> None:
    driver.join("m", ["bar"])
    driver.join("n", ["bar"])
    driver.settled("m", "n")
    driver.topics.ids["bar"] = b"bar-again".ljust(16, b"\0")
    hear(driver, "bar", created=("bar",))
    driver.settled("m", "n")
    assert driver.group.epoch == 3
    for member_id in ("m", "n"):
        assert driver.member(member_id).assigned.keys() == {driver.topics.ids["bar"]}
    members = driver.group.members.values()
    held = [len(each.assigned[driver.topics.ids["bar"]]) for each in members]
    assert sum(held) == 3


@pytest.mark.fact("E6-14", "E15-03")
def test_partitions_in_other_racks_are_a_change(driver: GroupDriver) -> None:
    driver.topics.racks["bar"] = [["a"], ["b"], ["c"]]
    driver.join("m", ["bar"])
    driver.heartbeat("m", 1)
    driver.topics.racks["bar"] = [["a"], ["b"], ["b"]]
    hear(driver, "bar")
    driver.heartbeat("m", 1)
    assert driver.group.epoch == 2


def test_the_same_topics_again_bump_nothing(driver: GroupDriver) -> None:
    driver.join("m", ["bar"])
    driver.heartbeat("m", 1)
    hear(driver, "bar")
    assert driver.group.is_refresh_due(driver.now_ms)
    driver.heartbeat("m", 1)
    assert not driver.wrote
    assert not driver.group.is_refresh_due(driver.now_ms)


@pytest.mark.fact("H-24", "E6-18", "E15-06")
def test_what_changed_while_nobody_looked_is_seen_after_loading(
    driver: GroupDriver,
) -> None:
    driver.join("m", ["bar"])
    driver.topics.counts["bar"] = 4
    loaded = GroupDriver(shard=driver.reloaded().shard, topics=driver.topics)
    assert loaded.group.epoch == 1
    assert told(loaded.heartbeat("m", 1)) == {"bar": [0, 1, 2, 3]}
    assert loaded.group.epoch == 2


@pytest.mark.fact("H-25", "E15-05", "E6-32")
def test_a_deadline_of_an_epoch_that_was_lost_counts_for_nothing(
    driver: GroupDriver,
) -> None:
    driver.join("m", ["bar"])
    driver.heartbeat("m", 1)
    driver.topics.counts["bar"] = 4
    far_ms = driver.now_ms + 3_600_000
    driver.settle(Result(changes=(RefreshSet("g", Refresh(far_ms, 1)),)))
    assert told(driver.heartbeat("m", 1)) is None
    driver.settle(Result(changes=(RefreshSet("g", Refresh(far_ms, 2)),)))
    assert told(driver.heartbeat("m", 1)) == {"bar": [0, 1, 2, 3]}
    assert driver.group.epoch == 2


@pytest.mark.fact("H-26", "E15-04")
def test_the_way_from_topics_to_groups_follows_the_members(driver: GroupDriver) -> None:
    index = driver.state.topic_index
    driver.join("m", ["foo", "bar"])
    driver.join("n", ["bar"])
    driver.join("o", ["bar"], group_id="h")
    assert set(index.groups("foo")) == {"g"}
    assert set(index.groups("bar")) == {"g", "h"}
    driver.heartbeat("m", 1, subscribed_topic_names=["foo"])
    assert set(index.groups("bar")) == {"g", "h"}
    driver.heartbeat("n", -1)
    assert set(index.groups("bar")) == {"h"}
    driver.heartbeat("o", -1, group_id="h")
    driver.heartbeat("m", -1)
    assert not index
    assert not index.groups("foo")


@pytest.mark.fact("H-27")
def test_news_of_nothing_are_nothing(driver: GroupDriver) -> None:
    driver.join("m", ["foo"])
    assert hear(driver) == Result()
    assert hear(driver, "elsewhere", created=("elsewhere",)) == Result()


@pytest.mark.fact("H-28", "E15-04")
def test_only_the_groups_of_the_topics_look_again(driver: GroupDriver) -> None:
    wanted = {"g": ["a"], "h": ["b", "d"], "i": ["c"], "j": ["d"]}
    driver.topics.counts = {"a": 1, "b": 1, "c": 1, "d": 1}
    for group_id, topics in wanted.items():
        driver.join("m", topics, group_id=group_id)
        driver.heartbeat("m", 1, group_id=group_id)
    driver.topics.counts = {"a": 2, "b": 2, "d": 1}
    hear(driver, "a", "b", "c")
    groups = driver.state.consumer_groups
    due = {name for name in groups if groups[name].is_refresh_due(driver.now_ms)}
    assert due == {"g", "h", "i"}


@pytest.mark.fact("E6-32")
def test_topics_are_looked_at_again_after_five_minutes_at_the_latest(
    driver: GroupDriver,
) -> None:
    driver.join("m", ["bar"])
    driver.heartbeat("m", 1)
    driver.topics.counts["bar"] = 4
    for _ in range(10):
        assert told(driver.heartbeat("m", 1)) is None
        driver.advance(30_000)
    assert told(driver.heartbeat("m", 1)) == {"bar": [0, 1, 2, 3]}
