"""DescribeGroups for one group, in each state and version."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from coterie.broker.coordinator.admin import DescribeGroup
from coterie.wire import messages as m
from coterie.wire.codec import decode, encode
from coterie.wire.error_codes import ErrorCode
from tests.broker.coordinator.classic.members import (
    join,
    joining_group,
    leave,
    protocols,
    stable_group,
    subscription,
)
from tests.broker.coordinator.consumer.groups import GroupDriver
from tests.broker.coordinator.shard_driver import ShardDriver
from tests.wire.judges import KafkaPythonJudge


@pytest.fixture
def driver() -> ShardDriver:
    return ShardDriver()


def on_the_wire(group: m.DescribedGroup, version: int) -> m.DescribedGroup:
    """Return the group's description as a client of that version decodes it."""
    data = encode(m.DescribeGroupsResponse(groups=[group]), version)
    response, _ = decode(m.DescribeGroupsResponse, version, data)
    return response.groups[0]


def state_of(driver: ShardDriver) -> str:
    state: str = driver.describe().group_state
    return state


@pytest.mark.fact("C-20a", "C-20c", "C-20d")
def test_the_states_have_kafkas_names(driver: ShardDriver) -> None:
    assert state_of(driver) == "Dead"
    driver.commit({("t", 0): 1})
    assert state_of(driver) == "Empty"
    [member_id] = joining_group(driver, 1)
    assert state_of(driver) == "CompletingRebalance"
    leave(driver, member_id)
    assert state_of(driver) == "Empty"
    stable_group(driver, 1)
    assert state_of(driver) == "Stable"
    join(driver)
    assert state_of(driver) == "PreparingRebalance"


@pytest.mark.fact("C-21b")
def test_version_6_returns_group_id_not_found_for_a_missing_group(
    driver: ShardDriver,
) -> None:
    group = on_the_wire(driver.describe("gone", 6), 6)
    assert (group.group_id, group.error_code) == ("gone", 69)
    assert group.error_message == "Group gone not found."
    assert (group.group_state, group.members) == ("Dead", [])


@pytest.mark.fact("H-118a", "C-23a", "C-23b", "C-23c", "C-24")
@pytest.mark.parametrize("version", range(7))
def test_a_stable_group_is_described_with_metadata_and_assignments(
    driver: ShardDriver, version: int
) -> None:
    first, second = stable_group(driver, 2)
    group = on_the_wire(driver.describe("g", version), version)
    assert (group.error_code, group.error_message) == (0, None)
    assert (group.protocol_type, group.protocol_data) == ("consumer", "range")
    assert [member.member_id for member in group.members] == [first, second]
    assert [member.member_metadata for member in group.members] == [
        subscription("t"),
        subscription("t"),
    ]
    assert [member.member_assignment for member in group.members] == [
        first.upper().encode(),
        second.upper().encode(),
    ]
    assert {(each.client_id, each.client_host) for each in group.members} == {
        ("client", "/127.0.0.1")
    }


def members_without_bytes(group: Any) -> int:
    """Assert that no member has metadata or an assignment; return the member count."""
    for member in group.members:
        assert (member.member_metadata, member.member_assignment) == (b"", b"")
        assert member.client_id == "client"
    return len(group.members)


@pytest.mark.fact("C-23a", "C-23b", "C-23c")
def test_during_a_rebalance_members_have_their_last_assignment_and_no_metadata(
    driver: ShardDriver,
) -> None:
    first, second = stable_group(driver, 2)
    assignments = [first.upper().encode(), second.upper().encode()]
    joining = join(driver)
    group = driver.describe()
    assert group.group_state == "PreparingRebalance"
    assert [each.member_assignment for each in group.members] == [*assignments, b""]
    join(driver, first)
    join(driver, second)
    assert joining.error == 0
    group = driver.describe()
    assert group.group_state == "CompletingRebalance"
    assert [each.member_assignment for each in group.members] == [*assignments, b""]
    assert [each.member_metadata for each in group.members] == [b""] * 3
    assert group.protocol_data == ""


@pytest.mark.fact("C-23c")
def test_a_rebalance_that_is_abandoned_discards_the_assignments(
    driver: ShardDriver,
) -> None:
    (member_id,) = stable_group(driver, 1)
    join(driver, member_id)
    join(driver, member_id, protocols=protocols(range=b"other"))
    join(driver)
    assert members_without_bytes(driver.describe()) == 2


@pytest.mark.parametrize(("version", "shown"), [(3, None), (4, "i0")])
def test_instance_ids_are_described_from_version_4(
    driver: ShardDriver, version: int, shown: str | None
) -> None:
    stable_group(driver, 1, static=True)
    [member] = on_the_wire(driver.describe("g", version), version).members
    assert member.group_instance_id == shown


@pytest.mark.fact("C-02", "C-05")
@pytest.mark.parametrize(
    ("version", "is_described"), [(4, False), (5, True), (6, True)]
)
def test_generation_and_leader_are_described(
    driver: ShardDriver, version: int, is_described: bool
) -> None:
    leader, _ = stable_group(driver, 2)
    group = on_the_wire(driver.describe("g", version), version)
    generation = driver.groups["g"].generation
    assert generation > 0
    described = (group.generation_id, group.leader_id)
    assert described == ((generation, leader) if is_described else (-1, None))


@pytest.mark.fact("C-03", "C-05", "C-06")
@pytest.mark.parametrize("form", [joining_group, stable_group])
def test_topics_and_assignors_of_members_are_described_in_every_state(
    driver: ShardDriver, form: Callable[..., list[str]]
) -> None:
    offered = protocols(sticky=subscription("u", "t"), range=subscription("t"))
    form(driver, 1, protocols=offered)
    [member] = on_the_wire(driver.describe(), 6).members
    assert (member.member_metadata == b"") == (form is joining_group)
    assert member.member_subscription == ["t", "u"]
    assert member.member_protocols == ["sticky", "range"]


@pytest.mark.fact("C-11")
@pytest.mark.parametrize("version", [5, 6])
def test_private_fields_that_are_not_requested_are_absent(
    driver: ShardDriver, version: int
) -> None:
    stable_group(driver, 2)
    group = driver.describe("g", version, with_private_fields=False)
    assert (group.generation_id, group.leader_id) == (-1, None)
    fields = [
        (each.member_subscription, each.member_protocols) for each in group.members
    ]
    assert fields == [(None, None)] * 2
    read = KafkaPythonJudge(m.DescribeGroupsResponse, version)
    data = encode(m.DescribeGroupsResponse(groups=[group]), version)
    assert read.write(read.read(data)) == data


@pytest.mark.fact("C-06")
@pytest.mark.parametrize("fields", [{"protocol_type": "connect"}, {}])
def test_a_malformed_subscription_is_described_without_topics(
    driver: ShardDriver, fields: dict[str, Any]
) -> None:
    joining_group(driver, 1, protocols=protocols(range=b"\0"), **fields)
    [member] = on_the_wire(driver.describe(), 6).members
    assert member.member_subscription is None
    assert member.member_protocols == ["range"]


@pytest.mark.fact("H-113a")
def test_an_error_response_has_only_group_id_and_error_code(
    driver: ShardDriver,
) -> None:
    refusal = driver.shard.refuse(
        DescribeGroup("g"),
        driver._context(1, 0, "", ""),
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    )
    assert refusal == m.DescribedGroup(group_id="g", error_code=14)


@pytest.mark.fact("C-26a")
def test_the_empty_group_id_is_described(driver: ShardDriver) -> None:
    assert driver.describe("", 5).group_state == "Dead"
    driver.commit({("t", 0): 1}, group_id="")
    assert driver.describe("", 6).error_code == 0


@pytest.mark.fact("C-22")
@pytest.mark.parametrize("version", range(7))
def test_a_consumer_group_is_described_as_dead(version: int) -> None:
    driver = GroupDriver()
    driver.join("m")
    group = on_the_wire(driver.describe("g", version), version)
    assert (group.group_state, group.members) == ("Dead", [])
    assert group.error_code == (69 if version >= 6 else 0)
    message = "Group g is not a classic group." if version >= 6 else None
    assert group.error_message == message
