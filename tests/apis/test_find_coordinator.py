"""FindCoordinator over the wire: KIP-699's batches, and where errors stand."""

from __future__ import annotations

from typing import Any, Final

import pytest

from coterie.auth.authorizer import Operation, ResourceType
from coterie.wire.error_codes import ErrorCode
from coterie.wire.messages.find_coordinator import FindCoordinatorRequest
from tests.apis.live import Live, groups_on, node_of

GROUP: Final = 0
TRANSACTION: Final = 1
SHARE: Final = 2
ONE_KEY: Final = (1, 2, 3)
MANY_KEYS: Final = (4, 5, 6)


def look_up(live: Live, version: int, *keys: str, kind: int = GROUP) -> list[Any]:
    """What is said of each key, in the shape of v4 and later."""
    if version >= 4:
        request = FindCoordinatorRequest(key_type=kind, coordinator_keys=list(keys))
        return list(live.call(request, version).coordinators)
    return [
        live.call(FindCoordinatorRequest(key=key, key_type=kind), version)
        for key in keys
    ]


def denied(group: str) -> tuple[Operation, ResourceType, str]:
    return (Operation.DESCRIBE, ResourceType.GROUP, group)


@pytest.mark.parametrize("version", [0, *ONE_KEY, *MANY_KEYS])
@pytest.mark.fact("B-17")
def test_a_group_that_does_not_exist_has_a_coordinator(
    live: Live, version: int
) -> None:
    for node in (1, 2, 3):
        (group,) = groups_on(node, 1, "nobody")
        (found,) = look_up(live, version, group)
        assert (found.error_code, found.node_id) == (0, node)
        assert found.host == "127.0.0.1"


@pytest.mark.parametrize("version", MANY_KEYS)
@pytest.mark.fact("B-10")
def test_a_key_that_fails_harms_no_other_and_the_order_is_kept(
    live: Live, version: int
) -> None:
    keys = [*groups_on(3, 1, "a"), "secret", *groups_on(1, 1, "b")]
    with live.rules.deny(denied("secret")):
        found = look_up(live, version, *keys)
    assert [each.key for each in found] == keys
    assert [each.error_code for each in found] == [0, 30, 0]
    assert [each.node_id for each in found] == [3, -1, 1]


@pytest.mark.parametrize("version", MANY_KEYS)
@pytest.mark.fact("B-18")
def test_a_key_asked_for_twice_is_answered_twice(live: Live, version: int) -> None:
    found = look_up(live, version, "twice", "once", "twice")
    assert [each.key for each in found] == ["twice", "once", "twice"]
    assert found[0].node_id == found[2].node_id == node_of("twice")


@pytest.mark.parametrize("version", [0, *ONE_KEY, *MANY_KEYS])
@pytest.mark.fact("B-11")
def test_an_error_names_no_node(live: Live, version: int) -> None:
    with live.rules.deny(denied("secret")):
        (found,) = look_up(live, version, "secret")
    assert found.error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
    assert (found.node_id, found.host, found.port) == (-1, "", -1)


@pytest.mark.fact("B-12")
@pytest.mark.parametrize("version", ONE_KEY)
def test_up_to_v3_an_error_has_a_message(live: Live, version: int) -> None:
    with live.rules.deny(denied("secret")):
        (found,) = look_up(live, version, "secret")
    assert found.error_message


@pytest.mark.fact("B-12")
@pytest.mark.parametrize("version", MANY_KEYS)
def test_from_v4_on_an_error_has_no_message(live: Live, version: int) -> None:
    with live.rules.deny(denied("secret")):
        refused, found = look_up(live, version, "secret", "open")
    assert refused.error_code != 0
    assert refused.error_message is None
    assert found.error_message is None


@pytest.mark.fact("B-13")
@pytest.mark.parametrize("version", [1, 3, 6])
def test_a_transaction_is_looked_up_by_who_may_describe_it(
    live: Live, version: int
) -> None:
    rule = (Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, "pay")
    with live.rules.deny(rule):
        (refused,) = look_up(live, version, "pay", kind=TRANSACTION)
        (group,) = look_up(live, version, "pay", kind=GROUP)
    assert refused.error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert group.error_code == 0


@pytest.mark.fact("B-13")
def test_a_share_group_is_looked_up_by_the_cluster_only(live: Live) -> None:
    rule = (Operation.CLUSTER_ACTION, ResourceType.CLUSTER, "kafka-cluster")
    with live.rules.deny(rule):
        (found,) = look_up(live, 6, "g:t:0", kind=SHARE)
    assert found.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED


@pytest.mark.fact("B-14")
@pytest.mark.parametrize("version", [1, 3, 4, 5])
@pytest.mark.parametrize("kind", [SHARE, 9, -1])
def test_a_kind_of_key_that_the_version_does_not_know_is_invalid(
    live: Live, version: int, kind: int
) -> None:
    (found,) = look_up(live, version, "key", kind=kind)
    assert found.error_code == ErrorCode.INVALID_REQUEST
