"""AlterShareGroupOffsets (91) and DeleteShareGroupOffsets (92) by raw requests."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Any

import pytest

from coterie.wire import messages as m
from coterie.wire.error_codes import ErrorCode
from tests.broker.server.harness import WireClient
from tests.interop.exchanges.consumer_group import set_group_config
from tests.support.waiting import eventually

_NOT_YET = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
}
"""Kafka creates the topic of the state with the first request."""
NO_TOPIC = "This server does not host this topic-partition."
NO_OFFSETS = "There is no offset information to delete."


@pytest.fixture
def topic(wire: WireClient) -> str:
    name = f"share-{secrets.token_hex(4)}"
    created = m.CreatableTopic(name=name, num_partitions=2, replication_factor=1)
    wire.call(m.CreateTopicsRequest(topics=[created], timeout_ms=60_000), 7)
    asked = m.MetadataRequest(topics=[m.MetadataRequestTopic(name=name)])
    eventually(
        lambda: not wire.call(asked, 12).topics[0].error_code, expected=f"topic {name}"
    )
    # The coordinator of Kafka gets topics and configs in order.
    set_group_config(wire, f"group-of-{name}", "consumer.session.timeout.ms", "45001")
    return name


def alter(
    wire: WireClient, group: str, topic: str, offsets: dict[int, int]
) -> tuple[int, dict[int, tuple[int, str | None]]]:
    """Alter offsets; return the error, and that of each partition."""
    request = m.AlterShareGroupOffsetsRequest(
        group_id=group,
        topics=[
            m.AlterShareGroupOffsetsRequestTopic(
                topic_name=topic,
                partitions=[
                    m.AlterShareGroupOffsetsRequestPartition(
                        partition_index=index, start_offset=offset
                    )
                    for index, offset in offsets.items()
                ],
            )
        ],
    )
    found: Any = None

    def is_answered() -> bool:
        nonlocal found
        response = wire.call(request, 0)
        partitions = [each for some in response.responses for each in some.partitions]
        found = (
            response.error_code,
            {
                each.partition_index: (each.error_code, each.error_message)
                for each in partitions
            },
        )
        codes = {response.error_code, *(each.error_code for each in partitions)}
        return not codes & _NOT_YET

    eventually(is_answered, expected="an answer of the coordinator")
    error: int = found[0]
    return error, found[1]


def delete(
    wire: WireClient, group: str, topics: Sequence[str]
) -> tuple[int, dict[str, tuple[int, str | None]]]:
    """Delete offsets; return the error, and that of each topic."""
    request = m.DeleteShareGroupOffsetsRequest(
        group_id=group,
        topics=[
            m.DeleteShareGroupOffsetsRequestTopic(topic_name=each) for each in topics
        ],
    )
    response = wire.call(request, 0)
    return response.error_code, {
        each.topic_name: (each.error_code, each.error_message)
        for each in response.responses
    }


def start_offsets(wire: WireClient, group: str) -> dict[int, int]:
    request = m.DescribeShareGroupOffsetsRequest(
        groups=[m.DescribeShareGroupOffsetsRequestGroup(group_id=group, topics=None)]
    )
    [found] = wire.call(request, 1).groups
    return {
        each.partition_index: each.start_offset
        for topic in found.topics
        for each in topic.partitions
    }


@pytest.mark.fact("SG-082", "SG-084", "SG-086", "SG-087")
def test_start_offsets_are_altered_and_deleted(wire: WireClient, topic: str) -> None:
    group = f"group-of-{topic}"
    assert delete(wire, group, [topic])[0] == ErrorCode.GROUP_ID_NOT_FOUND
    assert alter(wire, group, topic, {0: 3, 5: 1}) == (
        0,
        {0: (0, None), 5: (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, NO_TOPIC)},
    )
    assert start_offsets(wire, group) == {0: 3}
    assert alter(wire, group, topic, {1: 4})[0] == 0
    assert start_offsets(wire, group) == {0: 3, 1: 4}
    [described] = wire.call(m.ShareGroupDescribeRequest(group_ids=[group]), 1).groups
    assert (described.group_state, described.group_epoch) == ("Empty", 1)
    missing = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert delete(wire, group, [topic, "none"]) == (
        0,
        {topic: (0, None), "none": (missing, NO_TOPIC)},
    )
    assert start_offsets(wire, group) == {}
    assert delete(wire, group, [topic]) == (0, {topic: (missing, NO_OFFSETS)})


@pytest.mark.fact("SG-081", "SG-086")
def test_a_group_with_members_keeps_its_start_offsets(
    wire: WireClient, topic: str
) -> None:
    group = f"group-of-{topic}"
    join = m.ShareGroupHeartbeatRequest(
        group_id=group, member_id="m", subscribed_topic_names=[topic]
    )
    assert wire.call(join, 1).error_code == 0
    assert alter(wire, group, topic, {0: 3}) == (ErrorCode.NON_EMPTY_GROUP, {})
    assert delete(wire, group, [topic]) == (ErrorCode.NON_EMPTY_GROUP, {})
    assert alter(wire, "", topic, {0: 3}) == (ErrorCode.INVALID_GROUP_ID, {})
