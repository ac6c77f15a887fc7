"""The end of the measurement of a group's formation."""

from __future__ import annotations

from unittest.mock import Mock
from uuid import UUID

import pytest

from benchmarks.beside.forming import has_formed
from benchmarks.peers.consumer_groups import JoinedMember
from coterie.wire import messages as m


def member(epoch: int, *partitions: int) -> JoinedMember:
    owned = [m.TopicPartitions(topic_id=UUID(int=1).bytes, partitions=list(partitions))]
    return JoinedMember(Mock(), "g", "m", epoch, owned)


def test_a_group_has_formed_with_one_partition_each_in_one_epoch() -> None:
    assert has_formed([member(3, 0), member(3, 1)])


@pytest.mark.parametrize(
    "members",
    [
        [member(1, 0, 1), member(1)],  # the first member joined alone
        [member(2, 0), member(3, 1)],  # one has not reached the target epoch
        [member(2, 0), JoinedMember(Mock(), "g", "m", 2)],  # never had an assignment
    ],
)
def test_a_group_in_rebalance_has_not_formed(members: list[JoinedMember]) -> None:
    assert not has_formed(members)
