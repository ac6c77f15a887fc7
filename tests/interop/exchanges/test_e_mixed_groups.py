"""Classic members while a group is upgraded, and in a consumer group (E20)."""

from __future__ import annotations

from typing import Final

import pytest

from coterie.wire import messages as m
from tests.broker.server.harness import WireClient
from tests.support.waiting import eventually

from .conftest import Connect
from .members import join_classic, join_request
from .mixed_group import Group

REBALANCE: Final = 27
MEMBER_ID_REQUIRED: Final = 79


@pytest.fixture
def here(wire: WireClient, group: str, topic: str) -> Group:
    return Group(wire, group, topic)


@pytest.mark.fact("E20-13")
def test_an_upgrade_answers_a_waiting_join(connect: Connect, here: Group) -> None:
    classic = join_classic(here.wire, here.id, here.topic)
    other = connect()
    request = join_request(here.id, here.topic)
    required = other.call(request, 9)
    assert required.error_code == MEMBER_ID_REQUIRED
    request.member_id = required.member_id
    other.send(request, 9)
    eventually(
        lambda: here.beat(classic.id, classic.generation) == REBALANCE,
        expected="a join that waits",
    )
    assert here.rejoin("m").error_code == 0
    assert other.receive().error_code == REBALANCE


@pytest.mark.fact("E20-33")
def test_a_classic_member_of_a_consumer_group_commits_with_any_version(
    here: Group,
) -> None:
    here.consumer()
    joined = here.join("c")
    topic = m.OffsetCommitRequestTopic(
        name=here.topic,
        partitions=[
            m.OffsetCommitRequestPartition(partition_index=0, committed_offset=1)
        ],
    )
    request = m.OffsetCommitRequest(
        group_id=here.id,
        generation_id_or_member_epoch=joined.generation_id,
        member_id="c",
        topics=[topic],
    )
    for version in (2, 7, 8, 9):
        [found] = here.wire.call(request, version).topics
        assert [each.error_code for each in found.partitions] == [0], version
