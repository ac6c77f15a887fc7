"""ListGroups: the groups of a shard, filtered by state and type."""

from __future__ import annotations

import pytest

from coterie.settings import Settings
from coterie.wire import messages as m
from coterie.wire.codec import decode, encode
from coterie.wire.error_codes import ErrorCode
from tests.broker.coordinator.classic.members import join, stable_group
from tests.broker.coordinator.consumer.groups import GroupDriver
from tests.broker.coordinator.shard_driver import ShardDriver


@pytest.fixture
def driver() -> ShardDriver:
    """A shard with a simple group, "simple", and a stable classic group, "g"."""
    driver = ShardDriver()
    driver.commit({("t", 0): 1}, group_id="simple")
    stable_group(driver, 1)
    return driver


def listed(driver: ShardDriver, *states: str, types: tuple[str, ...] = ()) -> set[str]:
    request = m.ListGroupsRequest(states_filter=[*states], types_filter=[*types])
    return {group.group_id for group in driver.send(request).response.groups}


@pytest.mark.parametrize(
    ("version", "state", "kind"),
    [(0, "", ""), (3, "", ""), (4, "Stable", ""), (5, "Stable", "classic")],
)
def test_listed_states_and_types_depend_on_the_version(
    driver: ShardDriver, version: int, state: str, kind: str
) -> None:
    response = driver.send(m.ListGroupsRequest(), version=version).response
    decoded, _ = decode(m.ListGroupsResponse, version, encode(response, version))
    assert (decoded.groups[1].group_state, decoded.groups[1].group_type) == (
        state,
        kind,
    )


@pytest.mark.fact("E28-03", "E28-04")
def test_groups_are_filtered_by_state(driver: ShardDriver) -> None:
    assert listed(driver, "Stable") == {"g"}
    assert listed(driver, "Stable", "Empty") == {"g", "simple"}
    assert listed(driver, "Dead") == set()


@pytest.mark.fact("E28-02", "E28-04")
def test_groups_are_filtered_by_type(driver: ShardDriver) -> None:
    assert listed(driver, types=("consumer",)) == set()
    assert listed(driver, types=("share", "streams")) == set()
    assert listed(driver, types=("consumer", "classic")) == {"g", "simple"}


@pytest.mark.fact("E28-04")
def test_both_filters_must_match(driver: ShardDriver) -> None:
    assert listed(driver, "Stable", types=("classic",)) == {"g"}
    assert listed(driver, "Stable", types=("consumer",)) == set()


def test_a_rebalancing_group_is_listed_in_its_phase(driver: ShardDriver) -> None:
    join(driver)
    assert listed(driver, "PreparingRebalance") == {"g"}


def test_an_error_response_lists_no_groups(driver: ShardDriver) -> None:
    code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    refusal = driver.shard.refuse(
        m.ListGroupsRequest(), driver._context(1, 0, "", ""), code
    )
    assert refusal == m.ListGroupsResponse(error_code=14)


def about(driver: GroupDriver, version: int = 5, **filters: list[str]) -> set[str]:
    """Return id, type, protocol type and state of each group in this version."""
    sent = driver.send(m.ListGroupsRequest(**filters), version=version)
    response, _ = decode(m.ListGroupsResponse, version, encode(sent.response, version))
    return {
        f"{group.group_id} {group.group_type} {group.protocol_type} {group.group_state}"
        for group in response.groups
    }


def test_a_group_without_a_current_target_is_assigning() -> None:
    driver = GroupDriver(settings=Settings())
    driver.join("m")
    driver.join("n")
    assert driver.group.epoch > driver.group.assignment_epoch
    assert about(driver) == {"g consumer consumer Assigning"}


@pytest.mark.fact("H-116c", "H-116d", "H-116e")
@pytest.mark.parametrize(
    ("version", "message"),
    [(3, "g  consumer "), (4, "g  consumer Stable"), (5, "g consumer consumer Stable")],
)
def test_old_versions_list_a_consumer_group_by_its_protocol_type(
    version: int, message: str
) -> None:
    driver = GroupDriver()
    driver.join("m")
    assert about(driver, version) == {message}


@pytest.mark.fact("E28-02", "E28-03", "E28-04", "H-115b")
def test_groups_of_both_types_are_filtered() -> None:
    driver = GroupDriver()
    driver.join("m")
    driver.commit({("foo", 0): 1}, group_id="simple")
    consumer, simple = "g consumer consumer Stable", "simple classic  Empty"
    assert about(driver) == {consumer, simple}
    assert about(driver, types_filter=["CONSUMER"]) == {consumer}
    assert about(driver, types_filter=["Classic"]) == {simple}
    assert about(driver, types_filter=["share"]) == set()
    assert about(driver, states_filter=["stable", "EMPTY"]) == {consumer, simple}
    assert about(driver, states_filter=["empty"], types_filter=["consumer"]) == set()
