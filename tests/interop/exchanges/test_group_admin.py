"""DescribeGroups, ConsumerGroupDescribe and ListGroups."""

from __future__ import annotations

import pytest

from coterie.wire import messages as m
from tests.broker.server.harness import WireClient
from tests.support.waiting import eventually

from .conftest import Connect
from .members import (
    describe_classic,
    describe_consumer,
    join_classic,
    join_consumer,
    join_request,
)

GROUP_ID_NOT_FOUND = 69
INVALID_GROUP_ID = 24


def await_state(wire: WireClient, group: str, state: str) -> None:
    eventually(
        lambda: describe_classic(wire, group).group_state == state,
        expected=f"{group} is {state}",
    )


# DescribeGroups.


@pytest.mark.fact("C-23c")
def test_a_rebalance_without_sync_discards_the_assignments(
    connect: Connect, wire: WireClient, group: str
) -> None:
    member = join_classic(wire, group, assignment=b"mine")
    request = join_request(group, member_id=member.id)
    assert wire.call(request, 9).error_code == 0
    assert describe_classic(wire, group).group_state == "CompletingRebalance"
    other = connect()
    joining = other.call(join_request(group), 9).member_id
    other.send(join_request(group, member_id=joining), 9)
    await_state(wire, group, "PreparingRebalance")
    described = describe_classic(wire, group)
    assert [each.member_assignment for each in described.members] == [b"", b""]


@pytest.mark.fact("C-21a", "C-21b")
@pytest.mark.parametrize("version", range(7))
def test_an_unknown_group_is_dead_and_from_version_6_an_error(
    wire: WireClient, group: str, version: int
) -> None:
    found = describe_classic(wire, group, version=version)
    expected = (GROUP_ID_NOT_FOUND, f"Group {group} not found.")
    assert (found.group_id, found.group_state) == (group, "Dead")
    assert (found.error_code, found.error_message) == (
        expected if version >= 6 else (0, None)
    )


def test_a_consumer_group_is_no_classic_group(wire: WireClient, group: str) -> None:
    join_consumer(wire, group)
    described = describe_classic(wire, group)
    assert (described.error_code, described.group_state) == (GROUP_ID_NOT_FOUND, "Dead")
    assert described.error_message == f"Group {group} is not a classic group."


# ConsumerGroupDescribe.


@pytest.mark.fact("E16-04", "E16-05", "E16-04a")
@pytest.mark.parametrize("version", [0, 1])
def test_consumer_groups_are_described_with_an_error_for_each(
    wire: WireClient, group: str, version: int
) -> None:
    join_classic(wire, f"{group}-classic")
    group_ids = [group, f"{group}-classic", ""]
    request = m.ConsumerGroupDescribeRequest(group_ids=group_ids)
    groups = wire.call(request, version).groups
    found = [(each.group_id, each.error_code, each.error_message) for each in groups]
    assert sorted(found) == [
        ("", INVALID_GROUP_ID, None),
        (group, GROUP_ID_NOT_FOUND, f"Group {group} not found."),
        (
            f"{group}-classic",
            GROUP_ID_NOT_FOUND,
            f"Group {group}-classic is not a consumer group.",
        ),
    ]


def test_a_member_without_expression_has_an_empty_one(
    wire: WireClient, group: str
) -> None:
    join_consumer(wire, group)
    [described] = describe_consumer(wire, group).members
    assert described.subscribed_topic_regex == ""


# ListGroups.


@pytest.mark.fact("E28-02", "E28-03", "E28-04")
@pytest.mark.parametrize(
    ("states", "types", "is_listed"),
    [
        ([], [], True),
        (["stable"], [], True),
        ([" STABLE\t"], [], True),
        (["\N{NO-BREAK SPACE}stable"], [], False),
        (["empty", "Stable"], ["x", "CLASSIC"], True),
        (["x"], [], False),
        ([""], [], False),
        ([], ["classic"], True),
        ([], [" classic"], False),
        ([], ["unknown"], False),
        ([], [""], False),
        (["stable"], ["consumer"], False),
        (["empty"], ["classic"], False),
    ],
)
def test_filters_ignore_case_and_those_of_states_white_space(
    wire: WireClient,
    group: str,
    states: list[str],
    types: list[str],
    is_listed: bool,
) -> None:
    join_classic(wire, group)
    request = m.ListGroupsRequest(states_filter=states, types_filter=types)
    listed = {each.group_id for each in wire.call(request, 5).groups}
    assert (group in listed) is is_listed
