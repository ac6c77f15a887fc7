"""What a coordinator counts, seen through whole steps of a shard."""

from __future__ import annotations

import pytest

from coterie.runtime.metrics import Metrics
from tests.coordinator.classic.members import leave
from tests.coordinator.consumer.faces import classic_group
from tests.coordinator.consumer.groups import GroupDriver, topic_id


class Watched:
    """A group whose every step is measured."""

    def __init__(self) -> None:
        self.driver = GroupDriver()
        self.rebalances: list[float] = []
        self.unowned: list[float] = []
        self.metrics = Metrics(self.rebalances.append, self.unowned.append)
        self.seen = 0

    def look(self) -> None:
        """Have the metrics see the last step."""
        sent, result = self.driver.last_sent, self.driver.results[-1]
        assert len(self.driver.results) == self.seen + 1, "every step is looked at"
        self.seen += 1
        if result.records:
            state = self.driver.state
            self.metrics.saw(state, sent, result, self.driver.now_ms)

    def beat(self, *args: object, **said: object) -> None:
        self.driver.heartbeat(*args, **said)  # type: ignore[arg-type]
        self.look()

    def join(self, member_id: str) -> None:
        self.driver.join(member_id)
        self.look()

    def settle(self, *members: str) -> None:
        """Heartbeats of all, owning what they were told to, until nothing changes."""
        while self.driver.group.state.value != "Stable":
            for member_id in members:
                member = self.driver.member(member_id)
                held = {
                    topic.rstrip(b"\0").decode(): list(partitions)
                    for topic, partitions in member.assigned.items()
                }
                self.beat(member_id, member.epoch, owned=held)


@pytest.fixture
def watched() -> Watched:
    return Watched()


@pytest.mark.fact("E26-02", "E6-31")
def test_a_bump_counts_when_a_heartbeat_makes_it(watched: Watched) -> None:
    watched.join("m")
    watched.join("n")
    assert watched.metrics.consumer_rebalances == 2
    watched.beat("n", -1)
    assert watched.driver.group.epoch == 3
    assert watched.metrics.consumer_rebalances == 2


def test_a_rebalance_lasts_until_everybody_is_there(watched: Watched) -> None:
    watched.join("m")
    assert watched.rebalances == [0.0]
    watched.driver.advance(1_000)
    watched.join("n")
    watched.driver.advance(2_000)
    watched.beat("m", 1)
    assert watched.rebalances == [0.0]
    keeps = {"foo": list(watched.driver.member("m").assigned[b"foo".ljust(16, b"\0")])}
    watched.beat("m", 1, owned=keeps)
    watched.driver.advance(3_000)
    watched.beat("n", 2)
    assert watched.rebalances == [0.0, 5.0]
    assert watched.unowned == [3.0] * 3
    assert watched.metrics.partitions_moved == 3


@pytest.mark.fact("E26-01")
def test_what_a_member_has_when_the_server_starts_has_not_moved() -> None:
    before = Watched()
    before.join("m")
    before.join("n")
    after = Watched()
    after.driver = before.driver
    after.seen = before.seen
    after.beat("m", 1)
    assert not after.unowned
    assert after.metrics.partitions_moved == 0
    assert after.metrics.counters["consumer_group_rebalance"] == 0


def test_offsets_are_counted_by_what_becomes_of_them(watched: Watched) -> None:
    driver = watched.driver
    driver.commit({("foo", 0): 5, ("foo", 1): 6}, generation_id_or_member_epoch=-1)
    watched.look()
    assert watched.metrics.counters["offset_commit"] == 2


def test_partitions_wait_for_the_next_member_of_an_empty_group(
    watched: Watched,
) -> None:
    watched.join("m")
    watched.beat("m", -1)
    watched.driver.advance(7_000)
    watched.join("n")
    assert watched.unowned == [7.0] * 6
    assert watched.metrics.partitions_moved == 6
    assert watched.rebalances == [0.0, 0.0]


def test_a_group_that_is_deleted_is_forgotten(watched: Watched) -> None:
    watched.join("m")
    watched.beat("m", -1)
    watched.driver.delete_group()
    watched.look()
    watched.driver.advance(7_000)
    watched.join("n")
    assert watched.unowned == []
    assert watched.metrics.partitions_moved == 0


def test_what_nobody_shall_have_does_not_wait_for_anybody(watched: Watched) -> None:
    watched.join("m")
    watched.beat("m", 1, subscribed_topic_names=["bar"])
    watched.beat("m", 1, owned={})
    assert set(watched.driver.member("m").assigned) == {topic_id("bar")}
    watched.driver.advance(7_000)
    watched.beat("m", 2, subscribed_topic_names=["foo", "bar"])
    watched.settle("m")
    assert len(watched.driver.member("m").assigned) == 2
    assert watched.unowned == []


@pytest.mark.fact("E6-31")
def test_an_upgrade_and_the_bump_that_follows_count_as_one(watched: Watched) -> None:
    driver = watched.driver
    a, b = classic_group(driver, {"-a": {"foo": [0, 1]}, "-b": {"foo": [2, 3]}})
    watched.seen = len(driver.results)
    driver.advance(1_000)
    watched.join("m")
    assert driver.wrote_types.count("epoch") == 2
    assert watched.metrics.consumer_rebalances == 1
    assert watched.metrics.partitions_moved == 0
    driver.advance(2_000)
    for member_id in (a, b):
        leave(driver, member_id)
        watched.look()
    watched.settle("m")
    assert watched.metrics.consumer_rebalances == 1
    assert watched.rebalances == [2.0]
    assert watched.metrics.partitions_moved == 4


def test_a_rebalance_goes_on_in_a_group_that_was_loaded_again(
    watched: Watched,
) -> None:
    watched.join("m")
    watched.join("n")
    watched.driver.advance(3_000)
    reloaded = watched.driver.reloaded()
    watched.driver = again = GroupDriver(now_ms=reloaded.now_ms)
    again.shard = reloaded.shard
    watched.seen = 0
    watched.settle("m", "n")
    assert watched.rebalances == [0.0, 3.0]
