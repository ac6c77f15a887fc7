"""What groups committed, asked of brokers of every age (KIP-88, KIP-709)."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from coterie.client.admin.offset_values import CommittedOffset, GroupOffsets
from coterie.errors import ApiError, NoBatchedOffsetFetchError, UnsupportedByBroker
from coterie.types import TopicPartition
from coterie.wire.api import ApiKey
from coterie.wire.error_codes import ErrorCode
from coterie.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from coterie.wire.schema import Versions
from tests.client.admin.fleet import OFFSET, PLACE, Fleet
from tests.client.scripted import OPTIONS

pytestmark = pytest.mark.asyncio

THERE = GroupOffsets({PLACE: CommittedOffset(OFFSET)})
REFUSED = ErrorCode.GROUP_AUTHORIZATION_FAILED


def fleet_with(version: int) -> Fleet:
    """A broker whose newest OffsetFetch is that one."""
    fleet = Fleet()
    fleet.brokers[0].versions[ApiKey.OFFSET_FETCH] = Versions(0, version)
    return fleet


def told(code: ErrorCode = ErrorCode.NONE, **partition: Any) -> OffsetFetchResponse:
    """An answer about "g" and partition t-0, as every version has it."""
    fields: dict[str, Any] = {"partition_index": 0, "committed_offset": OFFSET}
    fields |= {"metadata": "", **partition}
    topic = OffsetFetchResponseTopic(
        name="t", partitions=[OffsetFetchResponsePartition(**fields)]
    )
    new = OffsetFetchResponseTopics(
        name="t", partitions=[OffsetFetchResponsePartitions(**fields)]
    )
    group = OffsetFetchResponseGroup(group_id="g", topics=[new], error_code=code)
    return OffsetFetchResponse(topics=[topic], error_code=code, groups=[group])


@pytest.mark.fact("A-60", "A-61")
@pytest.mark.parametrize("version", range(2, 11))
async def test_null_topics_ask_for_everything(version: int) -> None:
    async with fleet_with(version) as fleet, fleet.admin() as admin:
        assert await admin.list_group_offsets("g") == THERE
        (request,) = fleet.asked(OffsetFetchRequest)
        topics = request.groups[0].topics if version >= 8 else request.topics
        assert topics is None


@pytest.mark.fact("A-61")
@pytest.mark.parametrize("version", range(1, 11))
async def test_partitions_are_asked_for_by_name(version: int) -> None:
    """Of version 10, too, which has the ids of topics only: it is not spoken."""
    wanted = [PLACE, TopicPartition("u", 3), TopicPartition("t", 2)]
    async with fleet_with(version) as fleet, fleet.admin() as admin:
        assert await admin.list_group_offsets("g", wanted) == THERE
        (request,) = fleet.asked(OffsetFetchRequest)
        topics = request.groups[0].topics if version >= 8 else request.topics
        asked = [(topic.name, topic.partition_indexes) for topic in topics]
        assert asked == [("t", [0, 2]), ("u", [3])]


@pytest.mark.fact("A-24")
async def test_a_broker_that_cannot_tell_everything_is_not_asked() -> None:
    async with fleet_with(1) as fleet, fleet.admin() as admin:
        with pytest.raises(UnsupportedByBroker, match="or the partitions by name"):
            await admin.list_group_offsets("g")
        assert fleet.count(OffsetFetchRequest) == 0
        results = await admin.list_groups_offsets({"g": None, "h": [PLACE]})
        assert isinstance(results.errors["g"], UnsupportedByBroker)
        assert results.values == {"h": THERE}


@pytest.mark.fact("A-60", "A-64")
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
async def test_the_error_of_a_group_comes_before_its_offsets(
    version: int, code: ErrorCode
) -> None:
    async with fleet_with(version) as fleet, fleet.admin() as admin:
        fleet.brokers[0].answers[ApiKey.OFFSET_FETCH] = lambda _: told(code)
        with pytest.raises(ApiError, match="group g") as caught:
            await admin.list_group_offsets("g")
        assert caught.value.code is code


async def test_version_1_has_the_error_of_a_group_beside_its_partitions() -> None:
    async with fleet_with(1) as fleet, fleet.admin() as admin:
        answer = told(error_code=REFUSED)
        fleet.brokers[0].answers[ApiKey.OFFSET_FETCH] = lambda _: answer
        with pytest.raises(ApiError) as caught:
            await admin.list_group_offsets("g", [PLACE])
        assert caught.value.code is REFUSED


@pytest.mark.fact("A-63")
@pytest.mark.parametrize("version", [1, 7, 9])
@pytest.mark.parametrize(
    "code",
    [ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION],
)
async def test_the_error_of_a_partition_is_its_own(
    version: int, code: ErrorCode
) -> None:
    async with fleet_with(version) as fleet, fleet.admin() as admin:
        answer = told(error_code=code)
        fleet.brokers[0].answers[ApiKey.OFFSET_FETCH] = lambda _: answer
        found = await admin.list_group_offsets("g", [PLACE])
        assert found.offsets == {}
        error = found.errors[PLACE]
        assert isinstance(error, ApiError)
        assert error.code is code


@pytest.mark.fact("A-62")
@pytest.mark.parametrize("version", [1, 5, 8])
async def test_a_negative_offset_is_none(version: int) -> None:
    async with fleet_with(version) as fleet, fleet.admin() as admin:
        answer = told(committed_offset=-1)
        fleet.brokers[0].answers[ApiKey.OFFSET_FETCH] = lambda _: answer
        found = await admin.list_group_offsets("g", [PLACE])
        assert found == GroupOffsets({PLACE: None})


@pytest.mark.parametrize(("version", "epoch"), [(4, None), (5, 3), (9, 3)])
async def test_a_commit_has_its_leader_epoch_and_its_words(
    version: int, epoch: int | None
) -> None:
    async with fleet_with(version) as fleet, fleet.admin() as admin:
        answer = told(committed_leader_epoch=3, metadata="why")
        fleet.brokers[0].answers[ApiKey.OFFSET_FETCH] = lambda _: answer
        found = await admin.list_group_offsets("g", [PLACE])
        assert found.offsets == {PLACE: CommittedOffset(OFFSET, epoch, "why")}


async def test_no_words_are_the_empty_ones() -> None:
    async with fleet_with(9) as fleet, fleet.admin() as admin:
        answer = told(metadata=None)
        fleet.brokers[0].answers[ApiKey.OFFSET_FETCH] = lambda _: answer
        assert await admin.list_group_offsets("g") == THERE


@pytest.mark.fact("A-66")
@pytest.mark.parametrize(("version", "is_sent"), [(6, False), (7, True), (9, True)])
async def test_a_broker_that_cannot_wait_is_not_asked_to(
    version: int, is_sent: bool
) -> None:
    async with fleet_with(version) as fleet, fleet.admin() as admin:
        assert await admin.list_group_offsets("g", require_stable=True) == THERE
        (request,) = fleet.asked(OffsetFetchRequest)
        assert request.require_stable == is_sent


@pytest.mark.fact("A-66")
async def test_unless_it_must_wait() -> None:
    options = dataclasses.replace(OPTIONS, stable_fetch_is_required=True)
    async with fleet_with(6) as fleet, fleet.admin(options) as admin:
        with pytest.raises(UnsupportedByBroker, match="7 is needed"):
            await admin.list_group_offsets("g", require_stable=True)
        assert await admin.list_group_offsets("g") == THERE


@pytest.mark.fact("A-65")
async def test_only_what_is_too_old_is_asked_for_each_group() -> None:
    assert issubclass(NoBatchedOffsetFetchError, UnsupportedByBroker)
    names = [f"g{number}" for number in range(6)]
    for version, requests in ((7, 6), (8, 1)):
        async with fleet_with(version) as fleet, fleet.admin() as admin:
            found = await admin.list_groups_offsets(dict.fromkeys(names))
            assert found.all() == dict.fromkeys(names, THERE)
            assert fleet.count(OffsetFetchRequest) == requests


async def test_every_group_is_asked_for_its_own_partitions() -> None:
    other = TopicPartition("u", 1)
    wanted = {"all": None, "one": [other], "none": ()}
    async with fleet_with(9) as fleet, fleet.admin() as admin:
        await admin.list_groups_offsets(wanted)
        (request,) = fleet.asked(OffsetFetchRequest)
        topics = {group.group_id: group.topics for group in request.groups}
        assert topics["all"] is None
        assert [topic.name for topic in topics["one"]] == ["u"]
        assert topics["none"] == []
