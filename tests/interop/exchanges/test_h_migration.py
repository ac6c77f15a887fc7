"""Groups between the classic and the consumer protocol."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from coterie.wire import messages as m
from coterie.wire.codec import decode
from tests.broker.server.harness import WireClient

from .members import (
    Beating,
    assign_at_once,
    await_writes,
    describe_classic,
    describe_consumer,
    join_request,
    leave_consumer,
    new_member_id,
    subscription,
    topic_id,
)

REBALANCE_IN_PROGRESS = 27
MEMBER_ID_REQUIRED = 79


def offers(
    topic: str, *owned: int, names: tuple[str, ...] = ("range",), version: int = 1
) -> list[m.JoinGroupRequestProtocol]:
    metadata = subscription(
        topic, owned={topic: owned} if owned else None, version=version
    )
    return [m.JoinGroupRequestProtocol(name=name, metadata=metadata) for name in names]


class Classic:
    """A classic member of a consumer group; it joins at once."""

    def __init__(self, wire: WireClient, group: str, topic: str, **fields: Any) -> None:
        self.wire = wire
        self.group = group
        self.topic = topic
        self.id = fields.pop("member_id", None) or new_member_id()
        self.instance_id: str | None = fields.get("group_instance_id")
        self.generation = -1
        member_id = "" if self.instance_id else self.id
        answer = self.join(member_id=member_id, **fields)
        assert answer.error_code == 0, answer
        self.id = answer.member_id

    def join(self, *owned: int, **fields: Any) -> Any:
        """Send a JoinGroup v9, with the partitions that the member owns."""
        usual: dict[str, Any] = {
            "member_id": self.id,
            "group_instance_id": self.instance_id,
            "protocols": offers(self.topic, *owned),
        }
        request = join_request(self.group, self.topic, **{**usual, **fields})
        answer = self.wire.call(request, 9)
        if not answer.error_code:
            self.generation = answer.generation_id
        return answer

    def sync(self, **changed: Any) -> Any:
        """Send a SyncGroup v5."""
        fields: dict[str, Any] = {
            "member_id": self.id,
            "generation_id": self.generation,
            "group_instance_id": self.instance_id,
            "protocol_type": "consumer",
            "protocol_name": "range",
        }
        request = m.SyncGroupRequest(group_id=self.group, **{**fields, **changed})
        return self.wire.call(request, 5)

    def synced(self) -> list[int]:
        """Return the partitions that a SyncGroup gets."""
        answer = self.sync()
        assert answer.error_code == 0, answer
        version = int.from_bytes(answer.assignment[:2], "big")
        value, _ = decode(m.ConsumerProtocolAssignment, version, answer.assignment, 2)
        return sorted(p for each in value.assigned_partitions for p in each.partitions)

    def beat(self) -> int:
        """Send a Heartbeat; return its error code."""
        request = m.HeartbeatRequest(
            group_id=self.group,
            member_id=self.id,
            generation_id=self.generation,
            group_instance_id=self.instance_id,
        )
        code: int = self.wire.call(request, 4).error_code
        return code


@pytest.fixture
def modern(wire: WireClient, group: str, topic: str) -> Beating:
    """The first member of a consumer group; it has both partitions of the topic."""
    assign_at_once(wire, group)
    return Beating(wire, group, topic).owning(2)


def group_type(wire: WireClient, group: str) -> str:
    if describe_consumer(wire, group).error_code == 0:
        return "consumer"
    return "classic" if describe_classic(wire, group).error_code == 0 else "none"


@pytest.mark.fact("H-132a", "H-132b")
def test_an_empty_consumer_group_becomes_a_classic_group(
    wire: WireClient, group: str, topic: str, modern: Beating
) -> None:
    leave_consumer(wire, group, modern.id)
    assert group_type(wire, group) == "consumer"
    answer = wire.call(join_request(group, topic), 9)
    assert answer.error_code == MEMBER_ID_REQUIRED
    assert answer.member_id
    await_writes(wire, group)
    assert group_type(wire, group) == "classic"
    assert describe_classic(wire, group).group_state == "Empty"


@pytest.mark.fact("H-141a", "H-142", "H-144a", "H-144c")
@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_an_eager_member_reaches_its_target_with_one_join(
    wire: WireClient, group: str, topic: str, modern: Beating, version: int
) -> None:
    protocols = offers(topic, version=version)
    classic = Classic(wire, group, topic, protocols=protocols)
    epoch = classic.generation
    assert classic.synced() == []
    assert classic.beat() == 0
    modern.beat()
    modern.report()
    assert classic.beat() == REBALANCE_IN_PROGRESS
    classic.join(protocols=protocols)
    assert classic.sync().assignment[:2] == bytes([0, version])
    [mine] = classic.synced()
    assert modern.owned == {topic_id(wire, topic): [1 - mine]}
    leave_consumer(wire, group, Beating(wire, group, topic).id)
    third = Beating(wire, group, f"{topic}-missing")
    assert classic.beat() == REBALANCE_IN_PROGRESS
    assert classic.sync().error_code == REBALANCE_IN_PROGRESS
    classic.join(protocols=protocols)
    assert classic.generation == third.epoch > epoch
    assert classic.synced() == [mine]
    assert classic.beat() == 0


@pytest.mark.fact("H-141b", "H-144b")
def test_a_cooperative_member_revokes_and_joins_again(
    wire: WireClient, group: str, topic: str, modern: Beating
) -> None:
    classic = Classic(wire, group, topic)
    leaving = modern.id
    third = Beating(wire, group, f"{topic}-missing")
    leave_consumer(wire, group, leaving)
    classic.join()
    assert classic.synced() == [0, 1]
    epoch = classic.generation
    fourth = Beating(wire, group, topic)
    assert classic.beat() == REBALANCE_IN_PROGRESS
    classic.join(0, 1)
    assert classic.generation == epoch
    [kept] = classic.synced()
    assert fourth.beat().assignment is None
    assert classic.beat() == REBALANCE_IN_PROGRESS
    classic.join(kept)
    assert classic.generation == fourth.epoch
    assert classic.synced() == [kept]
    assert classic.beat() == 0
    fourth.beat()
    assert fourth.owned == {topic_id(wire, topic): [1 - kept]}
    assert third.beat().error_code == 0


@pytest.mark.fact("H-144c")
def test_a_waiting_member_joins_again_once_all_its_partitions_are_free(
    wire: WireClient, group: str, new_topic: Callable[[str, int], str]
) -> None:
    assign_at_once(wire, group)
    topic = new_topic("six", 6)
    first = Beating(wire, group, topic).owning(6)
    second = Beating(wire, group, topic)
    first.beat()
    first.report()
    second.owning(3)
    classic = Classic(wire, group, topic)  # it waits for a partition of each
    assert classic.beat() == 0
    first.beat()
    first.report()
    assert classic.beat() == 0
    second.beat()
    second.report()
    assert classic.beat() == REBALANCE_IN_PROGRESS
    classic.join()
    assert len(classic.synced()) == 2
    assert classic.beat() == 0
