"""Metrics of the coordinator, counted once per request to a shard."""

from __future__ import annotations

import pytest

from coterie.broker.runtime.metrics import Metrics
from tests.broker.coordinator.classic.members import leave
from tests.broker.coordinator.consumer.classic_requests import classic_group
from tests.broker.coordinator.consumer.groups import GroupDriver
from tests.broker.coordinator.requests import topic_id


class Watched:
    """A group whose requests are counted in metrics."""

    def __init__(self) -> None:
        self.driver = GroupDriver()
        self.rebalances: list[float] = []
        self.unowned: list[float] = []
        self.metrics = Metrics(self.rebalances.append, self.unowned.append)
        self.counted = 0

    def count_result(self) -> None:
        """Count the result of the last request in the metrics."""
        sent, result = self.driver.last_sent, self.driver.results[-1]
        assert len(self.driver.results) == self.counted + 1, "every step is counted"
        self.counted += 1
        if result.records:
            state = self.driver.state
            self.metrics.count(state, sent, result, self.driver.now_ms)

    def heartbeat(self, *args: object, **fields: object) -> None:
        self.driver.heartbeat(*args, **fields)  # type: ignore[arg-type]
        self.count_result()

    def join(self, member_id: str) -> None:
        self.driver.join(member_id)
        self.count_result()

    def settle(self, *members: str) -> None:
        """Send heartbeats of all members until nothing changes."""
        while self.driver.group.state.value != "Stable":
            for member_id in members:
                member = self.driver.member(member_id)
                held = {
                    topic.rstrip(b"\0").decode(): list(partitions)
                    for topic, partitions in member.assigned.items()
                }
                self.heartbeat(member_id, member.epoch, owned=held)


@pytest.fixture
def watched() -> Watched:
    return Watched()


@pytest.mark.fact("E6-31", "E6-31a")
def test_an_epoch_bump_by_a_heartbeat_is_counted(watched: Watched) -> None:
    watched.join("m")
    watched.join("n")
    assert watched.metrics.consumer_rebalances == 2
    watched.heartbeat("n", -1)
    assert watched.driver.group.epoch == 3
    assert watched.metrics.consumer_rebalances == 2


def test_a_rebalance_lasts_until_all_members_are_stable(watched: Watched) -> None:
    watched.join("m")
    assert watched.rebalances == [0.0]
    watched.driver.advance(1_000)
    watched.join("n")
    watched.driver.advance(2_000)
    watched.heartbeat("m", 1)
    assert watched.rebalances == [0.0]
    keeps = {"foo": list(watched.driver.member("m").assigned[b"foo".ljust(16, b"\0")])}
    watched.heartbeat("m", 1, owned=keeps)
    watched.driver.advance(3_000)
    watched.heartbeat("n", 2)
    assert watched.rebalances == [0.0, 5.0]
    assert watched.unowned == [3.0] * 3
    assert watched.metrics.partitions_moved == 3


@pytest.mark.fact("E26-01a")
def test_partitions_assigned_before_the_start_do_not_count_as_moved() -> None:
    before = Watched()
    before.join("m")
    before.join("n")
    after = Watched()
    after.driver = before.driver
    after.counted = before.counted
    after.heartbeat("m", 1)
    assert not after.unowned
    assert after.metrics.partitions_moved == 0
    assert after.metrics.counters["consumer_group_rebalance"] == 0


def test_commits_deletions_and_expirations_of_offsets_are_counted(
    watched: Watched,
) -> None:
    driver = watched.driver
    driver.commit({("foo", 0): 5, ("foo", 1): 6}, generation_id_or_member_epoch=-1)
    watched.count_result()
    assert watched.metrics.counters["offset_commit"] == 2


def test_partitions_of_an_empty_group_stay_unowned_until_a_member_joins(
    watched: Watched,
) -> None:
    watched.join("m")
    watched.heartbeat("m", -1)
    watched.driver.advance(7_000)
    watched.join("n")
    assert watched.unowned == [7.0] * 6
    assert watched.metrics.partitions_moved == 6
    assert watched.rebalances == [0.0, 0.0]


def test_a_deleted_group_leaves_no_metrics_state(watched: Watched) -> None:
    watched.join("m")
    watched.heartbeat("m", -1)
    watched.driver.delete_group()
    watched.count_result()
    watched.driver.advance(7_000)
    watched.join("n")
    assert watched.unowned == []
    assert watched.metrics.partitions_moved == 0


def test_a_partition_with_no_member_in_the_target_is_not_counted_as_unowned(
    watched: Watched,
) -> None:
    watched.join("m")
    watched.heartbeat("m", 1, subscribed_topic_names=["bar"])
    watched.heartbeat("m", 1, owned={})
    assert set(watched.driver.member("m").assigned) == {topic_id("bar")}
    watched.driver.advance(7_000)
    watched.heartbeat("m", 2, subscribed_topic_names=["foo", "bar"])
    watched.settle("m")
    assert len(watched.driver.member("m").assigned) == 2
    assert watched.unowned == []


@pytest.mark.fact("E6-31")
def test_an_upgrade_and_its_epoch_bump_count_once(watched: Watched) -> None:
    driver = watched.driver
    a, b = classic_group(driver, {"-a": {"foo": [0, 1]}, "-b": {"foo": [2, 3]}})
    watched.counted = len(driver.results)
    driver.advance(1_000)
    watched.join("m")
    assert driver.wrote_types.count("epoch") == 2
    assert watched.metrics.consumer_rebalances == 1
    assert watched.metrics.partitions_moved == 0
    driver.advance(2_000)
    for member_id in (a, b):
        leave(driver, member_id)
        watched.count_result()
    watched.settle("m")
    assert watched.metrics.consumer_rebalances == 1
    assert watched.rebalances == [2.0]
    assert watched.metrics.partitions_moved == 4


def test_a_rebalance_continues_in_a_reloaded_group(
    watched: Watched,
) -> None:
    watched.join("m")
    watched.join("n")
    watched.driver.advance(3_000)
    reloaded = watched.driver.reloaded()
    watched.driver = again = GroupDriver(now_ms=reloaded.now_ms)
    again.shard = reloaded.shard
    watched.counted = 0
    watched.settle("m", "n")
    assert watched.rebalances == [0.0, 3.0]
