"""ConsumerGroupHeartbeat: its validation, its epochs, what its response carries."""

from __future__ import annotations

from typing import Any

import pytest

from coterie.wire import messages as m
from tests.broker.server.harness import WireClient
from tests.support.waiting import eventually

from .members import (
    Beating,
    alter_group,
    assign_at_once,
    commit,
    describe_consumer,
)

JOIN: dict[str, Any] = {
    "group_id": "exchanges",
    "member_id": "m",
    "member_epoch": 0,
    "rebalance_timeout_ms": 10_000,
    "subscribed_topic_names": ["t"],
    "topic_partitions": [],
}


@pytest.mark.fact("H-03a", "H-03b", "H-08a")
def test_a_join_of_version_0_without_an_id_gets_one(
    wire: WireClient, group: str
) -> None:
    joining = {**JOIN, "group_id": group, "member_id": ""}
    joining["subscribed_topic_names"] = [f"{group}-missing"]
    answer = wire.call(m.ConsumerGroupHeartbeatRequest(**joining), 0)
    assert (answer.error_code, len(answer.member_id)) == (0, 22)
    assert answer.assignment is not None
    assert answer.assignment.topic_partitions == []
    [member] = describe_consumer(wire, group).members
    assert member.member_id == answer.member_id


@pytest.mark.fact("H-13a", "H-13b")
def test_a_member_may_unsubscribe_from_everything(
    wire: WireClient, group: str, topic: str
) -> None:
    assign_at_once(wire, group)
    member = Beating(wire, group, topic).owning(2)
    commit(wire, group, {(topic, 0): 5}, member_id=member.id, epoch=member.epoch)
    assert deleted(wire, group, topic) == 86
    assert member.beat(subscribed_topic_names=[]).error_code == 0
    assert member.owned == {}
    assert deleted(wire, group, topic) == 0


def deleted(wire: WireClient, group: str, topic: str) -> int:
    request = m.OffsetDeleteRequest(
        group_id=group,
        topics=[
            m.OffsetDeleteRequestTopic(
                name=topic,
                partitions=[m.OffsetDeleteRequestPartition(partition_index=0)],
            )
        ],
    )
    answer = wire.call(request, 0)
    assert answer.error_code == 0
    [[partition]] = [each.partitions for each in answer.topics]
    code: int = partition.error_code
    return code


@pytest.mark.fact("H-66a")
def test_a_config_of_the_group_changes_the_heartbeat_interval(
    wire: WireClient, group: str, topic: str
) -> None:
    member = Beating(wire, group, topic)
    assert member.last.heartbeat_interval_ms == 300
    alter_group(wire, group, consumer_heartbeat_interval_ms=700)
    eventually(
        lambda: member.beat().heartbeat_interval_ms == 700, expected="the new interval"
    )
