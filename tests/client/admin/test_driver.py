"""Many groups, few requests, and what goes wrong with some of them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from coterie.client.admin import driver
from coterie.client.admin.driver import GROUP_CHUNK, is_representable
from coterie.client.admin.group_offsets import OFFSETS_CHUNK
from coterie.client.coordinators import TRANSACTION, lookup_request, read_lookup
from coterie.errors import (
    ApiError,
    ConnectionLost,
    MalformedFrame,
    NoBatchedFindCoordinatorsError,
    RequestTimedOut,
    UnsupportedByBroker,
)
from coterie.wire.api import ApiKey
from coterie.wire.error_codes import ErrorCode
from coterie.wire.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
)
from coterie.wire.messages.delete_groups import DeleteGroupsRequest
from coterie.wire.messages.describe_groups import (
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from coterie.wire.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from coterie.wire.messages.offset_fetch import OffsetFetchRequest
from tests.client.admin.fleet import (
    IN_A_SECOND,
    KAFKA_0_11,
    KAFKA_2_8,
    ONCE,
    Fleet,
    classics,
    refused,
)
from tests.client.scripted import HANG_UP, SILENCE, in_turn

pytestmark = pytest.mark.asyncio

MANY = [f"group {number}" for number in range(3 * GROUP_CHUNK + 1)]
LOADING = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


def code_of(error: BaseException) -> ErrorCode:
    assert isinstance(error, ApiError)
    return error.code


# How many requests.


@pytest.mark.fact("B-20", "B-26", "B-28")
async def test_groups_of_one_coordinator_are_described_together() -> None:
    async with Fleet() as fleet, fleet.admin() as admin:
        fleet.consumer_groups = set(MANY[1::2])
        described = await admin.describe_groups(MANY)
        assert list(described.all()) == MANY
        assert fleet.count(FindCoordinatorRequest) == 1
        assert fleet.count(ConsumerGroupDescribeRequest) == 4
        assert fleet.count(DescribeGroupsRequest) == 4


@pytest.mark.fact("B-27", "B-28")
async def test_offsets_of_one_coordinators_groups_are_fetched_together() -> None:
    async with Fleet() as fleet, fleet.admin() as admin:
        found = await admin.list_groups_offsets(dict.fromkeys(MANY))
        assert len(found.all()) == len(MANY)
        assert fleet.count(FindCoordinatorRequest) == 1
        assert fleet.count(OffsetFetchRequest) == -(-len(MANY) // OFFSETS_CHUNK)


@pytest.mark.fact("B-26")
async def test_groups_of_one_coordinator_are_deleted_together() -> None:
    async with Fleet() as fleet, fleet.admin() as admin:
        assert (await admin.delete_groups(MANY[:100])).all()
        assert fleet.count(FindCoordinatorRequest) == 1
        assert fleet.count(DeleteGroupsRequest) == 1


async def test_a_known_coordinator_is_not_looked_up_again() -> None:
    async with Fleet() as fleet, fleet.admin() as admin:
        await admin.describe_groups(["a", "b"])
        await admin.describe_groups(["b", "a", "b"])
        assert fleet.count(FindCoordinatorRequest) == 1


async def test_many_look_ups_go_in_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "LOOKUP_CHUNK", 10)
    async with Fleet() as fleet, fleet.admin() as admin:
        assert len((await admin.find_coordinators(MANY[:25])).all()) == 25
        assert fleet.count(FindCoordinatorRequest) == 3


@pytest.mark.fact("B-28")
async def test_each_broker_gets_its_own_groups_in_one_request() -> None:
    async with Fleet(3) as fleet, fleet.admin() as admin:
        fleet.where = {group: at % 3 for at, group in enumerate(MANY[:30])}
        described = await admin.describe_groups(MANY[:30])
        for broker in fleet.brokers:
            (request,) = broker.asked_of(DescribeGroupsRequest)
            assert sorted(request.groups) == sorted(
                group for group, at in fleet.where.items() if at == broker.node_id
            )
        coordinators = {group.coordinator.node_id for group in described.all().values()}
        assert coordinators == {0, 1, 2}


# Brokers that look up one coordinator a request.


@pytest.mark.fact("B-20", "B-21", "B-22")
async def test_no_more_than_one_key_fits_into_an_old_look_up() -> None:
    assert lookup_request(["a", "b"], 4).coordinator_keys == ["a", "b"]
    assert lookup_request(["a"], 3).key == "a"
    assert lookup_request(["a"], 4).key == ""
    assert issubclass(NoBatchedFindCoordinatorsError, UnsupportedByBroker)
    with pytest.raises(NoBatchedFindCoordinatorsError, match="one key, not 2"):
        lookup_request(["a", "b"], 3)
    assert lookup_request(["a"], 1, TRANSACTION).key_type == TRANSACTION
    with pytest.raises(UnsupportedByBroker, match="groups only"):
        lookup_request(["a"], 0, TRANSACTION)


@pytest.mark.fact("B-20", "B-23", "B-29")
@pytest.mark.parametrize("versions", [KAFKA_0_11, KAFKA_2_8])
async def test_an_old_broker_is_asked_for_each_coordinator(versions: Any) -> None:
    async with Fleet(2, versions) as fleet, fleet.admin() as admin:
        fleet.where = {group: at % 2 for at, group in enumerate(MANY[:40])}
        described = await admin.describe_groups(MANY[:40])
        assert list(described.all()) == MANY[:40]
        looked_up = fleet.asked(FindCoordinatorRequest)
        assert sorted(request.key for request in looked_up) == sorted(MANY[:40])
        assert fleet.count(DescribeGroupsRequest) == 2
        assert fleet.count(ConsumerGroupDescribeRequest) == 0


@pytest.mark.fact("A-65", "B-23")
@pytest.mark.parametrize("versions", [KAFKA_0_11, KAFKA_2_8])
async def test_an_old_broker_is_asked_for_each_groups_offsets(versions: Any) -> None:
    async with Fleet(1, versions) as fleet, fleet.admin() as admin:
        found = await admin.list_groups_offsets(dict.fromkeys(MANY[:40]))
        assert list(found.all()) == MANY[:40]
        asked = fleet.asked(OffsetFetchRequest)
        assert sorted(request.group_id for request in asked) == sorted(MANY[:40])


@pytest.mark.fact("B-25")
@pytest.mark.parametrize("version", [3, 4])
async def test_a_look_up_tells_the_code_of_a_transaction_too(version: int) -> None:
    code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    refused_key = Coordinator(key="tx", error_code=code, error_message="no")
    answer = FindCoordinatorResponse(
        error_code=code, error_message="no", coordinators=[refused_key]
    )
    found = read_lookup(answer, ["tx"], version)["tx"]
    assert (found.code, found.message) == (code, "no")


# What is wrong with one group.


@pytest.mark.fact("B-24")
@pytest.mark.parametrize("group_id", [None, 7, "\ud800", "x" * 40_000])
async def test_what_no_request_can_carry_is_refused_here(group_id: Any) -> None:
    assert not is_representable(group_id)
    async with Fleet() as fleet, fleet.admin() as admin:
        results = await admin.describe_groups([group_id, "g"])
        assert code_of(results.errors[group_id]) is ErrorCode.INVALID_GROUP_ID
        assert list(results.values) == ["g"]
        (lookup,) = fleet.asked(FindCoordinatorRequest)
        assert lookup.coordinator_keys == ["g"]


async def test_nothing_to_ask_is_not_asked() -> None:
    async with Fleet() as fleet, fleet.admin() as admin:
        results = await admin.describe_groups([])
        assert (results.values, results.errors) == ({}, {})
        assert fleet.brokers[0].connection_count == 0


def first_then(fleet: Fleet, code: ErrorCode) -> Any:
    """The first look-up of "b" fails so."""
    failed = False

    def answer(request: Any) -> FindCoordinatorResponse:
        nonlocal failed
        found = fleet.found(request)
        for each in found.coordinators:
            if each.key == "b" and not failed:
                each.error_code = code
                failed = True
        return found

    return answer


@pytest.mark.fact("B-25")
@pytest.mark.parametrize("code", [LOADING, ErrorCode.COORDINATOR_NOT_AVAILABLE])
async def test_only_a_group_without_a_coordinator_is_looked_up_again(
    code: ErrorCode,
) -> None:
    async with Fleet() as fleet, fleet.admin() as admin:
        fleet.brokers[0].answers[ApiKey.FIND_COORDINATOR] = first_then(fleet, code)
        assert len((await admin.describe_groups(["a", "b"])).all()) == 2
        keys = [each.coordinator_keys for each in fleet.asked(FindCoordinatorRequest)]
        assert keys == [["a", "b"], ["b"]]
        groups = [each.groups for each in fleet.asked(DescribeGroupsRequest)]
        assert groups == [["a"], ["b"]]


@pytest.mark.fact("B-25")
@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.INVALID_GROUP_ID,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    ],
)
async def test_a_look_up_that_is_refused_fails_its_group(code: ErrorCode) -> None:
    async with Fleet() as fleet, fleet.admin() as admin:
        fleet.brokers[0].answers[ApiKey.FIND_COORDINATOR] = first_then(fleet, code)
        results = await admin.describe_groups(["a", "b"])
        assert code_of(results.errors["b"]) is code
        assert list(results.values) == ["a"]
        assert fleet.count(FindCoordinatorRequest) == 1


async def test_no_node_is_no_coordinator() -> None:
    async with Fleet() as fleet, fleet.admin(ONCE) as admin:
        nowhere = FindCoordinatorResponse(
            coordinators=[Coordinator(key="g", node_id=-1, port=-1)]
        )
        fleet.brokers[0].answers[ApiKey.FIND_COORDINATOR] = lambda _: nowhere
        error = (await admin.find_coordinators(["g"])).errors["g"]
        assert code_of(error) is ErrorCode.COORDINATOR_NOT_AVAILABLE


async def test_a_group_that_an_answer_leaves_out_has_an_error() -> None:
    async with Fleet() as fleet, fleet.admin() as admin:
        empty = FindCoordinatorResponse()
        answers = fleet.brokers[0].answers
        answers[ApiKey.FIND_COORDINATOR] = in_turn(empty, fleet.found)
        results = await admin.describe_groups(["g"])
        assert isinstance(results.errors["g"], MalformedFrame)
        answers[ApiKey.FIND_COORDINATOR] = fleet.found
        answers[ApiKey.DESCRIBE_GROUPS] = lambda _: DescribeGroupsResponse()
        results = await admin.describe_groups(["g"])
        assert isinstance(results.errors["g"], MalformedFrame)


@pytest.mark.fact("A-64")
async def test_a_loading_coordinator_is_asked_again_in_place() -> None:
    async with Fleet() as fleet, fleet.admin() as admin:
        loading = [LOADING]

        def answer(request: Any) -> DescribeGroupsResponse:
            return refused(request, loading.pop() if loading else ErrorCode.NONE, "b")

        fleet.brokers[0].answers[ApiKey.DESCRIBE_GROUPS] = answer
        assert len((await admin.describe_groups(["a", "b"])).all()) == 2
        groups = [each.groups for each in fleet.asked(DescribeGroupsRequest)]
        assert groups == [["a", "b"], ["b"]]
        assert fleet.count(FindCoordinatorRequest) == 1


@pytest.mark.fact("A-64")
@pytest.mark.parametrize(
    "code", [ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE]
)
async def test_a_group_that_moved_is_looked_up_and_asked_for_there(
    code: ErrorCode,
) -> None:
    async with Fleet(2) as fleet, fleet.admin() as admin:

        def moved(request: Any) -> DescribeGroupsResponse:
            fleet.where = {"b": 1}
            return refused(request, code, "b")

        fleet.brokers[0].answers[ApiKey.DESCRIBE_GROUPS] = moved
        described = (await admin.describe_groups(["a", "b"])).all()
        assert described["a"].coordinator.node_id == 0
        assert described["b"].coordinator.node_id == 1
        keys = [each.coordinator_keys for each in fleet.asked(FindCoordinatorRequest)]
        assert keys == [["a", "b"], ["b"]]


async def test_what_lasts_too_long_is_the_groups_last_error() -> None:
    async with Fleet() as fleet, fleet.admin(ONCE) as admin:
        answers = fleet.brokers[0].answers
        answers[ApiKey.DESCRIBE_GROUPS] = lambda asked: refused(asked, LOADING, "b")
        results = await admin.describe_groups(["a", "b"])
        assert code_of(results.errors["b"]) is LOADING
        assert list(results.values) == ["a"]


# What is wrong with a broker.


async def test_a_request_whose_connection_was_lost_is_sent_again() -> None:
    async with Fleet() as fleet, fleet.admin() as admin:
        lost = [HANG_UP]
        fleet.brokers[0].answers[ApiKey.DESCRIBE_GROUPS] = lambda request: (
            lost.pop() if lost else classics(request)
        )
        assert len((await admin.describe_groups(["a", "b"])).all()) == 2
        assert fleet.count(FindCoordinatorRequest) == 2


async def test_what_waits_behind_a_lost_connection_is_not_sent_there() -> None:
    async with Fleet(2) as fleet, fleet.admin() as admin:
        first, second = fleet.brokers
        names = [f"group {number}" for number in range(12 * GROUP_CHUNK)]
        fleet.where = dict.fromkeys(names, 1)

        def moves_and_dies(request: Any) -> Any:
            fleet.where = {}
            return HANG_UP

        second.answers[ApiKey.DELETE_GROUPS] = moves_and_dies
        assert len((await admin.delete_groups(names)).all()) == len(names)
        assert len(second.asked_of(DeleteGroupsRequest)) <= driver.IN_FLIGHT_MAX
        assert len(first.asked_of(DeleteGroupsRequest)) == 12


@pytest.mark.slow
async def test_a_broker_that_is_silent_fails_its_own_groups_only() -> None:
    async with Fleet(2) as fleet, fleet.admin(IN_A_SECOND) as admin:
        fleet.where = {"b": 1}
        fleet.brokers[1].answers[ApiKey.CONSUMER_GROUP_DESCRIBE] = lambda _: SILENCE
        results = await admin.describe_groups(["a", "b"])
        assert list(results.values) == ["a"]
        assert isinstance(results.errors["b"], RequestTimedOut)


async def test_a_broker_that_is_gone_fails_its_own_groups_only() -> None:
    async with Fleet(2) as fleet, fleet.admin(ONCE) as admin:
        fleet.where = {"b": 1}
        fleet.brokers[1]._server.close()
        results = await admin.describe_groups(["a", "b"])
        assert list(results.values) == ["a"]
        assert isinstance(results.errors["b"], ConnectionLost)


async def test_no_broker_at_all_is_the_calls_own_failure() -> None:
    async with Fleet() as fleet, fleet.admin(ONCE) as admin:
        fleet.brokers[0]._server.close()
        with pytest.raises(ConnectionLost, match="cannot be reached"):
            await admin.describe_groups(["a"])


@pytest.mark.slow
async def test_at_the_deadline_the_reason_is_what_was_waited_for() -> None:
    async with Fleet() as fleet, fleet.admin(IN_A_SECOND) as admin:
        loading = [LOADING]
        fleet.brokers[0].answers[ApiKey.DESCRIBE_GROUPS] = lambda request: (
            refused(request, loading.pop(), "b") if loading else SILENCE
        )
        error = (await admin.describe_groups(["b"])).errors["b"]
        assert code_of(error) is LOADING


async def test_no_more_than_a_few_requests_wait_at_one_broker() -> None:
    async with Fleet() as fleet, fleet.admin() as admin:
        (broker,) = fleet.brokers
        broker.answers[ApiKey.DELETE_GROUPS] = lambda _: SILENCE
        many = (f"group {number}" for number in range(8 * GROUP_CHUNK))
        deleting = asyncio.create_task(admin.delete_groups(many))
        await broker.until(lambda: fleet.count(DeleteGroupsRequest) > 0)
        looked_up = fleet.count(FindCoordinatorRequest)
        finding = asyncio.create_task(admin.find_coordinators(["later"]))
        await broker.until(lambda: fleet.count(FindCoordinatorRequest) > looked_up)
        assert fleet.count(DeleteGroupsRequest) == driver.IN_FLIGHT_MAX
        for task in (deleting, finding):
            task.cancel()
        await asyncio.gather(deleting, finding, return_exceptions=True)


# Progress.


async def test_progress_is_told_until_all_are_done() -> None:
    told: list[tuple[int, int]] = []
    async with Fleet() as fleet, fleet.admin() as admin:
        await admin.describe_groups(
            [*MANY, None],  # type: ignore[list-item]
            progress=lambda done, out_of: told.append((done, out_of)),
        )
    assert [out_of for _, out_of in told] == [len(MANY) + 1] * 5
    assert told[0][0] == 1
    assert told[-1][0] == len(MANY) + 1
    assert sorted(told) == told
