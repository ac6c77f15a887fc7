"""Classic members while a group is upgraded, and in a consumer group (E20)."""

from __future__ import annotations

import pytest

from coterie.wire import messages as m
from tests.broker.server.harness import WireClient

from .mixed_group import Group


@pytest.fixture
def here(wire: WireClient, group: str, topic: str) -> Group:
    return Group(wire, group, topic)


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
