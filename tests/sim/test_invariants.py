"""Tests for `invariants.check`, which reports violated invariants of a shard's
state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from coterie.broker.coordinator.classic.group import ClassicGroup
from coterie.broker.coordinator.consumer.group import ConsumerGroup
from coterie.broker.coordinator.consumer.member import Member
from sim import invariants
from tests.broker.coordinator.consumer.groups import GroupDriver
from tests.broker.coordinator.requests import topic_id

FOO = topic_id("foo")


@pytest.fixture
def driver() -> GroupDriver:
    """Return a group in which static member "m" and dynamic member "n" share foo."""
    driver = GroupDriver()
    driver.join("m", instance_id="i")
    driver.join("n")
    driver.settled("m", "n")
    invariants.check(driver.state)
    return driver


def replace_member(driver: GroupDriver, member_id: str = "m", **changes: Any) -> None:
    """Change a member without updating the group's derived fields."""
    member = driver.member(member_id)
    driver.group.members[member_id] = member._replace(**changes)


def test_two_owners_of_a_partition_are_reported(driver: GroupDriver) -> None:
    replace_member(driver, "m", assigned=driver.member("n").assigned)
    with pytest.raises(AssertionError, match="two owners"):
        invariants.check(driver.state)


def test_a_missing_owner_epoch_is_reported(driver: GroupDriver) -> None:
    driver.group._owner_epochs.clear()
    with pytest.raises(AssertionError):
        invariants.check(driver.state)


def test_an_owner_epoch_without_an_owner_is_reported(driver: GroupDriver) -> None:
    driver.group._owner_epochs[FOO][77] = 1
    with pytest.raises(AssertionError, match="_owner_epochs"):
        invariants.check(driver.state)


def test_a_partition_with_a_later_epoch_than_its_member_is_reported(
    driver: GroupDriver,
) -> None:
    [(_, epochs)] = driver.member("m").assigned.items()
    replace_member(driver, assigned={FOO: dict.fromkeys(epochs, 99)})
    with pytest.raises(AssertionError, match="m has a partition of a later epoch"):
        invariants.check(driver.state)


def test_a_member_ahead_of_the_target_is_reported(driver: GroupDriver) -> None:
    driver.group.put_member(driver.member("m")._replace(epoch=99))
    with pytest.raises(AssertionError, match="m is ahead of the target"):
        invariants.check(driver.state)


def test_a_member_with_the_leave_epoch_is_reported(driver: GroupDriver) -> None:
    driver.group.put_member(Member(member_id="m", epoch=-1))
    with pytest.raises(AssertionError, match="m has left"):
        invariants.check(driver.state)


def test_a_dynamic_member_with_the_static_leave_epoch_is_reported(
    driver: GroupDriver,
) -> None:
    driver.group.put_member(driver.member("n")._replace(epoch=-2))
    with pytest.raises(AssertionError, match="n left temporarily, not static"):
        invariants.check(driver.state)


def test_a_target_without_a_member_is_reported(driver: GroupDriver) -> None:
    driver.group.targets["gone"] = {}
    with pytest.raises(AssertionError, match="a target without a member"):
        invariants.check(driver.state)


@pytest.mark.parametrize(
    "break_it",
    [
        lambda group: group.topic_counts.update(["foo"]),
        lambda group: group.assignor_counts.update(["range"]),
        lambda group: group.regex_counts.update(["f.*"]),
        lambda group: group.static_members.clear(),
        lambda group: setattr(group, "classic_count", 1),
        lambda group: group._reconciled.clear(),
        lambda group: setattr(group, "assignment_epoch", group.epoch + 1),
    ],
)
def test_a_wrong_derived_field_is_reported(
    driver: GroupDriver, break_it: Callable[[ConsumerGroup], None]
) -> None:
    break_it(driver.group)
    with pytest.raises(AssertionError):
        invariants.check(driver.state)


def test_a_group_id_with_two_types_is_reported(driver: GroupDriver) -> None:
    driver.state.classic_groups["g"] = ClassicGroup("g")
    with pytest.raises(AssertionError, match="two types"):
        invariants.check(driver.state)


def test_a_group_under_the_wrong_id_is_reported(driver: GroupDriver) -> None:
    driver.state.consumer_groups["h"] = driver.state.consumer_groups.pop("g")
    with pytest.raises(AssertionError):
        invariants.check(driver.state)


def test_a_topic_index_that_lacks_a_group_is_reported(driver: GroupDriver) -> None:
    driver.state.topic_index.subscribe("g", driver.member("n").topic_names, ())
    with pytest.raises(AssertionError):
        invariants.check(driver.state)
