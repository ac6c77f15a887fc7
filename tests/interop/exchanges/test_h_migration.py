"""Groups between the classic and the consumer protocol."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from coterie.wire import messages as m
from coterie.wire.codec import decode, encode
from tests.broker.server.harness import WireClient
from tests.support.waiting import eventually

from .members import (
    Beating,
    assign_at_once,
    await_writes,
    describe_classic,
    describe_consumer,
    join_classic,
    join_request,
    leave_consumer,
    new_member_id,
    subscription,
    topic_id,
)

ILLEGAL_GENERATION = 22
INCONSISTENT_GROUP_PROTOCOL = 23
UNKNOWN_MEMBER_ID = 25
REBALANCE_IN_PROGRESS = 27
MEMBER_ID_REQUIRED = 79
FENCED_INSTANCE_ID = 82


def offers(
    topic: str, *owned: int, names: tuple[str, ...] = ("range",), version: int = 1
) -> list[m.JoinGroupRequestProtocol]:
    metadata = subscription(
        topic, owned={topic: owned} if owned else None, version=version
    )
    return [m.JoinGroupRequestProtocol(name=name, metadata=metadata) for name in names]


def encoded(topic: str, *partitions: int) -> bytes:
    """Return the assignment of a classic leader."""
    each = m.ConsumerProtocolTopicPartitions(topic=topic, partitions=list(partitions))
    value = m.ConsumerProtocolAssignment(
        assigned_partitions=[each] if partitions else []
    )
    return b"\0\1" + encode(value, 1)


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


@pytest.mark.fact("H-133a")
def test_an_upgrade_keeps_the_assignments(
    wire: WireClient, group: str, topic: str
) -> None:
    assign_at_once(wire, group)
    Beating(wire, f"{group}-2", topic).owning(2)
    old = join_classic(wire, group, topic, assignment=encoded(topic, 0, 1))
    new = Beating(wire, group, topic)
    assert new.owned == {}
    members = {each.member_id: each for each in describe_consumer(wire, group).members}
    assert members.keys() == {old.id, new.id}
    [of_topic] = members[old.id].assignment.topic_partitions
    assert (of_topic.topic_name, of_topic.partitions) == (topic, [0, 1])
    assert members[old.id].member_epoch == old.generation


@pytest.mark.fact("H-133b", "H-133c")
def test_an_upgrade_ends_waiting_joins_and_syncs(
    wire: WireClient,
    connect: Callable[[], WireClient],
    group: str,
    topic: str,
) -> None:
    old = join_classic(wire, group, topic, assignment=encoded(topic, 0, 1))
    waiting = connect()
    waiting.send(join_request(group, topic), 3)  # until the first member joins again
    wait_for_state(wire, group, "PreparingRebalance")
    Beating(wire, group, topic)
    answer = waiting.receive()
    assert answer.error_code == REBALANCE_IN_PROGRESS
    other = f"{group}-2"
    first, second = connect(), connect()
    first.send(join_request(other, topic), 3)
    second.send(join_request(other, topic), 3)
    joined = [first.receive(), second.receive()]
    follower = next(each for each in joined if each.leader != each.member_id)
    request = m.SyncGroupRequest(
        group_id=other,
        generation_id=follower.generation_id,
        member_id=follower.member_id,
    )
    second.send(request, 3)
    wait_for_state(wire, other, "CompletingRebalance")
    Beating(wire, other, topic)
    assert second.receive().error_code == REBALANCE_IN_PROGRESS
    assert old.id


def wait_for_state(wire: WireClient, group: str, state: str) -> None:
    eventually(
        lambda: describe_classic(wire, group).group_state == state,
        expected=f"{group} is {state}",
    )


@pytest.mark.fact("H-134", "H-135")
def test_a_static_classic_member_returns_with_the_consumer_protocol(
    wire: WireClient, group: str, topic: str
) -> None:
    assign_at_once(wire, group)
    Beating(wire, f"{group}-2", topic).owning(2)
    assignment = encoded(topic, 0, 1)
    join_classic(wire, group, topic, assignment=assignment, group_instance_id="i")
    back = Beating(wire, group, topic, instance_id="i")
    assert back.owned == {topic_id(wire, topic): [0, 1]}
    [member] = describe_consumer(wire, group).members
    assert (member.member_id, member.member_type) == (back.id, 1)
    classic = Classic(wire, group, topic, group_instance_id="j")
    again = Beating(wire, group, topic, instance_id="j")
    members = describe_consumer(wire, group).members
    assert {each.member_id for each in members} == {back.id, again.id}
    assert classic.id != again.id


@pytest.mark.fact("H-136a")
def test_a_leave_of_the_last_modern_member_downgrades_the_group(
    wire: WireClient, group: str, topic: str, modern: Beating
) -> None:
    classic = Classic(wire, group, topic)
    generation = classic.generation
    leave_consumer(wire, group, modern.id)
    found = describe_classic(wire, group)
    assert (found.error_code, found.group_state) == (0, "PreparingRebalance")
    assert [each.member_id for each in found.members] == [classic.id]
    assert classic.beat() == REBALANCE_IN_PROGRESS
    assert classic.join().error_code == 0
    assert classic.generation == generation + 1


@pytest.mark.fact("H-137")
def test_a_classic_member_replaces_the_last_modern_member(
    wire: WireClient, group: str, topic: str
) -> None:
    assign_at_once(wire, group)
    modern = Beating(wire, group, topic, instance_id="i").owning(2)
    other = Classic(wire, group, topic, group_instance_id="j")
    modern.beat()
    modern.report()
    other.join()
    [kept] = modern.owned.values()
    other.join(1 - kept[0])
    replacing = Classic(wire, group, topic, group_instance_id="i")
    found = describe_classic(wire, group)
    assert (found.error_code, found.group_state) == (0, "Stable")
    assert {each.member_id for each in found.members} == {other.id, replacing.id}
    assert replacing.synced() == kept
    assert other.beat() == 0


@pytest.mark.fact("H-139b")
def test_a_classic_member_must_support_a_protocol_of_the_others(
    wire: WireClient, group: str, topic: str, modern: Beating
) -> None:
    Classic(wire, group, topic, protocols=offers(topic, names=("range", "sticky")))

    def code(**fields: Any) -> int:
        request: m.JoinGroupRequest = join_request(group, topic, **fields)
        error: int = wire.call(request, 3).error_code
        return error

    assert code(protocol_type="connect") == INCONSISTENT_GROUP_PROTOCOL
    one = offers(topic, names=("roundrobin",))
    assert code(protocols=one) == INCONSISTENT_GROUP_PROTOCOL
    assert code(protocols=offers(topic, names=("roundrobin", "sticky"))) == 0


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


@pytest.mark.fact("H-143a", "H-143b", "H-143c", "H-143d", "H-143e")
def test_a_sync_is_checked(
    wire: WireClient, group: str, topic: str, modern: Beating
) -> None:
    static = Classic(wire, group, topic, group_instance_id="i")
    classic = Classic(wire, group, topic)

    def code(**fields: Any) -> int:
        error: int = classic.sync(**fields).error_code
        return error

    assert code(member_id="m") == UNKNOWN_MEMBER_ID
    assert code(member_id=modern.id) == UNKNOWN_MEMBER_ID
    assert code(group_instance_id="j") == UNKNOWN_MEMBER_ID
    assert code(group_instance_id="i") == FENCED_INSTANCE_ID
    assert code(protocol_type="connect") == INCONSISTENT_GROUP_PROTOCOL
    assert code(protocol_name="sticky") == INCONSISTENT_GROUP_PROTOCOL
    assert code(generation_id=classic.generation - 1) == ILLEGAL_GENERATION
    assert code(generation_id=classic.generation + 1) == ILLEGAL_GENERATION
    assert code() == 0
    assert static.sync().error_code == REBALANCE_IN_PROGRESS


@pytest.mark.fact("H-146")
def test_members_that_leave_together_bump_the_epoch_once(
    wire: WireClient, group: str, topic: str, modern: Beating
) -> None:
    classic = Classic(wire, group, topic)
    statics = [Classic(wire, group, topic, group_instance_id=each) for each in "ij"]
    epoch = describe_consumer(wire, group).group_epoch
    leaving = [
        m.MemberIdentity(member_id=classic.id),
        m.MemberIdentity(member_id="m"),
        m.MemberIdentity(member_id="", group_instance_id="i"),
        m.MemberIdentity(member_id="m", group_instance_id="j"),
        m.MemberIdentity(member_id="m", group_instance_id="k"),
    ]
    answer = wire.call(m.LeaveGroupRequest(group_id=group, members=leaving), 5)
    codes = [each.error_code for each in answer.members]
    unknown = UNKNOWN_MEMBER_ID
    assert (answer.error_code, codes) == (
        0,
        [0, unknown, 0, FENCED_INSTANCE_ID, unknown],
    )
    described = describe_consumer(wire, group)
    assert described.group_epoch == epoch + 1
    kept = {each.member_id for each in described.members}
    assert kept == {modern.id, statics[1].id}
