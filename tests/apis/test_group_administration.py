"""Describe, list and delete groups over the wire: each group on its own."""

from __future__ import annotations

from typing import Final

import pytest

from coterie.auth.authorizer import Operation, ResourceType
from coterie.runtime.shards import Phase
from coterie.wire.error_codes import ErrorCode
from coterie.wire.messages.delete_groups import DeleteGroupsRequest
from coterie.wire.messages.describe_groups import DescribeGroupsRequest
from coterie.wire.messages.list_groups import ListGroupsRequest
from tests.apis.live import Live, groups_on

TOPIC: Final = "administered"
NOT_ASKED: Final = -(2**31)
GROUP_OPERATIONS: Final = (
    Operation.READ,
    Operation.DELETE,
    Operation.DESCRIBE,
    Operation.DESCRIBE_CONFIGS,
    Operation.ALTER_CONFIGS,
)


@pytest.fixture(scope="session", autouse=True)
def topic(live: Live) -> None:
    live.create_topic(TOPIC)


def kept(live: Live, node: int, count: int, prefix: str) -> list[str]:
    """Groups that have committed something, on one node, each in its own shard."""
    groups = groups_on(node, count, prefix)
    for group in groups:
        live.commit(group, TOPIC)
    return groups


def delete(live: Live, node: int, version: int, *groups: str) -> list[tuple[str, int]]:
    request = DeleteGroupsRequest(groups_names=list(groups))
    results = live.call(request, version, node=node).results
    return [(each.group_id, each.error_code) for each in results]


def listed(live: Live, node: int) -> set[str]:
    response = live.call(ListGroupsRequest(), 5, node=node)
    assert response.error_code == 0
    return {each.group_id for each in response.groups}


@pytest.mark.parametrize("version", range(4))
@pytest.mark.fact("D-02", "D-34")
def test_each_group_is_deleted_or_refused_on_its_own(live: Live, version: int) -> None:
    mine, secret = kept(live, 1, 2, f"mixed-{version}")
    (elsewhere,) = kept(live, 2, 1, f"mixed-{version}")
    (nobody,) = groups_on(1, 1, f"nobody-{version}")
    with live.rules.deny((Operation.DELETE, ResourceType.GROUP, secret)):
        results = delete(live, 1, version, secret, mine, nobody, elsewhere)
    assert dict(results) == {
        secret: ErrorCode.GROUP_AUTHORIZATION_FAILED,
        mine: ErrorCode.NONE,
        nobody: ErrorCode.GROUP_ID_NOT_FOUND,
        elsewhere: ErrorCode.NOT_COORDINATOR,
    }
    assert listed(live, 1) & {mine, secret} == {secret}
    assert elsewhere in listed(live, 2)


@pytest.mark.fact("D-35")
def test_an_authorizer_is_asked_though_nobody_has_logged_in(live: Live) -> None:
    (group,) = kept(live, 1, 1, "anonymous")
    with live.rules.deny((Operation.DELETE, ResourceType.GROUP, group)):
        refused = delete(live, 1, 2, group)
    assert refused == [(group, ErrorCode.GROUP_AUTHORIZATION_FAILED)]
    assert delete(live, 1, 2, group) == [(group, 0)]


@pytest.mark.parametrize("version", range(4))
@pytest.mark.fact("D-16")
def test_an_id_that_is_repeated_counts_once(live: Live, version: int) -> None:
    (group,) = kept(live, 3, 1, f"twice-{version}")
    assert delete(live, 3, version, group, group, group) == [(group, 0)]


@pytest.mark.fact("D-17")
def test_a_shard_that_is_loading_marks_its_own_ids_only(live: Live) -> None:
    loading, active, gone = kept(live, 2, 3, "spread")
    with (
        live.phase(loading, Phase.LOADING),
        live.phase(gone, Phase.STOPPED),
    ):
        results = delete(live, 2, 2, loading, active, gone)
    assert dict(results) == {
        loading: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        active: ErrorCode.NONE,
        gone: ErrorCode.NOT_COORDINATOR,
    }


@pytest.mark.parametrize("version", range(7))
@pytest.mark.fact("C-25", "H-113")
def test_each_group_is_described_or_refused_on_its_own(
    live: Live, version: int
) -> None:
    fine, secret, loading = kept(live, 1, 3, f"described-{version}")
    request = DescribeGroupsRequest(groups=[secret, fine, loading])
    with (
        live.rules.deny((Operation.DESCRIBE, ResourceType.GROUP, secret)),
        live.phase(loading, Phase.LOADING),
    ):
        groups = live.call(request, version).groups
    assert [(each.group_id, each.error_code) for each in groups] == [
        (secret, ErrorCode.GROUP_AUTHORIZATION_FAILED),
        (fine, 0),
        (loading, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
    ]
    assert groups[1].group_state == "Empty"


@pytest.mark.parametrize("version", range(3, 7))
@pytest.mark.fact("C-25")
def test_authorised_operations_are_told_if_asked_for_and_without_error(
    live: Live, version: int
) -> None:
    fine, secret = kept(live, 1, 2, f"operations-{version}")
    request = DescribeGroupsRequest(
        groups=[fine, secret], include_authorized_operations=True
    )
    with live.rules.deny(
        (Operation.DESCRIBE, ResourceType.GROUP, secret),
        (Operation.DELETE, ResourceType.GROUP, fine),
    ):
        groups = live.call(request, version).groups
    may = sum(1 << each for each in GROUP_OPERATIONS if each != Operation.DELETE)
    assert [each.authorized_operations for each in groups] == [may, NOT_ASKED]
    request = DescribeGroupsRequest(groups=[fine])
    (group,) = live.call(request, version).groups
    assert group.authorized_operations == NOT_ASKED


def test_only_groups_that_may_be_described_are_listed(live: Live) -> None:
    fine, secret = kept(live, 1, 2, "listed")
    cluster = (Operation.DESCRIBE, ResourceType.CLUSTER, "kafka-cluster")
    group = (Operation.DESCRIBE, ResourceType.GROUP, secret)
    with live.rules.deny(cluster, group):
        assert listed(live, 1) & {fine, secret} == {fine}
    with live.rules.deny(group):  # who may describe the cluster sees all of them
        assert listed(live, 1) >= {fine, secret}


@pytest.mark.fact("H-117", "E28-06")
def test_a_shard_that_moved_is_left_out_of_the_list_another_error_fails_it(
    live: Live,
) -> None:
    stays, moves = kept(live, 1, 2, "moving")
    (elsewhere,) = kept(live, 3, 1, "moving")
    with live.phase(moves, Phase.STOPPED):
        assert listed(live, 1) & {stays, moves, elsewhere} == {stays}
    with live.phase(moves, Phase.LOADING):
        response = live.call(ListGroupsRequest(), 5)
    assert response.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert response.groups == []
    assert elsewhere in listed(live, 3)
