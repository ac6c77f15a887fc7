"""DescribeShareGroupOffsets: start offsets and lag."""

from __future__ import annotations

from typing import Any

import pytest

from coterie.wire import messages as m
from tests.broker.server.apis.fake_broker import FakeBroker
from tests.broker.server.apis.share_member import (
    ACCEPT,
    GROUP,
    REJECT,
    ShareMember,
    initialize,
    produce,
)


@pytest.fixture
def broker() -> FakeBroker:
    made = FakeBroker()
    made.create("a", partition_count=3)
    initialize(made, partitions=(0, 1))
    initialize(made, partitions=(2,), start_offset=-1)
    return made


def describe(
    broker: FakeBroker, *partitions: int, topic: str = "a", group: str = GROUP
) -> Any:
    request = m.DescribeShareGroupOffsetsRequest(
        groups=[
            m.DescribeShareGroupOffsetsRequestGroup(
                group_id=group,
                topics=[
                    m.DescribeShareGroupOffsetsRequestTopic(
                        topic_name=topic, partitions=list(partitions)
                    )
                ],
            )
        ]
    )
    [described] = broker.call(request, 1).groups
    assert described.error_code == 0
    return described.topics[0]


def rows(topic: Any) -> list[tuple[int, int, int]]:
    return [
        (part.partition_index, part.start_offset, part.lag) for part in topic.partitions
    ]


@pytest.mark.fact("SG-079")
def test_the_lag_counts_what_is_still_to_be_delivered(broker: FakeBroker) -> None:
    produce(broker, *[b"x"] * 10)
    assert rows(describe(broker, 0)) == [(0, 0, 10)]
    member = ShareMember(broker)
    member.take()
    assert member.codes({0: [(0, 1, [ACCEPT]), (5, 5, [REJECT])]}) == [0]
    assert rows(describe(broker, 0)) == [(0, 0, 7)]
    assert member.codes({0: [(2, 2, [ACCEPT])]}) == [0]
    assert rows(describe(broker, 0)) == [(0, 2, 6)]


def test_a_partition_without_a_start_offset_has_no_lag(broker: FakeBroker) -> None:
    produce(broker, b"x", index=2)
    assert rows(describe(broker, 2, 1)) == [(2, -1, -1), (1, 0, 0)]


@pytest.mark.parametrize("index", [-1, -(2**31), 3, 2**31 - 1])
def test_a_partition_that_does_not_exist_has_no_offset(
    broker: FakeBroker, index: int
) -> None:
    assert rows(describe(broker, index, 0)) == [(index, -1, -1), (0, 0, 0)]


def test_unknown_groups_and_topics_have_no_offset(broker: FakeBroker) -> None:
    assert rows(describe(broker, 0, group="other")) == [(0, -1, -1)]
    topic = describe(broker, 0, topic="none")
    assert rows(topic) == [(0, -1, -1)]
    assert topic.topic_id == bytes(16)
    assert [part.error_code for part in topic.partitions] == [0]


def test_a_state_is_loaded_to_be_described(broker: FakeBroker) -> None:
    broker.restart()
    assert rows(describe(broker, 0, 1)) == [(0, 0, 0), (1, 0, 0)]
