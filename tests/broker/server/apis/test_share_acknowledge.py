"""ShareAcknowledge: validation, several partitions, and errors."""

from __future__ import annotations

import pytest

from tests.broker.server.apis.fake_broker import FakeBroker, allow_except
from tests.broker.server.apis.share_member import (
    ACCEPT,
    ShareMember,
    initialize,
    produce,
)

INVALID_REQUEST = 42


@pytest.fixture
def broker() -> FakeBroker:
    made = FakeBroker()
    made.create("a", partition_count=2)
    initialize(made, partitions=(0, 1))
    return made


@pytest.fixture
def member(broker: FakeBroker) -> ShareMember:
    made = ShareMember(broker, partitions=(0, 1))
    for index in range(2):
        produce(broker, *[b"x"] * 10, index=index)
    assert len(made.fetch()) == 2
    return made


@pytest.mark.fact("SG-055")
@pytest.mark.parametrize(
    "batches",
    [
        [(3, 2, [ACCEPT])],
        [(0, 4, [ACCEPT]), (3, 5, [ACCEPT])],
        [(0, 0, [])],
        [(0, 2, [ACCEPT, ACCEPT])],
        [(0, 0, [5])],
        [(0, 0, [-1])],
        [(0, 0, [4])],
    ],
)
def test_an_invalid_batch_refuses_its_partition_alone(
    member: ShareMember, batches: list[tuple[int, int, list[int]]]
) -> None:
    codes = member.codes({0: batches, 1: [(0, 9, [ACCEPT])]})
    assert codes == [INVALID_REQUEST, 0]
    assert member.codes({0: [(0, 9, [ACCEPT])]}) == [0]


def test_a_response_waits_for_all_partitions(
    broker: FakeBroker, member: ShareMember
) -> None:
    response = member.acknowledge({0: [(0, 9, [ACCEPT])], 1: [(0, 0, [ACCEPT])]})
    assert response.acquisition_lock_timeout_ms == 30_000
    [topic] = response.responses
    assert [part.partition_index for part in topic.partitions] == [0, 1]


def test_an_offset_can_be_named_twice_and_is_refused_then(member: ShareMember) -> None:
    assert member.codes({0: [(0, 4, [ACCEPT]), (4, 5, [ACCEPT])]}) == [121]


def test_an_empty_request_keeps_the_session(member: ShareMember) -> None:
    assert member.acknowledge({}).error_code == 0
    assert member.codes({0: [(0, 9, [ACCEPT])]}) == [0]


def test_the_final_epoch_closes_the_session(
    broker: FakeBroker, member: ShareMember
) -> None:
    member.epoch = -1
    assert member.codes({0: [(0, 4, [ACCEPT])]}) == [0]
    other = ShareMember(broker, "m2", partitions=(0, 1))
    fetched = other.fetch()
    assert {index: each.acquired for index, each in fetched.items()} == {
        0: [(5, 9, 2)],
        1: [(0, 9, 2)],
    }
    assert member.acknowledge({}).error_code == 122


def test_a_topic_without_read_is_refused(
    broker: FakeBroker, member: ShareMember
) -> None:
    broker.authorizer = allow_except(("READ", "a"))
    assert member.codes({0: [(0, 9, [ACCEPT])]}) == [29]


def test_another_node_does_not_lead_the_partition() -> None:
    broker = FakeBroker(nodes=2)
    broker.create("a", partition_count=2)
    initialize(broker, partitions=(0, 1))
    member = ShareMember(broker, partitions=(0,))
    member.fetch()
    response = member.acknowledge({1: [(0, 0, [ACCEPT])]})
    [part] = response.responses[0].partitions
    assert (part.error_code, part.current_leader.leader_id) == (6, 2)
