"""The invariants of consumer groups: each relation that is broken is noticed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from coterie.coordinator import invariants
from coterie.coordinator.classic.group import ClassicGroup
from coterie.coordinator.consumer.group import ConsumerGroup
from coterie.coordinator.consumer.member import Member
from tests.coordinator.consumer.groups import GroupDriver, topic_id

FOO = topic_id("foo")


@pytest.fixture
def driver() -> GroupDriver:
    """Members "m", which is static, and "n" share foo."""
    driver = GroupDriver()
    driver.join("m", instance_id="i")
    driver.join("n")
    driver.settled("m", "n")
    invariants.check(driver.state)
    return driver


def has(driver: GroupDriver, member_id: str = "m", **changes: object) -> None:
    """A member becomes another behind the group's back."""
    member = driver.member(member_id)
    driver.group.members[member_id] = replace(member, **changes)  # type: ignore[arg-type]


def test_a_partition_with_two_owners(driver: GroupDriver) -> None:
    has(driver, "m", assigned=driver.member("n").assigned)
    with pytest.raises(AssertionError, match="two owners"):
        invariants.check(driver.state)


def test_an_owner_that_the_group_has_forgotten(driver: GroupDriver) -> None:
    driver.group._owner_epochs.clear()
    with pytest.raises(AssertionError):
        invariants.check(driver.state)


def test_an_owner_that_is_gone(driver: GroupDriver) -> None:
    driver.group._owner_epochs[FOO][77] = 1
    with pytest.raises(AssertionError, match="_owner_epochs"):
        invariants.check(driver.state)


def test_a_partition_that_was_assigned_in_the_future(driver: GroupDriver) -> None:
    [(_, epochs)] = driver.member("m").assigned.items()
    has(driver, assigned={FOO: dict.fromkeys(epochs, 99)})
    with pytest.raises(AssertionError, match="m got a partition in the future"):
        invariants.check(driver.state)


def test_a_member_ahead_of_the_target(driver: GroupDriver) -> None:
    driver.group.put_member(replace(driver.member("m"), epoch=99))
    with pytest.raises(AssertionError, match="m is ahead of the target"):
        invariants.check(driver.state)


def test_a_member_that_has_left(driver: GroupDriver) -> None:
    driver.group.put_member(Member(member_id="m", epoch=-1))
    with pytest.raises(AssertionError, match="m has left"):
        invariants.check(driver.state)


def test_a_dynamic_member_that_left_for_a_while(driver: GroupDriver) -> None:
    driver.group.put_member(replace(driver.member("n"), epoch=-2))
    with pytest.raises(AssertionError, match="n cannot come back"):
        invariants.check(driver.state)


def test_a_target_of_nobody(driver: GroupDriver) -> None:
    driver.group.targets["gone"] = {}
    with pytest.raises(AssertionError, match="a target is a member's"):
        invariants.check(driver.state)


@pytest.mark.parametrize(
    "break_it",
    [
        lambda group: group.topic_counts.update(["foo"]),
        lambda group: group.assignor_counts.update(["range"]),
        lambda group: group.regex_counts.update(["f.*"]),
        lambda group: group.static_members.clear(),
        lambda group: setattr(group, "classic_count", 1),
        lambda group: group._subscriptions.clear(),
        lambda group: setattr(group, "assignment_epoch", group.epoch + 1),
    ],
)
def test_what_is_derived_and_wrong(
    driver: GroupDriver, break_it: Callable[[ConsumerGroup], None]
) -> None:
    break_it(driver.group)
    with pytest.raises(AssertionError):
        invariants.check(driver.state)


def test_a_group_of_two_types(driver: GroupDriver) -> None:
    driver.state.classic_groups["g"] = ClassicGroup("g")
    with pytest.raises(AssertionError, match="two types"):
        invariants.check(driver.state)


def test_a_group_under_another_name(driver: GroupDriver) -> None:
    driver.state.consumer_groups["h"] = driver.state.consumer_groups.pop("g")
    with pytest.raises(AssertionError):
        invariants.check(driver.state)


def test_topics_that_lead_to_no_group(driver: GroupDriver) -> None:
    driver.state.topic_index.subscribe("g", driver.member("n"), None)
    with pytest.raises(AssertionError):
        invariants.check(driver.state)
