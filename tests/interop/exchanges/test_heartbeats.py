"""ConsumerGroupHeartbeat: changed subscriptions, their epochs and revocations.

Epochs are compared with each other: Kafka's first group epoch is 2, Coterie's is 1.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from coterie.wire import messages as m
from tests.broker.server.harness import WireClient
from tests.support.waiting import eventually

from .members import (
    ConsumerMember,
    describe_consumer,
    heartbeat,
    join_consumer,
    leave_consumer,
    topic_id,
)

GROUP_RESOURCE = 32
JOINING = {"rebalance_timeout_ms": 30_000, "topic_partitions": []}


def wait_until_known(wire: WireClient, group: str, topic: str) -> str:
    """Wait until the coordinator of the group knows the topic; return the topic.

    Kafka's coordinator loads new metadata later than the broker that describes it.
    """

    def is_known() -> bool:
        member = join_consumer(wire, group, topic)
        leave_consumer(wire, group, member.id)
        wire.call(m.DeleteGroupsRequest(groups_names=[group]), 2)
        return bool(member.assigned)

    eventually(is_known, expected=f"partitions of {topic}")
    return topic


@pytest.fixture
def known_topic(wire: WireClient, group: str, topic: str) -> str:
    """A topic of two partitions that the coordinator of the group knows."""
    return wait_until_known(wire, group, topic)


def set_assignment_interval(wire: WireClient, group: str, interval_ms: int) -> None:
    """Set the least time between two targets of the group."""
    config = m.IncrementalAlterableConfig(
        name="consumer.assignment.interval.ms", value=str(interval_ms)
    )
    resource = m.IncrementalAlterConfigsResource(
        resource_type=GROUP_RESOURCE, resource_name=group, configs=[config]
    )
    [answer] = wire.call(
        m.IncrementalAlterConfigsRequest(resources=[resource]), 1
    ).responses
    assert answer.error_code == 0, answer


def partitions(assignment: m.Assignment | None) -> list[int]:
    """Return the partitions of an assignment that the response must contain."""
    assert assignment is not None
    return sorted(p for topic in assignment.topic_partitions for p in topic.partitions)


def owned(wire: WireClient, topic: str, *of_topic: int) -> list[m.TopicPartitions]:
    return [m.TopicPartitions(topic_id=topic_id(wire, topic), partitions=[*of_topic])]


def wait_for_target(
    wire: WireClient, group: str, member: ConsumerMember, above: int
) -> None:
    """Heartbeat until the member has an epoch above another."""
    epoch = member.epoch

    def has_new_target() -> bool:
        nonlocal epoch
        if epoch <= above:
            epoch = heartbeat(wire, group, member.id, epoch).member_epoch
        return epoch > above

    eventually(has_new_target, expected=f"an epoch above {above}")


@pytest.mark.fact("E5-05b")
@pytest.mark.parametrize("rejoins", [False, True])
def test_a_member_gets_its_own_revoked_partitions_back_at_once(
    wire: WireClient, group: str, known_topic: str, rejoins: bool
) -> None:
    set_assignment_interval(wire, group, 15_000)
    member = join_consumer(wire, group, known_topic)
    revoking = heartbeat(
        wire, group, member.id, member.epoch, subscribed_topic_names=[]
    )
    assert partitions(revoking.assignment) == []
    assert revoking.member_epoch == member.epoch
    back = heartbeat(
        wire,
        group,
        member.id,
        0 if rejoins else member.epoch,
        subscribed_topic_names=[known_topic],
        **JOINING,
    )
    assert partitions(back.assignment) == [0, 1]
    assert back.member_epoch == member.epoch


@pytest.mark.fact("E5-11", "E5-02a")
def test_a_member_revokes_for_two_targets_without_a_new_epoch(
    wire: WireClient, group: str, new_topic: Callable[[str, int], str]
) -> None:
    topic = wait_until_known(wire, group, new_topic("three", 3))
    set_assignment_interval(wire, group, 0)
    first = join_consumer(wire, group, topic, member_id="a", server_assignor="range")
    second = join_consumer(wire, group, topic, member_id="b")
    wait_for_target(wire, group, second, above=first.epoch)
    revoking = heartbeat(wire, group, "a", first.epoch)
    assert partitions(revoking.assignment) == [0, 1]
    third = join_consumer(wire, group, topic, member_id="c")
    wait_for_target(
        wire, group, third, above=describe_consumer(wire, group).group_epoch - 1
    )
    again = heartbeat(
        wire, group, "a", first.epoch, topic_partitions=owned(wire, topic, 0, 1)
    )
    assert partitions(again.assignment) == [0]
    assert again.member_epoch == first.epoch
    reached = heartbeat(
        wire, group, "a", first.epoch, topic_partitions=owned(wire, topic, 0)
    )
    assert reached.member_epoch == describe_consumer(wire, group).group_epoch


@pytest.mark.fact("E5-15")
def test_another_expression_revokes_the_topics_of_the_first_at_once(
    wire: WireClient, group: str, known_topic: str
) -> None:
    member = join_consumer(wire, group, subscribed_topic_regex=known_topic)
    last = heartbeat(wire, group, member.id, member.epoch)

    def is_assigned() -> bool:
        nonlocal last
        if last.assignment is None:
            last = heartbeat(wire, group, member.id, last.member_epoch)
        return last.assignment is not None

    eventually(is_assigned, expected="the topic of the expression")
    assert partitions(last.assignment) == [0, 1]
    epoch = describe_consumer(wire, group).group_epoch
    changed = heartbeat(
        wire,
        group,
        member.id,
        last.member_epoch,
        subscribed_topic_regex=f"{known_topic}x*",
    )
    assert partitions(changed.assignment) == []
    assert changed.member_epoch == last.member_epoch == epoch


@pytest.mark.fact("E6-01a")
@pytest.mark.parametrize("regex", [None, "", "no-topic-has-this-name"])
def test_a_member_that_subscribes_to_nothing_joins_without_a_new_epoch(
    wire: WireClient, group: str, known_topic: str, regex: str | None
) -> None:
    first = join_consumer(wire, group, known_topic)
    second = join_consumer(wire, group, subscribed_topic_regex=regex)
    assert second.epoch == first.epoch
    assert second.assigned == []
    assert describe_consumer(wire, group).group_epoch == first.epoch


def test_a_first_member_without_topics_does_not_delay_the_next_target(
    wire: WireClient, group: str, known_topic: str
) -> None:
    set_assignment_interval(wire, group, 15_000)
    member = join_consumer(wire, group)
    subscribed = heartbeat(
        wire, group, member.id, member.epoch, subscribed_topic_names=[known_topic]
    )
    assert partitions(subscribed.assignment) == [0, 1]
    assert subscribed.member_epoch == member.epoch + 1


@pytest.mark.fact("E6-07")
def test_another_assignor_of_the_group_bumps_its_epoch(
    wire: WireClient, group: str, known_topic: str
) -> None:
    member = join_consumer(wire, group, known_topic)
    heartbeat(wire, group, member.id, member.epoch, server_assignor="uniform")
    described = describe_consumer(wire, group)
    assert (described.assignor_name, described.group_epoch) == ("uniform", member.epoch)
    heartbeat(wire, group, member.id, member.epoch, server_assignor="range")
    described = describe_consumer(wire, group)
    assert (described.assignor_name, described.group_epoch) == (
        "range",
        member.epoch + 1,
    )
