"""Tests for listing the groups of a cluster with unavailable and old brokers."""

from __future__ import annotations

from typing import Any

import pytest

from coterie.client.admin.groups import GroupListing, GroupState, GroupType
from coterie.errors import ApiError, ClientError, ConnectionLost, UnsupportedByBroker
from coterie.wire import messages as m
from coterie.wire.api import ApiKey
from coterie.wire.error_codes import ErrorCode
from coterie.wire.schema import Versions
from tests.client.admin.scripted_coordinators import (
    IN_A_SECOND,
    KAFKA_0_11,
    KAFKA_2_8,
    NEW,
    ONCE,
    ScriptedCoordinators,
)
from tests.client.scripted_broker import HANG_UP, SILENCE, in_turn

pytestmark = pytest.mark.asyncio

LOADING = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


def ids(groups: tuple[GroupListing, ...]) -> list[str]:
    return [group.group_id for group in groups]


@pytest.mark.fact("E28-06", "E29-01")
async def test_list_groups_is_sent_to_every_broker() -> None:
    async with ScriptedCoordinators(3) as coordinators, coordinators.admin() as admin:
        coordinators.where = {"c": 0, "a": 1, "b": 2}
        listed = await admin.list_groups()
        assert ids(listed.groups) == ["a", "b", "c"]
        assert [group.coordinator_id for group in listed.groups] == [1, 2, 0]
        assert listed.errors == {}
        assert coordinators.count(m.ListGroupsRequest) == 3


@pytest.mark.fact("E29-01")
@pytest.mark.parametrize(
    ("versions", "state", "kind"),
    [
        (KAFKA_0_11, None, None),
        (KAFKA_2_8, GroupState.EMPTY, None),
        (NEW, GroupState.EMPTY, GroupType.CLASSIC),
    ],
)
async def test_a_listing_has_the_fields_of_the_brokers_version(
    versions: Any, state: GroupState | None, kind: GroupType | None
) -> None:
    async with (
        ScriptedCoordinators(1, versions) as coordinators,
        coordinators.admin() as admin,
    ):
        coordinators.where = {"g": 0}
        listings = await admin.list_groups()
        assert listings.groups == (GroupListing("g", "consumer", state, kind, 0),)
        assert listings.classic_only == (set() if kind else {0})


async def test_a_broker_between_kip_848_and_list_groups_v5_may_have_other_groups() -> (
    None
):
    versions = {**KAFKA_2_8, ApiKey.CONSUMER_GROUP_DESCRIBE: Versions(0, 0)}
    async with (
        ScriptedCoordinators(1, versions) as coordinators,
        coordinators.admin() as admin,
    ):
        assert (await admin.list_groups()).classic_only == set()


@pytest.mark.fact("E29-01")
async def test_list_groups_filters_are_sent_with_the_names_that_kafka_uses() -> None:
    async with ScriptedCoordinators() as coordinators, coordinators.admin() as admin:
        await admin.list_groups(
            states=[GroupState.STABLE, GroupState.EMPTY], types=[GroupType.CONSUMER]
        )
        (request,) = coordinators.asked(m.ListGroupsRequest)
        assert request.states_filter == ["Stable", "Empty"]
        assert request.types_filter == ["consumer"]


@pytest.mark.fact("E28-07", "E28-07a")
@pytest.mark.parametrize(
    ("versions", "filters"),
    [
        (KAFKA_0_11, {"states": [GroupState.STABLE]}),
        (KAFKA_0_11, {"types": [GroupType.CLASSIC]}),
        (KAFKA_2_8, {"types": [GroupType.CLASSIC]}),
        (KAFKA_2_8, {"types": [GroupType.CONSUMER]}),
        (KAFKA_2_8, {"states": [GroupState.STABLE], "types": [GroupType.CLASSIC]}),
    ],
)
async def test_a_filter_on_an_old_broker_raises(
    versions: Any, filters: dict[str, Any]
) -> None:
    async with (
        ScriptedCoordinators(1, versions) as coordinators,
        coordinators.admin() as admin,
    ):
        with pytest.raises(UnsupportedByBroker, match="is needed"):
            await admin.list_groups(**filters)
        assert coordinators.count(m.ListGroupsRequest) == 0


@pytest.mark.fact("E28-07")
async def test_states_are_filtered_from_version_4_on() -> None:
    async with (
        ScriptedCoordinators(1, KAFKA_2_8) as coordinators,
        coordinators.admin() as admin,
    ):
        await admin.list_groups(states=[GroupState.STABLE])
        (request,) = coordinators.asked(m.ListGroupsRequest)
        assert request.states_filter == ["Stable"]


async def test_a_loading_broker_is_retried() -> None:
    async with ScriptedCoordinators() as coordinators, coordinators.admin() as admin:
        coordinators.brokers[0].answers[ApiKey.LIST_GROUPS] = in_turn(
            m.ListGroupsResponse(error_code=LOADING), m.ListGroupsResponse()
        )
        listed = await admin.list_groups()
        assert (listed.groups, listed.errors) == ((), {})
        assert coordinators.count(m.ListGroupsRequest) == 2


@pytest.mark.fact("E28-06")
@pytest.mark.parametrize("code", [LOADING, ErrorCode.CLUSTER_AUTHORIZATION_FAILED])
async def test_a_list_groups_error_belongs_to_its_broker(code: ErrorCode) -> None:
    async with (
        ScriptedCoordinators(2) as coordinators,
        coordinators.admin(ONCE) as admin,
    ):
        coordinators.where = {"a": 0, "b": 1}
        answer = m.ListGroupsResponse(error_code=code)
        coordinators.brokers[1].answers[ApiKey.LIST_GROUPS] = lambda _: answer
        listed = await admin.list_groups()
        assert ids(listed.groups) == ["a"]
        error = listed.errors[1]
        assert isinstance(error, ApiError)
        assert error.code is code


async def test_an_unavailable_broker_does_not_affect_other_listings() -> None:
    async with (
        ScriptedCoordinators(2) as coordinators,
        coordinators.admin(ONCE) as admin,
    ):
        coordinators.where = {"a": 0, "b": 1}
        coordinators.brokers[1]._server.close()
        listed = await admin.list_groups()
        assert ids(listed.groups) == ["a"]
        assert isinstance(listed.errors[1], ConnectionLost)


async def test_a_broker_without_list_groups_has_its_own_error() -> None:
    async with ScriptedCoordinators(2) as coordinators, coordinators.admin() as admin:
        coordinators.where = {"a": 0}
        coordinators.brokers[1].versions[ApiKey.LIST_GROUPS] = Versions(90, 91)
        listed = await admin.list_groups()
        assert ids(listed.groups) == ["a"]
        assert isinstance(listed.errors[1], UnsupportedByBroker)


async def test_list_groups_raises_when_no_broker_is_reachable() -> None:
    async with (
        ScriptedCoordinators() as coordinators,
        coordinators.admin(ONCE) as admin,
    ):
        coordinators.brokers[0]._server.close()
        with pytest.raises(ConnectionLost):
            await admin.list_groups()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("first", "expected"),
    [
        (SILENCE, "no response within the call's 1000 ms"),
        (HANG_UP, "closed the connection"),
    ],
)
async def test_the_last_failure_is_raised_at_the_deadline(
    first: Any, expected: str
) -> None:
    async with (
        ScriptedCoordinators() as coordinators,
        coordinators.admin(IN_A_SECOND) as admin,
    ):
        coordinators.brokers[0].answers[ApiKey.METADATA] = in_turn(first, SILENCE)
        with pytest.raises(ClientError, match=expected):
            await admin.describe_cluster()


async def test_a_cluster_is_described_by_any_broker() -> None:
    async with ScriptedCoordinators(2) as coordinators, coordinators.admin() as admin:
        cluster = await admin.describe_cluster()
        assert (cluster.cluster_id, cluster.controller_id) == ("coordinators", 0)
        assert [node.port for node in cluster.nodes] == [
            broker.port for broker in coordinators.brokers
        ]
