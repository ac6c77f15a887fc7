"""Static members of consumer groups: they leave, come back, are replaced."""

from __future__ import annotations

from typing import Any

import pytest

from tests.broker.server.harness import WireClient

from .members import (
    Beating,
    assign_at_once,
    describe_consumer,
    heartbeat,
    new_member_id,
    topic_id,
)

UNKNOWN_MEMBER_ID = 25
FENCED_INSTANCE_ID = 82
UNRELEASED_INSTANCE_ID = 111


def group_epoch(wire: WireClient, group: str) -> int:
    described = describe_consumer(wire, group)
    assert described.error_code == 0, described
    return described.group_epoch


@pytest.fixture
def static(wire: WireClient, group: str, topic: str) -> Beating:
    """The only member of the group, with the instance id `i`."""
    assign_at_once(wire, group)
    return Beating(wire, group, topic, instance_id="i").owning(2)


@pytest.mark.fact("H-70")
def test_a_new_static_member_bumps_the_epoch(
    wire: WireClient, group: str, topic: str, static: Beating
) -> None:
    epoch = group_epoch(wire, group)
    Beating(wire, group, topic, instance_id="j")
    assert group_epoch(wire, group) == epoch + 1


@pytest.mark.fact("H-71", "H-73a")
def test_a_static_member_that_returns_keeps_its_partitions(
    wire: WireClient, group: str, topic: str, static: Beating
) -> None:
    epoch = group_epoch(wire, group)
    left = static.beat(epoch=-2)
    assert (left.error_code, left.member_id, left.member_epoch) == (0, static.id, -2)
    assert group_epoch(wire, group) == epoch
    back = Beating(wire, group, topic, instance_id="i")
    assert back.owned == {topic_id(wire, topic): [0, 1]}
    assert back.epoch == group_epoch(wire, group) == epoch
    [member] = describe_consumer(wire, group).members
    assert member.member_id == back.id


@pytest.mark.fact("H-72")
def test_a_static_member_that_returns_with_other_topics_bumps_the_epoch(
    wire: WireClient, group: str, topic: str, static: Beating
) -> None:
    epoch = group_epoch(wire, group)
    static.beat(epoch=-2)
    back = Beating(wire, group, f"{topic}-missing", instance_id="i")
    assert back.owned == {}
    assert back.epoch == group_epoch(wire, group) == epoch + 1


@pytest.mark.fact("H-74")
def test_a_permanent_leave_removes_a_static_member(
    wire: WireClient, group: str, static: Beating
) -> None:
    epoch = group_epoch(wire, group)
    left = static.beat(epoch=-1)
    assert (left.error_code, left.member_epoch) == (0, -1)
    described = describe_consumer(wire, group)
    assert (described.group_epoch, described.members) == (epoch + 1, [])


@pytest.mark.fact("H-75")
def test_an_instance_id_in_use_is_not_released(
    wire: WireClient, group: str, topic: str, static: Beating
) -> None:
    joining: dict[str, Any] = {
        "instance_id": "i",
        "rebalance_timeout_ms": 10_000,
        "subscribed_topic_names": [topic],
        "topic_partitions": [],
    }
    answer = heartbeat(wire, group, new_member_id(), 0, **joining)
    assert answer.error_code == UNRELEASED_INSTANCE_ID
    assert static.beat().error_code == 0


@pytest.mark.fact("H-76a", "H-76b")
@pytest.mark.parametrize("epoch", ["now", -1, -2])
def test_an_instance_id_must_be_known_and_of_this_member(
    wire: WireClient, group: str, static: Beating, epoch: int | str
) -> None:
    sent = static.epoch if epoch == "now" else int(epoch)
    unknown = heartbeat(wire, group, static.id, sent, instance_id="j")
    assert unknown.error_code == UNKNOWN_MEMBER_ID
    fenced = heartbeat(wire, group, "m", sent, instance_id="i")
    assert fenced.error_code == FENCED_INSTANCE_ID
    assert static.beat().error_code == 0
