"""ConsumerGroupHeartbeat: its validation, its epochs, what its response carries."""

from __future__ import annotations

from typing import Any

import pytest

from coterie.wire import messages as m
from tests.broker.server.harness import WireClient

from .members import (
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
