"""What admin clients see of groups, and requests of members without a group."""

from __future__ import annotations

from typing import Any

import pytest

from coterie.wire import messages as m
from tests.broker.server.harness import WireClient

from .members import (
    Beating,
    assign_at_once,
    commit,
    describe_consumer,
    join_consumer,
    leave_consumer,
)

INVALID_GROUP_ID = 24
INVALID_CONFIG = 40
GROUP_ID_NOT_FOUND = 69


@pytest.mark.fact("H-113a", "H-113b")
def test_each_described_group_has_its_own_answer(
    wire: WireClient, group: str, topic: str
) -> None:
    join_consumer(wire, group, topic)
    missing = f"{group}-missing"
    request = m.ConsumerGroupDescribeRequest(group_ids=[missing, group, ""])
    described = {each.group_id: each for each in wire.call(request, 1).groups}
    codes = {name: each.error_code for name, each in described.items()}
    assert codes == {missing: GROUP_ID_NOT_FOUND, group: 0, "": INVALID_GROUP_ID}
    assert len(described[group].members) == 1
    commit(wire, f"{group}-2", {(topic, 0): 5})
    names = [missing, f"{group}-2"]
    found = wire.call(m.DescribeGroupsRequest(groups=names), 6).groups
    codes = {each.group_id: each.error_code for each in found}
    assert codes == {missing: GROUP_ID_NOT_FOUND, f"{group}-2": 0}


def listed(
    wire: WireClient, group: str, *, version: int = 5, **filters: Any
) -> list[m.ListedGroup]:
    groups = wire.call(m.ListGroupsRequest(**filters), version).groups
    return [each for each in groups if each.group_id == group]


@pytest.mark.fact("H-116a", "H-116b", "H-116d", "H-116e")
def test_a_consumer_group_is_listed_with_its_current_state(
    wire: WireClient, group: str, topic: str
) -> None:
    assign_at_once(wire, group)
    members = [Beating(wire, group, topic).owning(2), Beating(wire, group, topic)]

    def about(version: int) -> tuple[str, str]:
        [found] = listed(wire, group, version=version)
        return found.group_state, found.group_type

    assert about(5) == ("Reconciling", "consumer")
    assert about(4) == ("Reconciling", "")
    assert about(3) == ("", "")
    for member in members:
        leave_consumer(wire, group, member.id)
    assert about(5) == ("Empty", "consumer")


@pytest.mark.fact("I-09")
def test_uniform_is_the_default_assignor(
    wire: WireClient, group: str, topic: str
) -> None:
    join_consumer(wire, group, topic)
    assert describe_consumer(wire, group).assignor_name == "uniform"


@pytest.mark.fact("I-10")
def test_an_unknown_config_of_a_group_is_invalid(wire: WireClient, group: str) -> None:
    config = m.IncrementalAlterableConfig(
        name="consumer.nonsense.ms", config_operation=0, value="1"
    )
    resource = m.IncrementalAlterConfigsResource(
        resource_type=32, resource_name=group, configs=[config]
    )
    request = m.IncrementalAlterConfigsRequest(
        resources=[resource], validate_only=False
    )
    [answer] = wire.call(request, 1).responses
    assert answer.error_code == INVALID_CONFIG


@pytest.mark.fact("H-122")
def test_the_offsets_topic_is_compacted_with_producer_compression(
    wire: WireClient, group: str, topic: str
) -> None:
    commit(wire, group, {(topic, 0): 5})
    expected = {
        "cleanup.policy": "compact",
        "compression.type": "producer",
        "segment.bytes": "104857600",
    }
    resource = m.DescribeConfigsResource(
        resource_type=2,
        resource_name="__consumer_offsets",
        configuration_keys=[*expected],
    )
    request = m.DescribeConfigsRequest(resources=[resource])
    [found] = wire.call(request, 4).results
    assert found.error_code == 0
    assert {each.name: each.value for each in found.configs} == expected
