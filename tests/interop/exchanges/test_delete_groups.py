"""DeleteGroups: which groups go, and what it answers for the others."""

from __future__ import annotations

import pytest

from coterie.wire import messages as m
from tests.broker.server.harness import WireClient
from tests.support.waiting import eventually

from .members import (
    commit,
    describe_classic,
    describe_consumer,
    join_classic,
    join_consumer,
    leave_consumer,
)
from .test_offset_fetch import fetch

GROUP_RESOURCE = 32
NON_EMPTY_GROUP = 68
GROUP_ID_NOT_FOUND = 69


def delete(wire: WireClient, *groups: str, version: int = 2) -> list[tuple[str, int]]:
    results = wire.call(
        m.DeleteGroupsRequest(groups_names=list(groups)), version
    ).results
    return sorted((each.group_id, each.error_code) for each in results)


@pytest.mark.fact("D-10", "D-11", "D-13")
def test_each_group_of_a_request_is_judged_alone(
    wire: WireClient, group: str, topic: str
) -> None:
    commit(wire, f"{group}-1", {(topic, 0): 5})
    join_classic(wire, f"{group}-2", topic)
    join_consumer(wire, f"{group}-3", topic)
    assert delete(wire, *(f"{group}-{i}" for i in range(1, 5))) == [
        (f"{group}-1", 0),
        (f"{group}-2", NON_EMPTY_GROUP),
        (f"{group}-3", NON_EMPTY_GROUP),
        (f"{group}-4", GROUP_ID_NOT_FOUND),
    ]


@pytest.mark.fact("D-10")
def test_a_consumer_group_is_deleted_once_it_is_empty(
    wire: WireClient, group: str, topic: str
) -> None:
    member = join_consumer(wire, group, topic)
    assert delete(wire, group) == [(group, NON_EMPTY_GROUP)]
    assert leave_consumer(wire, group, member.id).error_code == 0
    assert delete(wire, group) == [(group, 0)]
    assert describe_consumer(wire, group).error_code == GROUP_ID_NOT_FOUND


@pytest.mark.fact("D-01", "D-02", "D-03", "D-12", "D-16")
@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_deleted_group_loses_its_offsets_and_is_answered_once(
    wire: WireClient, group: str, topic: str, version: int
) -> None:
    commit(wire, group, {(topic, 0): 5})
    assert delete(wire, group, group, version=version) == [(group, 0)]
    assert fetch(wire, group, None) == (0, {})
    assert describe_classic(wire, group, version=5).group_state == "Dead"


@pytest.mark.fact("D-18", "A-43a")
def test_the_empty_group_id_can_be_deleted(wire: WireClient, topic: str) -> None:
    commit(wire, "", {(topic, 0): 5})
    assert delete(wire, "") == [("", 0)]
    assert delete(wire, "") == [("", GROUP_ID_NOT_FOUND)]


@pytest.mark.fact("D-20")
def test_the_configuration_of_a_group_survives_its_deletion(
    wire: WireClient, group: str, topic: str
) -> None:
    session = "consumer.session.timeout.ms"
    config = m.IncrementalAlterableConfig(
        name=session, config_operation=0, value="50000"
    )
    resource = m.IncrementalAlterConfigsResource(
        resource_type=GROUP_RESOURCE, resource_name=group, configs=[config]
    )
    altered = wire.call(m.IncrementalAlterConfigsRequest(resources=[resource]), 1)
    assert [each.error_code for each in altered.responses] == [0]
    commit(wire, group, {(topic, 0): 5})
    assert delete(wire, group) == [(group, 0)]
    asked = m.DescribeConfigsResource(
        resource_type=GROUP_RESOURCE,
        resource_name=group,
        configuration_keys=[session],
    )

    def value() -> str | None:
        request = m.DescribeConfigsRequest(resources=[asked])
        [found] = wire.call(request, 4).results
        return str(found.configs[0].value)

    eventually(lambda: value() == "50000", expected="the group's session time-out")
