"""The groups of a whole cluster, whatever the state of its brokers."""

from __future__ import annotations

from typing import Any

import pytest

from coterie.client.admin.group_values import GroupListing, GroupState, GroupType
from coterie.errors import ApiError, ClientError, ConnectionLost, UnsupportedByBroker
from coterie.wire.api import ApiKey
from coterie.wire.error_codes import ErrorCode
from coterie.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from coterie.wire.schema import Versions
from tests.client.admin.fleet import (
    IN_A_SECOND,
    KAFKA_0_11,
    KAFKA_2_8,
    NEW,
    ONCE,
    Fleet,
)
from tests.client.scripted import HANG_UP, SILENCE, in_turn

pytestmark = pytest.mark.asyncio

LOADING = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


def ids(groups: tuple[GroupListing, ...]) -> list[str]:
    return [group.group_id for group in groups]


@pytest.mark.fact("E28-06", "E29-01")
async def test_all_brokers_are_asked() -> None:
    async with Fleet(3) as fleet, fleet.admin() as admin:
        fleet.where = {"c": 0, "a": 1, "b": 2}
        listed = await admin.list_groups()
        assert ids(listed.groups) == ["a", "b", "c"]
        assert [group.coordinator_id for group in listed.groups] == [1, 2, 0]
        assert listed.errors == {}
        assert fleet.count(ListGroupsRequest) == 3


@pytest.mark.fact("E28-01", "E29-01")
@pytest.mark.parametrize(
    ("versions", "state", "kind"),
    [
        (KAFKA_0_11, None, None),
        (KAFKA_2_8, GroupState.EMPTY, None),
        (NEW, GroupState.EMPTY, GroupType.CLASSIC),
    ],
)
async def test_a_listing_tells_what_the_broker_can(
    versions: Any, state: GroupState | None, kind: GroupType | None
) -> None:
    async with Fleet(1, versions) as fleet, fleet.admin() as admin:
        fleet.where = {"g": 0}
        (group,) = (await admin.list_groups()).groups
        assert group == GroupListing("g", "consumer", state, kind, 0)


@pytest.mark.fact("E28-01", "E29-01")
async def test_filters_are_sent_in_kafkas_words() -> None:
    async with Fleet() as fleet, fleet.admin() as admin:
        await admin.list_groups(
            states=[GroupState.STABLE, GroupState.EMPTY], types=[GroupType.CONSUMER]
        )
        (request,) = fleet.asked(ListGroupsRequest)
        assert request.states_filter == ["Stable", "Empty"]
        assert request.types_filter == ["consumer"]


@pytest.mark.fact("E28-07")
@pytest.mark.parametrize(
    ("versions", "filters"),
    [
        (KAFKA_0_11, {"states": [GroupState.STABLE]}),
        (KAFKA_0_11, {"types": [GroupType.CLASSIC]}),
        (KAFKA_2_8, {"types": [GroupType.CLASSIC]}),
        (KAFKA_2_8, {"states": [GroupState.STABLE], "types": [GroupType.CLASSIC]}),
    ],
)
async def test_a_broker_that_cannot_filter_is_not_asked(
    versions: Any, filters: dict[str, Any]
) -> None:
    async with Fleet(1, versions) as fleet, fleet.admin() as admin:
        with pytest.raises(UnsupportedByBroker, match="is needed"):
            await admin.list_groups(**filters)
        assert fleet.count(ListGroupsRequest) == 0


@pytest.mark.fact("E28-07")
async def test_states_are_filtered_since_version_4() -> None:
    async with Fleet(1, KAFKA_2_8) as fleet, fleet.admin() as admin:
        await admin.list_groups(states=[GroupState.STABLE])
        (request,) = fleet.asked(ListGroupsRequest)
        assert request.states_filter == ["Stable"]


@pytest.mark.fact("E28-06")
async def test_a_broker_that_loads_is_asked_again() -> None:
    async with Fleet() as fleet, fleet.admin() as admin:
        fleet.brokers[0].answers[ApiKey.LIST_GROUPS] = in_turn(
            ListGroupsResponse(error_code=LOADING), ListGroupsResponse()
        )
        listed = await admin.list_groups()
        assert (listed.groups, listed.errors) == ((), {})
        assert fleet.count(ListGroupsRequest) == 2


@pytest.mark.fact("E28-06")
@pytest.mark.parametrize("code", [LOADING, ErrorCode.CLUSTER_AUTHORIZATION_FAILED])
async def test_what_a_broker_refuses_is_its_own_error(code: ErrorCode) -> None:
    async with Fleet(2) as fleet, fleet.admin(ONCE) as admin:
        fleet.where = {"a": 0, "b": 1}
        answer = ListGroupsResponse(error_code=code)
        fleet.brokers[1].answers[ApiKey.LIST_GROUPS] = lambda _: answer
        listed = await admin.list_groups()
        assert ids(listed.groups) == ["a"]
        error = listed.errors[1]
        assert isinstance(error, ApiError)
        assert error.code is code


async def test_a_dead_broker_hides_nobody_elses_groups() -> None:
    async with Fleet(2) as fleet, fleet.admin(ONCE) as admin:
        fleet.where = {"a": 0, "b": 1}
        fleet.brokers[1]._server.close()
        listed = await admin.list_groups()
        assert ids(listed.groups) == ["a"]
        assert isinstance(listed.errors[1], ConnectionLost)


async def test_a_broker_without_the_api_is_its_own_error() -> None:
    async with Fleet(2) as fleet, fleet.admin() as admin:
        fleet.where = {"a": 0}
        fleet.brokers[1].versions[ApiKey.LIST_GROUPS] = Versions(90, 91)
        listed = await admin.list_groups()
        assert ids(listed.groups) == ["a"]
        assert isinstance(listed.errors[1], UnsupportedByBroker)


async def test_a_cluster_that_cannot_be_reached_has_no_list() -> None:
    async with Fleet() as fleet, fleet.admin(ONCE) as admin:
        fleet.brokers[0]._server.close()
        with pytest.raises(ConnectionLost):
            await admin.list_groups()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("first", "expected"),
    [
        (SILENCE, "no answer within the 1000 ms of the whole call"),
        (HANG_UP, "closed the connection"),
    ],
)
async def test_at_the_deadline_the_last_failure_is_told(
    first: Any, expected: str
) -> None:
    async with Fleet() as fleet, fleet.admin(IN_A_SECOND) as admin:
        fleet.brokers[0].answers[ApiKey.METADATA] = in_turn(first, SILENCE)
        with pytest.raises(ClientError, match=expected):
            await admin.describe_cluster()


async def test_a_cluster_is_described_by_any_broker() -> None:
    async with Fleet(2) as fleet, fleet.admin() as admin:
        cluster = await admin.describe_cluster()
        assert (cluster.cluster_id, cluster.controller_id) == ("fleet", 0)
        assert [node.port for node in cluster.nodes] == [
            broker.port for broker in fleet.brokers
        ]
