"""Tests for calls about many groups: number of requests, retries and errors."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from coterie.client import cluster
from coterie.client.admin.group_offsets import OFFSETS_CHUNK
from coterie.client.admin.routing import GROUP_CHUNK, is_representable
from coterie.client.cluster import (
    TRANSACTION,
    find_coordinator_request,
    read_find_coordinator,
)
from coterie.errors import (
    ApiError,
    ConnectionLost,
    MalformedFrame,
    NoBatchedFindCoordinatorsError,
    RequestTimedOut,
    UnsupportedByBroker,
)
from coterie.wire import messages as m
from coterie.wire.api import ApiKey
from coterie.wire.error_codes import ErrorCode
from tests.client.admin.scripted_coordinators import (
    IN_A_SECOND,
    KAFKA_0_11,
    KAFKA_2_8,
    ONCE,
    ScriptedCoordinators,
    classics,
    refused,
)
from tests.client.scripted_broker import HANG_UP, SILENCE, in_turn

pytestmark = pytest.mark.asyncio

MANY = [f"group {number}" for number in range(3 * GROUP_CHUNK + 1)]
LOADING = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


def code_of(error: BaseException) -> ErrorCode:
    assert isinstance(error, ApiError)
    return error.code


# The number of requests.


@pytest.mark.fact("B-20", "B-26", "B-28")
async def test_groups_of_one_coordinator_are_described_together() -> None:
    async with ScriptedCoordinators() as coordinators, coordinators.admin() as admin:
        coordinators.consumer_groups = set(MANY[1::2])
        described = await admin.groups.describe(MANY)
        assert list(described.all()) == MANY
        assert coordinators.count(m.FindCoordinatorRequest) == 1
        assert coordinators.count(m.ConsumerGroupDescribeRequest) == 4
        assert coordinators.count(m.DescribeGroupsRequest) == 4


@pytest.mark.fact("B-27", "B-28")
async def test_offsets_of_one_coordinators_groups_are_fetched_together() -> None:
    async with ScriptedCoordinators() as coordinators, coordinators.admin() as admin:
        found = await admin.group_offsets.fetch_many(dict.fromkeys(MANY))
        assert len(found.all()) == len(MANY)
        assert coordinators.count(m.FindCoordinatorRequest) == 1
        assert coordinators.count(m.OffsetFetchRequest) == -(
            -len(MANY) // OFFSETS_CHUNK
        )


@pytest.mark.fact("B-26")
async def test_groups_of_one_coordinator_are_deleted_together() -> None:
    async with ScriptedCoordinators() as coordinators, coordinators.admin() as admin:
        assert (await admin.groups.delete(MANY[:100])).all()
        assert coordinators.count(m.FindCoordinatorRequest) == 1
        assert coordinators.count(m.DeleteGroupsRequest) == 1


async def test_a_cached_coordinator_is_not_looked_up_again() -> None:
    async with ScriptedCoordinators() as coordinators, coordinators.admin() as admin:
        await admin.groups.describe(["a", "b"])
        await admin.groups.describe(["b", "a", "b"])
        assert coordinators.count(m.FindCoordinatorRequest) == 1


async def test_many_lookups_are_sent_in_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "LOOKUP_CHUNK", 10)
    async with ScriptedCoordinators() as coordinators, coordinators.admin() as admin:
        assert len((await admin.groups.find_coordinators(MANY[:25])).all()) == 25
        assert coordinators.count(m.FindCoordinatorRequest) == 3


@pytest.mark.fact("B-28")
async def test_each_broker_gets_its_own_groups_in_one_request() -> None:
    async with ScriptedCoordinators(3) as coordinators, coordinators.admin() as admin:
        coordinators.where = {group: at % 3 for at, group in enumerate(MANY[:30])}
        described = await admin.groups.describe(MANY[:30])
        for broker in coordinators.brokers:
            (request,) = broker.asked_of(m.DescribeGroupsRequest)
            assert sorted(request.groups) == sorted(
                group
                for group, at in coordinators.where.items()
                if at == broker.node_id
            )
        node_ids = {group.coordinator.node_id for group in described.all().values()}
        assert node_ids == {0, 1, 2}


# Brokers without batched FindCoordinator.


@pytest.mark.fact("B-20", "B-21", "B-22a", "B-22b")
async def test_an_old_find_coordinator_request_has_one_key() -> None:
    assert find_coordinator_request(["a", "b"], 4).coordinator_keys == ["a", "b"]
    assert find_coordinator_request(["a"], 3).key == "a"
    assert find_coordinator_request(["a"], 4).key == ""
    assert issubclass(NoBatchedFindCoordinatorsError, UnsupportedByBroker)
    with pytest.raises(NoBatchedFindCoordinatorsError, match="one key, not 2"):
        find_coordinator_request(["a", "b"], 3)
    assert find_coordinator_request(["a"], 1, TRANSACTION).key_type == TRANSACTION
    with pytest.raises(UnsupportedByBroker, match="groups only"):
        find_coordinator_request(["a"], 0, TRANSACTION)


@pytest.mark.fact("B-20", "B-23")
@pytest.mark.parametrize("versions", [KAFKA_0_11, KAFKA_2_8])
async def test_an_old_broker_gets_one_find_coordinator_for_each_group(
    versions: Any,
) -> None:
    async with (
        ScriptedCoordinators(2, versions) as coordinators,
        coordinators.admin() as admin,
    ):
        coordinators.where = {group: at % 2 for at, group in enumerate(MANY[:40])}
        described = await admin.groups.describe(MANY[:40])
        assert list(described.all()) == MANY[:40]
        looked_up = coordinators.asked(m.FindCoordinatorRequest)
        assert sorted(request.key for request in looked_up) == sorted(MANY[:40])
        assert coordinators.count(m.DescribeGroupsRequest) == 2
        assert coordinators.count(m.ConsumerGroupDescribeRequest) == 0


@pytest.mark.fact("A-65", "B-23")
@pytest.mark.parametrize("versions", [KAFKA_0_11, KAFKA_2_8])
async def test_an_old_broker_gets_one_offset_fetch_for_each_group(
    versions: Any,
) -> None:
    async with (
        ScriptedCoordinators(1, versions) as coordinators,
        coordinators.admin() as admin,
    ):
        found = await admin.group_offsets.fetch_many(dict.fromkeys(MANY[:40]))
        assert list(found.all()) == MANY[:40]
        asked = coordinators.asked(m.OffsetFetchRequest)
        assert sorted(request.group_id for request in asked) == sorted(MANY[:40])


@pytest.mark.fact("B-25b")
@pytest.mark.parametrize("version", [3, 4])
async def test_find_coordinator_supports_transactions(version: int) -> None:
    code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    refused_key = m.Coordinator(key="tx", error_code=code, error_message="no")
    answer = m.FindCoordinatorResponse(
        error_code=code, error_message="no", coordinators=[refused_key]
    )
    found = read_find_coordinator(answer, ["tx"], version)["tx"]
    assert (found.code, found.message) == (code, "no")


# Errors of one group.


@pytest.mark.fact("B-24")
@pytest.mark.parametrize("group_id", [None, 7, "\ud800", "x" * 40_000])
async def test_an_invalid_group_id_is_refused_by_the_client(group_id: Any) -> None:
    assert not is_representable(group_id)
    async with ScriptedCoordinators() as coordinators, coordinators.admin() as admin:
        results = await admin.groups.describe([group_id, "g"])
        assert code_of(results.errors[group_id]) is ErrorCode.INVALID_GROUP_ID
        assert list(results.values) == ["g"]
        (lookup,) = coordinators.asked(m.FindCoordinatorRequest)
        assert lookup.coordinator_keys == ["g"]


async def test_no_request_is_sent_for_an_empty_list_of_groups() -> None:
    async with ScriptedCoordinators() as coordinators, coordinators.admin() as admin:
        results = await admin.groups.describe([])
        assert (results.values, results.errors) == ({}, {})
        assert coordinators.brokers[0].connection_count == 0


def first_then(coordinators: ScriptedCoordinators, code: ErrorCode) -> Any:
    """Fail the first FindCoordinator for "b"."""
    failed = False

    def answer(request: Any) -> m.FindCoordinatorResponse:
        nonlocal failed
        found = coordinators.found(request)
        for each in found.coordinators:
            if each.key == "b" and not failed:
                each.error_code = code
                failed = True
        return found

    return answer


@pytest.mark.fact("B-25a")
@pytest.mark.parametrize("code", [LOADING, ErrorCode.COORDINATOR_NOT_AVAILABLE])
async def test_only_a_coordinator_that_was_not_found_is_looked_up_again(
    code: ErrorCode,
) -> None:
    async with ScriptedCoordinators() as coordinators, coordinators.admin() as admin:
        coordinators.brokers[0].answers[ApiKey.FIND_COORDINATOR] = first_then(
            coordinators, code
        )
        assert len((await admin.groups.describe(["a", "b"])).all()) == 2
        keys = [
            each.coordinator_keys
            for each in coordinators.asked(m.FindCoordinatorRequest)
        ]
        assert keys == [["a", "b"], ["b"]]
        groups = [each.groups for each in coordinators.asked(m.DescribeGroupsRequest)]
        assert groups == [["a"], ["b"]]


@pytest.mark.fact("B-25b")
@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.INVALID_GROUP_ID,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    ],
)
async def test_a_find_coordinator_error_fails_only_its_group(code: ErrorCode) -> None:
    async with ScriptedCoordinators() as coordinators, coordinators.admin() as admin:
        coordinators.brokers[0].answers[ApiKey.FIND_COORDINATOR] = first_then(
            coordinators, code
        )
        results = await admin.groups.describe(["a", "b"])
        assert code_of(results.errors["b"]) is code
        assert list(results.values) == ["a"]
        assert coordinators.count(m.FindCoordinatorRequest) == 1


async def test_a_result_without_a_node_is_coordinator_not_available() -> None:
    async with (
        ScriptedCoordinators() as coordinators,
        coordinators.admin(ONCE) as admin,
    ):
        nowhere = m.FindCoordinatorResponse(
            coordinators=[m.Coordinator(key="g", node_id=-1, port=-1)]
        )
        coordinators.brokers[0].answers[ApiKey.FIND_COORDINATOR] = lambda _: nowhere
        error = (await admin.groups.find_coordinators(["g"])).errors["g"]
        assert code_of(error) is ErrorCode.COORDINATOR_NOT_AVAILABLE


async def test_an_error_says_whether_an_earlier_request_was_lost() -> None:
    code = ErrorCode.GROUP_ID_NOT_FOUND
    missing = m.DeleteGroupsResponse(
        results=[m.DeletableGroupResult(group_id="g", error_code=code)]
    )
    async with ScriptedCoordinators() as coordinators, coordinators.admin() as admin:
        answers = coordinators.brokers[0].answers
        answers[ApiKey.DELETE_GROUPS] = in_turn(missing)
        refused = (await admin.groups.delete(["g"])).errors["g"]
        assert not refused.follows_lost_request
        # The first request may have deleted the group.
        answers[ApiKey.DELETE_GROUPS] = in_turn(HANG_UP, missing)
        late = (await admin.groups.delete(["g"])).errors["g"]
        assert code_of(late) is code
        assert late.follows_lost_request


async def test_a_group_missing_in_the_response_has_an_error() -> None:
    async with ScriptedCoordinators() as coordinators, coordinators.admin() as admin:
        empty = m.FindCoordinatorResponse()
        answers = coordinators.brokers[0].answers
        answers[ApiKey.FIND_COORDINATOR] = in_turn(empty, coordinators.found)
        results = await admin.groups.describe(["g"])
        assert isinstance(results.errors["g"], MalformedFrame)
        answers[ApiKey.FIND_COORDINATOR] = coordinators.found
        answers[ApiKey.DESCRIBE_GROUPS] = lambda _: m.DescribeGroupsResponse()
        results = await admin.groups.describe(["g"])
        assert isinstance(results.errors["g"], MalformedFrame)


@pytest.mark.fact("A-64b")
async def test_a_loading_coordinator_is_retried_without_another_lookup() -> None:
    async with ScriptedCoordinators() as coordinators, coordinators.admin() as admin:
        loading = [LOADING]

        def answer(request: Any) -> m.DescribeGroupsResponse:
            return refused(request, loading.pop() if loading else ErrorCode.NONE, "b")

        coordinators.brokers[0].answers[ApiKey.DESCRIBE_GROUPS] = answer
        assert len((await admin.groups.describe(["a", "b"])).all()) == 2
        groups = [each.groups for each in coordinators.asked(m.DescribeGroupsRequest)]
        assert groups == [["a", "b"], ["b"]]
        assert coordinators.count(m.FindCoordinatorRequest) == 1


@pytest.mark.fact("A-64c")
@pytest.mark.parametrize(
    "code", [ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE]
)
async def test_a_moved_group_is_looked_up_and_described_by_its_new_coordinator(
    code: ErrorCode,
) -> None:
    async with ScriptedCoordinators(2) as coordinators, coordinators.admin() as admin:

        def moved(request: Any) -> m.DescribeGroupsResponse:
            coordinators.where = {"b": 1}
            return refused(request, code, "b")

        coordinators.brokers[0].answers[ApiKey.DESCRIBE_GROUPS] = moved
        described = (await admin.groups.describe(["a", "b"])).all()
        assert described["a"].coordinator.node_id == 0
        assert described["b"].coordinator.node_id == 1
        keys = [
            each.coordinator_keys
            for each in coordinators.asked(m.FindCoordinatorRequest)
        ]
        assert keys == [["a", "b"], ["b"]]


async def test_a_group_fails_with_its_last_retriable_error() -> None:
    async with (
        ScriptedCoordinators() as coordinators,
        coordinators.admin(ONCE) as admin,
    ):
        answers = coordinators.brokers[0].answers
        answers[ApiKey.DESCRIBE_GROUPS] = lambda asked: refused(asked, LOADING, "b")
        results = await admin.groups.describe(["a", "b"])
        assert code_of(results.errors["b"]) is LOADING
        assert list(results.values) == ["a"]


# Errors of a broker.


async def test_a_request_is_retried_after_a_lost_connection() -> None:
    async with ScriptedCoordinators() as coordinators, coordinators.admin() as admin:
        lost = [HANG_UP]
        coordinators.brokers[0].answers[ApiKey.DESCRIBE_GROUPS] = lambda request: (
            lost.pop() if lost else classics(request)
        )
        assert len((await admin.groups.describe(["a", "b"])).all()) == 2
        assert coordinators.count(m.FindCoordinatorRequest) == 2


async def test_queued_requests_are_not_sent_after_a_lost_connection() -> None:
    async with ScriptedCoordinators(2) as coordinators, coordinators.admin() as admin:
        first, second = coordinators.brokers
        names = [f"group {number}" for number in range(12 * GROUP_CHUNK)]
        coordinators.where = dict.fromkeys(names, 1)

        def moves_and_dies(request: Any) -> Any:
            coordinators.where = {}
            return HANG_UP

        second.answers[ApiKey.DELETE_GROUPS] = moves_and_dies
        assert len((await admin.groups.delete(names)).all()) == len(names)
        assert len(second.asked_of(m.DeleteGroupsRequest)) <= cluster.IN_FLIGHT_MAX
        assert len(first.asked_of(m.DeleteGroupsRequest)) == 12


async def test_a_broker_that_times_out_fails_its_own_groups_only() -> None:
    async with (
        ScriptedCoordinators(2) as coordinators,
        coordinators.admin(IN_A_SECOND) as admin,
    ):
        coordinators.where = {"b": 1}
        coordinators.brokers[1].answers[ApiKey.CONSUMER_GROUP_DESCRIBE] = lambda _: (
            SILENCE
        )
        results = await admin.groups.describe(["a", "b"])
        assert list(results.values) == ["a"]
        assert isinstance(results.errors["b"], RequestTimedOut)


async def test_an_unavailable_broker_fails_its_own_groups_only() -> None:
    async with (
        ScriptedCoordinators(2) as coordinators,
        coordinators.admin(ONCE) as admin,
    ):
        coordinators.where = {"b": 1}
        coordinators.brokers[1]._server.close()
        results = await admin.groups.describe(["a", "b"])
        assert list(results.values) == ["a"]
        assert isinstance(results.errors["b"], ConnectionLost)


async def test_an_unreachable_cluster_fails_the_whole_call() -> None:
    async with (
        ScriptedCoordinators() as coordinators,
        coordinators.admin(ONCE) as admin,
    ):
        coordinators.brokers[0]._server.close()
        with pytest.raises(ConnectionLost, match="cannot be reached"):
            await admin.groups.describe(["a"])


async def test_a_group_fails_with_the_retriable_error_at_the_deadline() -> None:
    async with (
        ScriptedCoordinators() as coordinators,
        coordinators.admin(IN_A_SECOND) as admin,
    ):
        loading = [LOADING]
        coordinators.brokers[0].answers[ApiKey.DESCRIBE_GROUPS] = lambda request: (
            refused(request, loading.pop(), "b") if loading else SILENCE
        )
        error = (await admin.groups.describe(["b"])).errors["b"]
        assert code_of(error) is LOADING


async def test_requests_in_flight_to_one_broker_are_limited() -> None:
    async with ScriptedCoordinators() as coordinators, coordinators.admin() as admin:
        (broker,) = coordinators.brokers
        broker.answers[ApiKey.DELETE_GROUPS] = lambda _: SILENCE
        many = (f"group {number}" for number in range(8 * GROUP_CHUNK))
        deleting = asyncio.create_task(admin.groups.delete(many))
        await broker.until(lambda: coordinators.count(m.DeleteGroupsRequest) > 0)
        looked_up = coordinators.count(m.FindCoordinatorRequest)
        finding = asyncio.create_task(admin.groups.find_coordinators(["later"]))
        await broker.until(
            lambda: coordinators.count(m.FindCoordinatorRequest) > looked_up
        )
        assert coordinators.count(m.DeleteGroupsRequest) == cluster.IN_FLIGHT_MAX
        for task in (deleting, finding):
            task.cancel()
        await asyncio.gather(deleting, finding, return_exceptions=True)


# Progress.


async def test_progress_is_reported_until_all_groups_are_done() -> None:
    told: list[tuple[int, int]] = []
    async with ScriptedCoordinators() as coordinators, coordinators.admin() as admin:
        await admin.groups.describe(
            [*MANY, None],  # type: ignore[list-item]
            progress=lambda done, out_of: told.append((done, out_of)),
        )
    assert [out_of for _, out_of in told] == [len(MANY) + 1] * 5
    assert told[0][0] == 1
    assert told[-1][0] == len(MANY) + 1
    assert sorted(told) == told
