"""Committed offsets, fetched from brokers of every version (KIP-88, KIP-709)."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from coterie.client.admin.group_offsets import CommittedOffset, GroupOffsets
from coterie.errors import ApiError, NoBatchedOffsetFetchError, UnsupportedByBroker
from coterie.types import TopicPartition
from coterie.wire import messages as m
from coterie.wire.api import ApiKey
from coterie.wire.error_codes import ErrorCode
from coterie.wire.schema import Versions
from tests.client.admin.scripted_coordinators import OFFSET, PLACE, ScriptedCoordinators
from tests.client.scripted_broker import OPTIONS

pytestmark = pytest.mark.asyncio

THERE = GroupOffsets({PLACE: CommittedOffset(OFFSET)})
REFUSED = ErrorCode.GROUP_AUTHORIZATION_FAILED


def coordinators_with(version: int) -> ScriptedCoordinators:
    """Return a broker with the given newest version of OffsetFetch."""
    coordinators = ScriptedCoordinators()
    coordinators.brokers[0].versions[ApiKey.OFFSET_FETCH] = Versions(0, version)
    return coordinators


def offsets_response(
    code: ErrorCode = ErrorCode.NONE, **partition: Any
) -> m.OffsetFetchResponse:
    """Return a response about "g" and partition t-0 for any version."""
    fields: dict[str, Any] = {"partition_index": 0, "committed_offset": OFFSET}
    fields |= {"metadata": "", **partition}
    topic = m.OffsetFetchResponseTopic(
        name="t", partitions=[m.OffsetFetchResponsePartition(**fields)]
    )
    new = m.OffsetFetchResponseTopics(
        name="t", partitions=[m.OffsetFetchResponsePartitions(**fields)]
    )
    group = m.OffsetFetchResponseGroup(group_id="g", topics=[new], error_code=code)
    return m.OffsetFetchResponse(topics=[topic], error_code=code, groups=[group])


@pytest.mark.fact("A-60", "A-61")
@pytest.mark.parametrize("version", range(2, 11))
async def test_null_partitions_fetch_all_offsets(version: int) -> None:
    async with (
        coordinators_with(version) as coordinators,
        coordinators.admin() as admin,
    ):
        assert await admin.list_group_offsets("g") == THERE
        (request,) = coordinators.asked(m.OffsetFetchRequest)
        topics = request.groups[0].topics if version >= 8 else request.topics
        assert topics is None


@pytest.mark.fact("A-61")
@pytest.mark.parametrize("version", range(1, 11))
async def test_partitions_are_requested_by_name(version: int) -> None:
    # Version 10, which names topics by id, is not used.
    wanted = [PLACE, TopicPartition("u", 3), TopicPartition("t", 2)]
    async with (
        coordinators_with(version) as coordinators,
        coordinators.admin() as admin,
    ):
        assert await admin.list_group_offsets("g", wanted) == THERE
        (request,) = coordinators.asked(m.OffsetFetchRequest)
        topics = request.groups[0].topics if version >= 8 else request.topics
        asked = [(topic.name, topic.partition_indexes) for topic in topics]
        assert asked == [("t", [0, 2]), ("u", [3])]


@pytest.mark.fact("A-24")
async def test_offset_fetch_v1_cannot_fetch_all_partitions() -> None:
    async with coordinators_with(1) as coordinators, coordinators.admin() as admin:
        with pytest.raises(UnsupportedByBroker, match="or the partitions by name"):
            await admin.list_group_offsets("g")
        assert coordinators.count(m.OffsetFetchRequest) == 0
        results = await admin.list_groups_offsets({"g": None, "h": [PLACE]})
        assert isinstance(results.errors["g"], UnsupportedByBroker)
        assert results.values == {"h": THERE}


@pytest.mark.fact("A-33", "A-60", "A-64a")
@pytest.mark.parametrize("version", [2, 7, 8, 9])
@pytest.mark.parametrize(
    "code",
    [
        REFUSED,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.STALE_MEMBER_EPOCH,
        ErrorCode.INVALID_GROUP_ID,
    ],
)
async def test_an_error_of_the_group_is_raised_instead_of_its_offsets(
    version: int, code: ErrorCode
) -> None:
    async with (
        coordinators_with(version) as coordinators,
        coordinators.admin() as admin,
    ):
        coordinators.brokers[0].answers[ApiKey.OFFSET_FETCH] = lambda _: (
            offsets_response(code)
        )
        with pytest.raises(ApiError, match="group g") as caught:
            await admin.list_group_offsets("g")
        assert caught.value.code is code


async def test_in_version_1_an_error_of_a_partition_fails_the_group() -> None:
    async with coordinators_with(1) as coordinators, coordinators.admin() as admin:
        answer = offsets_response(error_code=REFUSED)
        coordinators.brokers[0].answers[ApiKey.OFFSET_FETCH] = lambda _: answer
        with pytest.raises(ApiError) as caught:
            await admin.list_group_offsets("g", [PLACE])
        assert caught.value.code is REFUSED


@pytest.mark.fact("A-33", "A-63")
@pytest.mark.parametrize("version", [1, 7, 9])
@pytest.mark.parametrize(
    "code",
    [ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION],
)
async def test_each_partition_has_a_separate_error(
    version: int, code: ErrorCode
) -> None:
    async with (
        coordinators_with(version) as coordinators,
        coordinators.admin() as admin,
    ):
        answer = offsets_response(error_code=code)
        coordinators.brokers[0].answers[ApiKey.OFFSET_FETCH] = lambda _: answer
        found = await admin.list_group_offsets("g", [PLACE])
        assert found.offsets == {}
        error = found.errors[PLACE]
        assert isinstance(error, ApiError)
        assert error.code is code


@pytest.mark.fact("A-62")
@pytest.mark.parametrize("version", [1, 5, 8])
async def test_a_negative_committed_offset_is_none(version: int) -> None:
    async with (
        coordinators_with(version) as coordinators,
        coordinators.admin() as admin,
    ):
        answer = offsets_response(committed_offset=-1)
        coordinators.brokers[0].answers[ApiKey.OFFSET_FETCH] = lambda _: answer
        found = await admin.list_group_offsets("g", [PLACE])
        assert found == GroupOffsets({PLACE: None})


@pytest.mark.parametrize(("version", "epoch"), [(4, None), (5, 3), (9, 3)])
async def test_a_commit_contains_leader_epoch_and_metadata(
    version: int, epoch: int | None
) -> None:
    async with (
        coordinators_with(version) as coordinators,
        coordinators.admin() as admin,
    ):
        answer = offsets_response(committed_leader_epoch=3, metadata="why")
        coordinators.brokers[0].answers[ApiKey.OFFSET_FETCH] = lambda _: answer
        found = await admin.list_group_offsets("g", [PLACE])
        assert found.offsets == {PLACE: CommittedOffset(OFFSET, epoch, "why")}


async def test_null_metadata_is_an_empty_string() -> None:
    async with coordinators_with(9) as coordinators, coordinators.admin() as admin:
        answer = offsets_response(metadata=None)
        coordinators.brokers[0].answers[ApiKey.OFFSET_FETCH] = lambda _: answer
        assert await admin.list_group_offsets("g") == THERE


@pytest.mark.fact("A-66")
@pytest.mark.parametrize(("version", "is_sent"), [(6, False), (7, True), (9, True)])
async def test_require_stable_is_dropped_on_an_old_broker(
    version: int, is_sent: bool
) -> None:
    async with (
        coordinators_with(version) as coordinators,
        coordinators.admin() as admin,
    ):
        assert await admin.list_group_offsets("g", require_stable=True) == THERE
        (request,) = coordinators.asked(m.OffsetFetchRequest)
        assert request.require_stable == is_sent


@pytest.mark.fact("A-66")
async def test_require_stable_raises_on_an_old_broker_if_stable_fetch_is_required() -> (
    None
):
    options = dataclasses.replace(OPTIONS, stable_fetch_is_required=True)
    async with (
        coordinators_with(6) as coordinators,
        coordinators.admin(options) as admin,
    ):
        with pytest.raises(UnsupportedByBroker, match="7 is needed"):
            await admin.list_group_offsets("g", require_stable=True)
        assert await admin.list_group_offsets("g") == THERE


@pytest.mark.fact("A-65")
async def test_only_old_brokers_get_one_request_for_each_group() -> None:
    assert issubclass(NoBatchedOffsetFetchError, UnsupportedByBroker)
    names = [f"g{number}" for number in range(6)]
    for version, requests in ((7, 6), (8, 1)):
        async with (
            coordinators_with(version) as coordinators,
            coordinators.admin() as admin,
        ):
            found = await admin.list_groups_offsets(dict.fromkeys(names))
            assert found.all() == dict.fromkeys(names, THERE)
            assert coordinators.count(m.OffsetFetchRequest) == requests


async def test_each_group_has_its_own_partitions_in_the_request() -> None:
    other = TopicPartition("u", 1)
    wanted = {"all": None, "one": [other], "none": ()}
    async with coordinators_with(9) as coordinators, coordinators.admin() as admin:
        await admin.list_groups_offsets(wanted)
        (request,) = coordinators.asked(m.OffsetFetchRequest)
        topics = {group.group_id: group.topics for group in request.groups}
        assert topics["all"] is None
        assert [topic.name for topic in topics["one"]] == ["u"]
        assert topics["none"] == []
