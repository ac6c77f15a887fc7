"""DescribeGroups: states, members, and groups that it does not know."""

from __future__ import annotations

import pytest

from coterie.wire import messages as m
from tests.broker.server.harness import WireClient
from tests.support.waiting import eventually

from .conftest import Connect
from .members import (
    MEMBER_ID_REQUIRED,
    commit,
    describe_classic,
    join_classic,
    join_consumer,
    join_request,
    leave_classic,
    subscription,
)

GROUP_ID_NOT_FOUND = 69
NOT_ASKED = -2147483648
READ, DELETE, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS = 3, 6, 8, 10, 11
EVERYTHING = (READ, DELETE, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS)


@pytest.mark.fact("C-01", "C-10a", "C-10b", "C-10e", "C-20a", "C-23a", "C-23b", "C-24")
@pytest.mark.parametrize("version", range(7))
def test_a_stable_group_is_described_in_every_version(
    wire: WireClient, group: str, topic: str, version: int
) -> None:
    instance = f"{group}-instance"
    member = join_classic(
        wire, group, topic, assignment=b"mine", group_instance_id=instance
    )
    request = m.DescribeGroupsRequest(groups=[group])
    response = wire.call(request, version)
    [found] = response.groups
    assert (response.throttle_time_ms, found.error_code, found.group_id) == (
        0,
        0,
        group,
    )
    assert (found.group_state, found.protocol_type, found.protocol_data) == (
        "Stable",
        "consumer",
        "range",
    )
    [described] = found.members
    assert (described.member_id, described.client_id, described.client_host) == (
        member.id,
        "test",
        "/127.0.0.1",
    )
    assert described.member_metadata == subscription(topic)
    assert described.member_assignment == b"mine"
    assert described.group_instance_id == (instance if version >= 4 else None)
    assert found.authorized_operations == NOT_ASKED


@pytest.mark.fact("C-10c", "C-25b")
@pytest.mark.parametrize("version", [3, 4, 5, 6])
def test_authorized_operations_are_those_of_existing_groups_if_asked(
    wire: WireClient, group: str, topic: str, version: int
) -> None:
    commit(wire, group, {(topic, 0): 7})
    found = describe_classic(wire, group, version=version, operations=True)
    assert found.authorized_operations == sum(1 << each for each in EVERYTHING)
    missing = describe_classic(wire, f"{group}-2", version=6, operations=True)
    assert missing.error_code == GROUP_ID_NOT_FOUND
    assert missing.authorized_operations == NOT_ASKED


@pytest.mark.fact("C-21a", "C-21b", "C-20b", "C-10d")
@pytest.mark.parametrize("version", range(7))
def test_a_missing_group_is_dead(wire: WireClient, group: str, version: int) -> None:
    found = describe_classic(wire, group, version=version)
    assert (found.group_state, found.members) == ("Dead", [])
    if version < 6:
        assert found.error_code == 0
    else:
        assert found.error_code == GROUP_ID_NOT_FOUND
        assert found.error_message == f"Group {group} not found."


@pytest.mark.parametrize("version", [5, 6])
def test_a_consumer_group_is_not_found(
    wire: WireClient, group: str, topic: str, version: int
) -> None:
    join_consumer(wire, group, topic)
    found = describe_classic(wire, group, version=version)
    assert (found.group_state, found.members) == ("Dead", [])
    assert found.error_code == (0 if version < 6 else GROUP_ID_NOT_FOUND)


@pytest.mark.fact("A-43a", "C-26a")
def test_the_empty_group_id_is_described(wire: WireClient) -> None:
    found = describe_classic(wire, "", version=5)
    assert (found.error_code, found.group_state) in {(0, "Dead"), (0, "Empty")}


@pytest.mark.fact("C-20c", "C-23a", "C-23b", "C-23c")
def test_a_rebalancing_group_keeps_assignments_and_hides_the_rest(
    wire: WireClient, connect: Connect, group: str, topic: str
) -> None:
    first = join_classic(wire, group, topic, assignment=b"mine")
    second = connect()
    required = second.call(join_request(group, topic), 9)
    assert required.error_code == MEMBER_ID_REQUIRED
    second.send(join_request(group, topic, member_id=required.member_id), 9)

    def is_rebalancing() -> bool:
        return describe_classic(wire, group).group_state == "PreparingRebalance"

    eventually(is_rebalancing, expected="a rebalance")
    found = describe_classic(wire, group)
    assert (found.protocol_type, found.protocol_data) == ("consumer", "")
    assignments = {each.member_id: each.member_assignment for each in found.members}
    assert assignments == {first.id: b"mine", required.member_id: b""}
    assert {each.member_metadata for each in found.members} == {b""}
    assert wire.call(join_request(group, topic, member_id=first.id), 9).error_code == 0
    assert second.receive().error_code == 0
    assert describe_classic(wire, group).group_state == "CompletingRebalance"


@pytest.mark.fact("C-20d", "C-23a")
def test_an_empty_group_has_no_members_and_no_protocol(
    wire: WireClient, group: str, topic: str
) -> None:
    member = join_classic(wire, group, topic)
    assert leave_classic(wire, group, member.id).error_code == 0
    found = describe_classic(wire, group)
    assert (found.group_state, found.protocol_data) == ("Empty", "")
    assert (found.protocol_type, found.members) == ("consumer", [])
