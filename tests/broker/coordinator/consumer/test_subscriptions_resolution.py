"""Resolution of subscriptions by regular expression: its schedule, the records that it
writes and the groups that it changes.
"""

from __future__ import annotations

from typing import Any

import pytest

from coterie.broker.coordinator.consumer.subscriptions import TopicsChanged
from tests.broker.coordinator.consumer.groups import (
    AT_ONCE,
    GroupDriver,
    received_assignment,
)
from tests.broker.coordinator.driver import Sent

TEN_S = 10_000
REFRESH_MS = AT_ONCE.group_consumer_regex_refresh_interval_ms


@pytest.fixture
def driver() -> GroupDriver:
    driver = GroupDriver()
    driver.topics.counts = {"foo-1": 1, "foo-2": 2, "bar": 3}
    driver.topics.version = 40
    return driver


def join(driver: GroupDriver, regex: str | None, who: str = "m", **fields: Any) -> Sent:
    return driver.join(who, **{"topics": [], "subscribed_topic_regex": regex, **fields})


def resolve(driver: GroupDriver, after_ms: int = 0) -> list[str]:
    """Run the scheduled resolution; return the records it wrote."""
    before = len(driver.results)
    driver.advance(after_ms)
    return [
        type(record.key).__name__.removeprefix("ConsumerGroup").removesuffix("Key")
        + ("" if record.value else " gone")
        for result in driver.results[before:]
        for record in result.records
    ]


def topics_of(driver: GroupDriver) -> dict[str, list[str]]:
    return {regex: [*found.topics] for regex, found in driver.group.regexes.items()}


def made(driver: GroupDriver, name: str) -> None:
    """Create a topic of one partition and broadcast it to the shard."""
    driver.topics.counts[name] = 1
    driver.topics.version += 1
    driver.fire(TopicsChanged((name,), (name,)))


@pytest.mark.fact("E14-05", "H-02", "E6-12", "E6-06a", "E14-05a", "E14-05b")
def test_a_join_completes_before_its_expression_is_resolved(
    driver: GroupDriver,
) -> None:
    sent = join(driver, "foo-.*")
    assert received_assignment(sent) == {}
    assert (sent.response.member_epoch, driver.group.regexes) == (1, {})
    assert resolve(driver) == ["RegularExpression", "Metadata"]
    assert driver.group.epoch == 2
    assert received_assignment(driver.heartbeat("m", 1)) == {
        "foo-1": [0],
        "foo-2": [0, 1],
    }
    assert driver.member().epoch == 2


@pytest.mark.fact("E14-07")
def test_all_expressions_are_resolved_in_one_run(driver: GroupDriver) -> None:
    join(driver, "foo-.*", "m")
    join(driver, "b.*", "n")
    join(driver, "none", "o")
    words = ["RegularExpression"] * 3 + ["Metadata"]
    assert resolve(driver) == words
    assert topics_of(driver) == {
        "b.*": ["bar"],
        "foo-.*": ["foo-1", "foo-2"],
        "none": [],
    }
    about = {found[1:] for found in driver.group.regexes.values()}
    assert about == {(40, driver.now_ms)}


@pytest.mark.fact("E14-10", "E14-10a")
def test_a_shared_regular_expression_is_removed_with_its_last_member(
    driver: GroupDriver,
) -> None:
    join(driver, "foo-.*", "m")
    resolve(driver)
    driver.heartbeat("m", 1)
    assert not resolve(driver, TEN_S)
    sent = join(driver, "foo-.*", "n")
    assert driver.group.epoch == 3
    assert sent.response.member_epoch == 3
    assert not resolve(driver, TEN_S)
    driver.heartbeat("n", -1)
    assert "-regex" not in driver.wrote_types
    driver.heartbeat("m", -1)
    words = ["-current", "-target", "-member", "-regex", "epoch", "target-epoch"]
    assert driver.wrote_types == words
    assert not driver.group.regexes
    assert not driver.state.topic_index


@pytest.mark.fact("E14-12", "E6-06b", "E14-10a")
def test_an_empty_expression_removes_the_subscription(driver: GroupDriver) -> None:
    join(driver, "foo-.*", topics=["bar"])
    resolve(driver)
    driver.heartbeat("m", 1)
    owned = {"bar": [0, 1, 2], "foo-1": [0], "foo-2": [0, 1]}
    sent = driver.heartbeat("m", 2, owned=owned, subscribed_topic_regex="")
    assert received_assignment(sent) == {"bar": [0, 1, 2]}
    assert driver.wrote_types[:3] == ["member", "-regex", "epoch"]
    assert driver.member().topic_regex is None
    driver.heartbeat("m", 2, owned={"bar": [0, 1, 2]})
    assert not resolve(driver, TEN_S)
    driver.heartbeat("m", 3, subscribed_topic_regex="")
    assert not driver.wrote


@pytest.mark.fact("E6-06a", "E14-05b")
def test_a_changed_expression_revokes_all_topics_and_then_resolves(
    driver: GroupDriver,
) -> None:
    join(driver, "foo-1")
    resolve(driver)
    driver.heartbeat("m", 1)
    sent = driver.heartbeat("m", 2, subscribed_topic_regex="foo-.*")
    assert received_assignment(sent) == {}
    assert driver.wrote_types == ["member", "-regex", "current"]
    assert driver.group.epoch == 2
    driver.heartbeat("m", 2, owned={})
    assert resolve(driver) == ["RegularExpression", "Metadata"]
    assert received_assignment(driver.heartbeat("m", 2)) == {
        "foo-1": [0],
        "foo-2": [0, 1],
    }
    assert driver.group.epoch == 3


def test_an_expression_without_matches_removes_the_assigned_topics(
    driver: GroupDriver,
) -> None:
    join(driver, "foo-1")
    resolve(driver)
    driver.heartbeat("m", 1)
    sent = driver.heartbeat("m", 2, subscribed_topic_regex="nothing")
    assert received_assignment(sent) == {}
    driver.heartbeat("m", 2, owned={})
    assert resolve(driver) == ["RegularExpression", "Metadata"]
    assert (driver.group.epoch, driver.group.metadata_hash) == (3, 0)


@pytest.mark.fact("E6-06a")
def test_another_expression_without_matches_bumps_no_epoch(
    driver: GroupDriver,
) -> None:
    join(driver, "nothing")
    resolve(driver)
    driver.heartbeat("m", 1, subscribed_topic_regex="nothing at all")
    assert resolve(driver) == []
    driver.heartbeat("m", 1)
    assert resolve(driver) == ["RegularExpression"]
    assert topics_of(driver) == {"nothing at all": []}
    assert driver.group.epoch == 1


@pytest.mark.fact("E6-06a")
def test_matching_a_topic_that_another_member_subscribes_to_bumps_the_epoch(
    driver: GroupDriver,
) -> None:
    driver.join("n", ["bar"])
    join(driver, "b.*")
    epoch = driver.group.epoch
    resolve(driver)
    assert driver.group.epoch == epoch + 1
    driver.settled("m", "n")
    assert all(member.assigned for member in driver.group.members.values())


@pytest.mark.fact("E14-08", "E14-09")
def test_only_topics_that_the_member_may_describe_match(driver: GroupDriver) -> None:
    driver.topics.counts["__internal"] = 5
    driver.may_describe = lambda name: name != "foo-1"
    join(driver, ".*")
    driver.may_describe = lambda name: True
    resolve(driver)
    assert topics_of(driver) == {".*": ["__internal", "bar", "foo-2"]}


@pytest.mark.fact("E14-06")
def test_a_heartbeat_of_any_member_resolves_a_replaced_expression(
    driver: GroupDriver,
) -> None:
    join(driver, "foo-1")
    resolve(driver)
    driver.join("n", ["bar"])
    driver.heartbeat("m", 1, subscribed_topic_regex="foo-2")
    assert not resolve(driver)
    assert driver.group.has_unresolved
    driver.heartbeat("n", 3)
    assert resolve(driver) == ["RegularExpression", "Metadata"]
    assert topics_of(driver) == {"foo-2": ["foo-2"]}


def test_members_lose_the_only_topic_of_an_expression(driver: GroupDriver) -> None:
    join(driver, "foo-2", "m")
    join(driver, "foo-2", "n")
    resolve(driver)
    driver.settled("m", "n")
    epoch = driver.group.epoch
    assert all(member.assigned for member in driver.group.members.values())
    driver.advance(TEN_S)
    del driver.topics.counts["foo-2"]  # without notifying the shard
    made(driver, "elsewhere")
    driver.heartbeat("m", epoch)
    assert resolve(driver) == ["RegularExpression", "Metadata"]
    assert topics_of(driver) == {"foo-2": []}
    assert driver.group.epoch == epoch + 1
    driver.settled("m", "n")
    assert not any(member.assigned for member in driver.group.members.values())


def test_a_member_loses_the_only_topic_that_it_may_describe(
    driver: GroupDriver,
) -> None:
    """Keep the topics of the group: another member subscribes by name."""
    driver.join("n", ["foo-2"])
    join(driver, "foo-2", "m")
    resolve(driver)
    driver.settled("m", "n")
    epoch = driver.group.epoch
    assert driver.member("m").assigned
    driver.advance(TEN_S)
    driver.may_describe = lambda name: name != "foo-2"
    made(driver, "elsewhere")
    driver.heartbeat("m", epoch)
    assert resolve(driver) == ["RegularExpression", "Metadata"]
    assert topics_of(driver) == {"foo-2": []}
    assert driver.group.epoch == epoch + 1
    driver.settled("m", "n")
    assert not driver.member("m").assigned
    assert sum(map(len, driver.member("n").assigned.values())) == 2


@pytest.mark.fact("E14-06c", "E14-06d")
def test_resolutions_do_not_overlap_and_are_ten_seconds_apart(
    driver: GroupDriver,
) -> None:
    join(driver, "foo-.*", "m")
    resolve(driver)
    driver.advance(1_000)
    join(driver, "b.*", "n")
    assert ("regex", "g") not in driver.timers
    driver.advance(TEN_S - 1_001)
    driver.heartbeat("n", driver.member("n").epoch)
    assert ("regex", "g") not in driver.timers
    driver.advance(1)
    driver.heartbeat("m", driver.member("m").epoch)
    timer = driver.timers["regex", "g"]
    driver.heartbeat("n", driver.member("n").epoch)
    assert driver.timers["regex", "g"] is timer
    driver.advance(0)
    assert topics_of(driver).keys() == {"foo-.*", "b.*"}


@pytest.mark.fact("E14-06b")
def test_expressions_are_resolved_again_after_the_refresh_interval(
    driver: GroupDriver,
) -> None:
    join(driver, "foo-.*")
    resolve(driver)
    driver.heartbeat("m", 1)
    driver.topics.counts["foo-3"] = 1  # without notifying the shard
    left_ms = REFRESH_MS
    while left_ms > 40_000:
        driver.heartbeat("m", 2)
        assert not resolve(driver, 40_000)
        left_ms -= 40_000
    driver.heartbeat("m", 2)
    assert not resolve(driver, left_ms)
    driver.heartbeat("m", 2)
    assert resolve(driver) == ["RegularExpression", "Metadata"]


@pytest.mark.fact("E14-11", "E6-12")
def test_regular_expressions_are_resolved_again_after_loading(
    driver: GroupDriver,
) -> None:
    join(driver, "foo-.*")
    resolve(driver)
    driver.heartbeat("m", 1)
    driver.topics.counts["foo-3"] = 1
    loaded = GroupDriver(shard=driver.reloaded().shard, topics=driver.topics)
    assert topics_of(loaded) == {"foo-.*": ["foo-1", "foo-2"]}
    loaded.heartbeat("m", 2)
    assert resolve(loaded) == ["RegularExpression", "Metadata"]
    assert topics_of(loaded) == {"foo-.*": ["foo-1", "foo-2", "foo-3"]}


def test_a_resolution_whose_write_failed_is_retried(driver: GroupDriver) -> None:
    join(driver, "foo-.*")
    driver.heartbeat("m", 1)
    assert driver.timers.pop(("regex", "g")), "it comes to nothing"
    driver.advance(TEN_S - 1)
    driver.heartbeat("m", 1)
    assert ("regex", "g") not in driver.timers
    driver.advance(1)
    driver.heartbeat("m", 1)
    assert resolve(driver) == ["RegularExpression", "Metadata"]


def test_a_resolution_without_expressions_does_nothing(driver: GroupDriver) -> None:
    join(driver, "foo-.*")
    driver.heartbeat("m", -1)
    assert not resolve(driver)
    assert not driver.group.regexes
    driver.delete_group()
    join(driver, "foo-.*")
    driver.heartbeat("m", -1)
    driver.delete_group()
    assert not resolve(driver)
    assert not driver.state.consumer_groups
