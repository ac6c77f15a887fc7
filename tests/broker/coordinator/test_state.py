"""The number of groups of a shard."""

from __future__ import annotations

import pytest

from coterie.settings import Settings
from tests.broker.coordinator.classic.members import join_request
from tests.broker.coordinator.consumer.groups import GroupDriver
from tests.broker.coordinator.shard_driver import ShardDriver

POLICY_VIOLATION = 44
ONE_GROUP = Settings(offsets_topic_partition_max_groups=1)
T0 = ("t", 0)


@pytest.fixture
def driver() -> ShardDriver:
    return ShardDriver(settings=ONE_GROUP)


def test_a_commit_creates_no_group_beyond_the_limit(driver: ShardDriver) -> None:
    assert driver.commit({T0: 1}) == {T0: 0}
    assert driver.commit({T0: 1}, group_id="h") == {T0: POLICY_VIOLATION}
    assert driver.txn_commit({T0: 1}, group_id="h") == {T0: POLICY_VIOLATION}
    assert driver.commit({T0: 2}) == {T0: 0}
    assert {*driver.groups} == {"g"}


def test_a_join_creates_no_group_beyond_the_limit(driver: ShardDriver) -> None:
    driver.commit({T0: 1})
    refused = driver.send(join_request(group_id="h"))
    assert refused.error == POLICY_VIOLATION
    assert driver.send(join_request()).error == 79


def test_a_heartbeat_creates_no_group_beyond_the_limit() -> None:
    driver = GroupDriver(settings=ONE_GROUP)
    assert driver.join("m", ["foo"]).error == 0
    assert driver.join("m", ["foo"], group_id="h").error == POLICY_VIOLATION
    assert driver.join("n", ["foo"]).error == 0


def test_a_removed_group_makes_room_for_another(driver: ShardDriver) -> None:
    driver.commit({T0: 1})
    driver.delete_offsets({"t": [0]})
    assert driver.commit({T0: 1}, group_id="h") == {T0: POLICY_VIOLATION}
    driver.sweep()
    assert driver.commit({T0: 1}, group_id="h") == {T0: 0}
