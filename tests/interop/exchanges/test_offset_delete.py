"""OffsetDelete: which offsets go, and where errors are placed."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import pytest

from coterie.wire import messages as m
from tests.broker.server.harness import WireClient

from .members import (
    Partition,
    commit,
    join_classic,
    join_consumer,
    leave_classic,
    leave_consumer,
)
from .test_offset_fetch import fetch

UNKNOWN_TOPIC_OR_PARTITION = 3
NON_EMPTY_GROUP = 68
GROUP_ID_NOT_FOUND = 69
GROUP_SUBSCRIBED_TO_TOPIC = 86


def request_of(group: str, partitions: Sequence[Partition]) -> m.OffsetDeleteRequest:
    return m.OffsetDeleteRequest(
        group_id=group,
        topics=[
            m.OffsetDeleteRequestTopic(
                name=name,
                partitions=[
                    m.OffsetDeleteRequestPartition(partition_index=index)
                    for topic, index in partitions
                    if topic == name
                ],
            )
            for name in dict.fromkeys(topic for topic, _ in partitions)
        ],
    )


def delete(
    wire: WireClient, group: str, *partitions: Partition
) -> tuple[int, dict[Partition, int]]:
    """Delete offsets; return the top-level error and that of each partition."""
    response = wire.call(request_of(group, partitions), 0)
    assert isinstance(response, m.OffsetDeleteResponse)
    return response.error_code, {
        (topic.name, each.partition_index): each.error_code
        for topic in response.topics
        for each in topic.partitions
    }


@pytest.mark.fact("D-50a", "D-50b")
def test_the_error_precedes_the_throttle_time(wire: WireClient, group: str) -> None:
    wire.send(request_of(group, [("t", 0)]), 0)
    frame = wire.receive_frame()
    assert struct.unpack(">ihii", frame) == (1, GROUP_ID_NOT_FOUND, 0, 0)


@pytest.mark.fact("D-52c")
def test_an_active_group_of_another_protocol_type_is_not_empty(
    wire: WireClient, group: str, topic: str
) -> None:
    member = join_classic(wire, group, topic, protocol_type="connect")
    commit(wire, group, {(topic, 0): 7}, member_id=member.id, epoch=member.generation)
    assert delete(wire, group, (topic, 0)) == (NON_EMPTY_GROUP, {})
    leave_classic(wire, group, member.id)
    assert delete(wire, group, (topic, 0)) == (0, {(topic, 0): 0})


@pytest.mark.fact("D-53a", "D-53b", "D-54b")
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_offsets_of_a_subscribed_topic_stay(
    wire: WireClient, group: str, topic: str, protocol: str
) -> None:
    commit(wire, group, {(topic, 0): 7})
    if protocol == "classic":
        member = join_classic(wire, group, topic).id
    else:
        member = join_consumer(wire, group, topic).id
    subscribed = {(topic, 0): GROUP_SUBSCRIBED_TO_TOPIC}
    assert delete(wire, group, (topic, 0)) == (0, subscribed)
    assert fetch(wire, group, None) == (0, {(topic, 0): (7, 0)})
    if protocol == "classic":
        leave_classic(wire, group, member)
    else:
        leave_consumer(wire, group, member)
    assert delete(wire, group, (topic, 0), (topic, 1)) == (
        0,
        {(topic, 0): 0, (topic, 1): 0},
    )
    assert fetch(wire, group, None) == (0, {})


@pytest.mark.fact("D-53b", "D-54a", "D-54b", "D-45")
def test_each_partition_is_judged_alone(
    wire: WireClient, group: str, topic: str
) -> None:
    commit(wire, group, {(topic, 0): 7, (topic, 1): 8})
    error, found = delete(wire, group, ("no-topic", 0), (topic, 9), (topic, 0))
    assert (error, found) == (
        0,
        {
            ("no-topic", 0): UNKNOWN_TOPIC_OR_PARTITION,
            (topic, 9): UNKNOWN_TOPIC_OR_PARTITION,
            (topic, 0): 0,
        },
    )
    assert fetch(wire, group, None) == (0, {(topic, 1): (8, 0)})
    assert delete(wire, group, (topic, 0)) == (0, {(topic, 0): 0})
