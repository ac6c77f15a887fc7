"""DeleteGroups: which groups go, and what it answers for the others."""

from __future__ import annotations

import pytest

from coterie.wire.messages.delete_groups import DeleteGroupsRequest
from tests.broker.server.harness import WireClient

from .members import (
    commit,
    describe_consumer,
    join_classic,
    join_consumer,
    leave_consumer,
)

NON_EMPTY_GROUP = 68
GROUP_ID_NOT_FOUND = 69


def delete(wire: WireClient, *groups: str, version: int = 2) -> list[tuple[str, int]]:
    results = wire.call(DeleteGroupsRequest(groups_names=list(groups)), version).results
    return sorted((each.group_id, each.error_code) for each in results)


@pytest.mark.fact("D-10", "D-11", "D-13")
def test_each_group_of_a_request_is_judged_alone(
    wire: WireClient, group: str, topic: str
) -> None:
    commit(wire, f"{group}-1", {(topic, 0): 5})
    join_classic(wire, f"{group}-2", topic)
    join_consumer(wire, f"{group}-3", topic)
    assert delete(wire, *(f"{group}-{i}" for i in range(1, 5))) == [
        (f"{group}-1", 0),
        (f"{group}-2", NON_EMPTY_GROUP),
        (f"{group}-3", NON_EMPTY_GROUP),
        (f"{group}-4", GROUP_ID_NOT_FOUND),
    ]


@pytest.mark.fact("D-10")
def test_a_consumer_group_is_deleted_once_it_is_empty(
    wire: WireClient, group: str, topic: str
) -> None:
    member = join_consumer(wire, group, topic)
    assert delete(wire, group) == [(group, NON_EMPTY_GROUP)]
    assert leave_consumer(wire, group, member.id).error_code == 0
    assert delete(wire, group) == [(group, 0)]
    assert describe_consumer(wire, group).error_code == GROUP_ID_NOT_FOUND
