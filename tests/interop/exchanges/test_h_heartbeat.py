"""ConsumerGroupHeartbeat: its validation, its epochs, what its response carries."""

from __future__ import annotations

from collections.abc import Callable
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
    heartbeat,
    leave_consumer,
    new_member_id,
    partitions_of,
    topic_id,
    topic_partitions,
)

UNKNOWN_MEMBER_ID = 25
INVALID_REQUEST = 42
GROUP_ID_NOT_FOUND = 69
FENCED_INSTANCE_ID = 82
FENCED_MEMBER_EPOCH = 110
UNSUPPORTED_ASSIGNOR = 112

JOIN: dict[str, Any] = {
    "group_id": "exchanges",
    "member_id": "m",
    "member_epoch": 0,
    "rebalance_timeout_ms": 10_000,
    "subscribed_topic_names": ["t"],
    "topic_partitions": [],
}
STAY: dict[str, Any] = {"group_id": "exchanges", "member_id": "m", "member_epoch": 1}


def refused(
    wire: WireClient, fields: dict[str, Any], *, version: int = 1, **changed: Any
) -> m.ConsumerGroupHeartbeatResponse:
    request = m.ConsumerGroupHeartbeatRequest(**{**fields, **changed})
    answer: m.ConsumerGroupHeartbeatResponse = wire.call(request, version)
    assert answer.error_code, answer
    return answer


def is_invalid(answer: m.ConsumerGroupHeartbeatResponse, field: str) -> bool:
    message = answer.error_message or ""
    return answer.error_code == INVALID_REQUEST and field in message


@pytest.mark.fact("H-01a")
@pytest.mark.parametrize("blank", ["", " \t"])
def test_a_blank_group_id_is_invalid(wire: WireClient, blank: str) -> None:
    assert is_invalid(refused(wire, JOIN, group_id=blank), "GroupId")


@pytest.mark.fact("H-01b")
@pytest.mark.parametrize("blank", ["", " \t"])
def test_a_blank_instance_id_or_rack_id_is_invalid(
    wire: WireClient, blank: str
) -> None:
    assert is_invalid(refused(wire, JOIN, instance_id=blank), "InstanceId")
    assert is_invalid(refused(wire, JOIN, rack_id=blank), "RackId")


@pytest.mark.fact("H-01c")
def test_a_join_without_a_rebalance_timeout_is_invalid(wire: WireClient) -> None:
    answer = refused(wire, JOIN, rebalance_timeout_ms=-1)
    assert is_invalid(answer, "RebalanceTimeoutMs")


@pytest.mark.fact("H-01d")
def test_a_join_must_own_no_partitions(wire: WireClient) -> None:
    one = [m.TopicPartitions(topic_id=bytes(16), partitions=[0])]
    for owned in (None, one):
        answer = refused(wire, JOIN, topic_partitions=owned)
        assert is_invalid(answer, "TopicPartitions")


@pytest.mark.fact("H-01e")
def test_a_join_without_a_subscription_is_invalid(wire: WireClient) -> None:
    answer = refused(wire, JOIN, subscribed_topic_names=None)
    assert is_invalid(answer, "SubscribedTopicNames")


@pytest.mark.fact("H-01f")
@pytest.mark.parametrize("epoch", [1, -1])
@pytest.mark.parametrize("version", [0, 1])
def test_a_heartbeat_without_a_member_id_is_invalid(
    wire: WireClient, epoch: int, version: int
) -> None:
    answer = refused(wire, STAY, version=version, member_id="", member_epoch=epoch)
    assert is_invalid(answer, "MemberId")


@pytest.mark.fact("H-01g")
def test_a_temporary_leave_without_an_instance_id_is_invalid(wire: WireClient) -> None:
    assert is_invalid(refused(wire, STAY, member_epoch=-2), "InstanceId")


@pytest.mark.fact("H-01h")
def test_an_unknown_assignor_is_refused_with_the_names_of_the_known(
    wire: WireClient,
) -> None:
    answer = refused(wire, JOIN, server_assignor="sticky")
    assert answer.error_code == UNSUPPORTED_ASSIGNOR
    assert "uniform, range" in (answer.error_message or "")


@pytest.mark.fact("H-02")
def test_a_regular_expression_alone_is_a_subscription(
    wire: WireClient, group: str
) -> None:
    fields: dict[str, Any] = {
        "rebalance_timeout_ms": 10_000,
        "topic_partitions": [],
        "subscribed_topic_regex": f"{group}.*",
    }
    answer = heartbeat(wire, group, new_member_id(), 0, **fields)
    assert answer.error_code == 0
    assert answer.member_epoch > 0


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


@pytest.mark.fact("H-04")
def test_a_heartbeat_to_an_unknown_group_is_refused(
    wire: WireClient, group: str
) -> None:
    assert heartbeat(wire, group, "m", 100).error_code == GROUP_ID_NOT_FOUND


@pytest.mark.fact("H-05")
def test_a_heartbeat_of_an_unknown_member_is_refused(
    wire: WireClient, group: str, topic: str
) -> None:
    Beating(wire, group, topic)
    assert heartbeat(wire, group, "m", 100).error_code == UNKNOWN_MEMBER_ID


@pytest.mark.fact("H-06a", "H-06b", "H-06c", "H-06d")
@pytest.mark.parametrize("is_static", [False, True])
def test_the_previous_epoch_is_accepted_with_a_subset_of_the_partitions(
    wire: WireClient, group: str, topic: str, *, is_static: bool
) -> None:
    assign_at_once(wire, group)
    instance_id = "i" if is_static else None
    member = Beating(wire, group, topic, instance_id=instance_id).owning(2)
    for _ in range(2):
        member.beat(subscribed_topic_names=[topic, f"{group}-missing"])
        member.beat(subscribed_topic_names=[topic])
    previous, now, owned = member.epoch - 1, member.epoch, member.owned
    [(of_topic, partitions)] = owned.items()

    def sent(epoch: int, reported: dict[bytes, list[int]] | None) -> tuple[int, int]:
        listed = None if reported is None else topic_partitions(reported)
        answer = heartbeat(
            wire,
            group,
            member.id,
            epoch,
            instance_id=instance_id,
            topic_partitions=listed,
        )
        return answer.error_code, answer.member_epoch

    assert sent(now + 1, owned) == (FENCED_MEMBER_EPOCH, 0)
    assert sent(previous - 1, owned) == (FENCED_MEMBER_EPOCH, 0)
    assert sent(previous, None) == (FENCED_MEMBER_EPOCH, 0)
    assert sent(previous, {of_topic: [*partitions, 7]}) == (FENCED_MEMBER_EPOCH, 0)
    assert sent(previous, {bytes(15) + b"x": [0]}) == (FENCED_MEMBER_EPOCH, 0)
    assert sent(previous, {of_topic: partitions[:1]}) == (0, now)
    assert sent(previous, {}) == (0, now)
    assert sent(previous, owned) == (0, now)


@pytest.mark.fact("H-07")
def test_the_epoch_of_a_static_member_is_checked_too(
    wire: WireClient, group: str, topic: str
) -> None:
    member = Beating(wire, group, topic, instance_id="i")
    assert member.beat(epoch=member.epoch + 1).error_code == FENCED_MEMBER_EPOCH
    assert member.beat(epoch=member.epoch).error_code == 0


@pytest.mark.fact("H-08a", "H-08b", "H-08c")
def test_the_assignment_is_returned_when_it_is_new_or_asked_for(
    wire: WireClient, group: str, topic: str
) -> None:
    assign_at_once(wire, group)
    member = Beating(wire, group, topic).owning(2)
    everything = {topic_id(wire, topic): [0, 1]}
    assert member.owned == everything
    epoch = member.epoch
    assert member.beat().assignment is None
    full = member.beat(
        rebalance_timeout_ms=10_000,
        subscribed_topic_names=[topic],
        topic_partitions=topic_partitions(everything),
    )
    assert full.assignment is not None
    assert partitions_of(full.assignment) == everything
    assert full.member_epoch == epoch


@pytest.mark.fact("H-12")
def test_a_topic_created_later_is_assigned(
    wire: WireClient, group: str, name: str, new_topic: Callable[[str, int], str]
) -> None:
    assign_at_once(wire, group)
    member = Beating(wire, group, f"t-{name}-later")
    assert member.owned == {}
    epoch = member.epoch
    topic = new_topic("later", 3)

    def assigned() -> bool:
        assert member.beat().error_code == 0
        return bool(member.owned)

    eventually(assigned, expected="the partitions of the new topic")
    assert member.owned == {topic_id(wire, topic): [0, 1, 2]}
    assert member.epoch == epoch + 1


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


@pytest.mark.fact("H-14")
def test_a_stable_member_rejoins_with_epoch_0(
    wire: WireClient, group: str, topic: str
) -> None:
    assign_at_once(wire, group)
    member = Beating(wire, group, topic).owning(2)
    epoch, owned = member.epoch, member.owned
    again = member.join(topic)
    assert (again.error_code, again.member_epoch) == (0, epoch)
    assert again.assignment is not None
    assert partitions_of(again.assignment) == owned


@pytest.mark.fact("H-14")
def test_a_member_that_must_revoke_rejoins_with_epoch_0(
    wire: WireClient, group: str, topic: str
) -> None:
    assign_at_once(wire, group)
    first = Beating(wire, group, topic).owning(2)
    epoch = first.epoch
    second = Beating(wire, group, topic)
    first.beat()
    assert (first.epoch, len(first.owned)) == (epoch, 1)
    again = second.join(topic)  # waits for the partition of the first
    assert (again.error_code, again.member_epoch) == (0, epoch + 1)
    assert second.owned == {}
    again = first.join(topic)  # reports that it owns nothing
    assert (again.error_code, again.member_epoch) == (0, epoch + 1)
    assert [len(some) for some in first.owned.values()] == [1]
    second.beat()
    assert [len(some) for some in second.owned.values()] == [1]


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


@pytest.mark.fact("H-29a")
def test_a_group_reconciles_until_all_members_have_the_epoch_of_the_target(
    wire: WireClient, group: str, topic: str
) -> None:
    assign_at_once(wire, group)
    first = Beating(wire, group, topic).owning(2)
    assert describe_consumer(wire, group).group_state == "Stable"
    second = Beating(wire, group, topic)
    assert describe_consumer(wire, group).group_state == "Reconciling"
    first.beat()
    first.report()
    assert describe_consumer(wire, group).group_state == "Reconciling"
    second.beat()
    assert describe_consumer(wire, group).group_state == "Stable"
    for member in (first, second):
        assert leave_consumer(wire, group, member.id).error_code == 0
    assert describe_consumer(wire, group).group_state == "Empty"
