"""ConsumerGroupHeartbeat and lists of groups where KIP-848 and Kafka differ."""

from __future__ import annotations

import pytest

from coterie.wire import messages as m
from tests.broker.server.harness import WireClient

from .members import (
    Beating,
    assign_at_once,
    describe_consumer,
    heartbeat,
    join_consumer,
    leave_consumer,
    topic_partitions,
)

INVALID_CONFIG = 40
GROUP = 32


@pytest.mark.fact("F5-03")
def test_each_response_names_its_member(
    wire: WireClient, group: str, topic: str
) -> None:
    member = join_consumer(wire, group, topic)
    assert heartbeat(wire, group, member.id, member.epoch).member_id == member.id
    assert leave_consumer(wire, group, member.id).member_id == member.id


@pytest.mark.fact("F5-04")
def test_version_0_joins_without_a_member_id(
    wire: WireClient, group: str, topic: str
) -> None:
    joined: m.ConsumerGroupHeartbeatResponse = wire.call(
        m.ConsumerGroupHeartbeatRequest(
            group_id=group,
            rebalance_timeout_ms=30_000,
            subscribed_topic_names=[topic],
            topic_partitions=[],
        ),
        0,
    )
    assert joined.error_code == 0
    assert joined.member_id
    [described] = describe_consumer(wire, group).members
    assert described.member_id == joined.member_id


@pytest.mark.fact("F5-07")
def test_the_previous_epoch_is_accepted_with_partitions_that_the_target_lacks(
    wire: WireClient, group: str, topic: str
) -> None:
    assign_at_once(wire, group)
    member = Beating(wire, group, topic).owning(2)
    member.beat(subscribed_topic_names=[topic, f"{group}-missing"])
    owned, previous = member.owned, member.epoch - 1
    join_consumer(wire, group, topic)
    again = heartbeat(
        wire, group, member.id, previous, topic_partitions=topic_partitions(owned)
    )
    assert again.error_code == 0


@pytest.mark.fact("F5-14")
def test_a_group_has_the_uniform_assignor(
    wire: WireClient, group: str, topic: str
) -> None:
    join_consumer(wire, group, topic)
    assert describe_consumer(wire, group).assignor_name == "uniform"


@pytest.mark.fact("F5-15")
@pytest.mark.parametrize(("prefix", "code"), [("", 0), ("group.", INVALID_CONFIG)])
def test_configs_of_a_group_are_named_without_group(
    wire: WireClient, group: str, prefix: str, code: int
) -> None:
    config = m.IncrementalAlterableConfig(
        name=f"{prefix}consumer.session.timeout.ms", config_operation=0, value="50000"
    )
    resource = m.IncrementalAlterConfigsResource(
        resource_type=GROUP, resource_name=group, configs=[config]
    )
    request = m.IncrementalAlterConfigsRequest(resources=[resource])
    [altered] = wire.call(request, 1).responses
    assert altered.error_code == code
