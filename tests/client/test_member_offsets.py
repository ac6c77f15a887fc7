"""Offsets committed and fetched by a member, with its epoch."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from coterie.client import GroupMember, OffsetAndMetadata
from coterie.errors import ApiError, CommitRefused, RequestTimedOut, UnsupportedByBroker
from coterie.types import TopicPartition
from coterie.wire.api import ApiKey
from coterie.wire.error_codes import ErrorCode
from coterie.wire.messages.find_coordinator import FindCoordinatorRequest
from coterie.wire.messages.offset_commit import OffsetCommitRequest
from coterie.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from coterie.wire.schema import Versions
from tests.client.diary import Diary, of
from tests.client.group_script import ScriptedGroup
from tests.client.scripted import (
    IMPATIENT,
    OPTIONS,
    SILENCE,
    WAIT_S,
    ScriptedBroker,
    in_turn,
)

pytestmark = pytest.mark.asyncio

ORDERS_0 = TopicPartition("orders", 0)
ORDERS_1 = TopicPartition("orders", 1)
STALE = ErrorCode.STALE_MEMBER_EPOCH


def member_of(broker: ScriptedBroker, diary: Diary, **options: Any) -> GroupMember:
    return diary.member(broker.bootstrap, topics=["orders"], client=OPTIONS, **options)


def fetched(
    code: ErrorCode = ErrorCode.NONE, partition_code: ErrorCode = ErrorCode.NONE
) -> OffsetFetchResponse:
    """Offset 7 of partition 0, and none of partition 1."""
    partitions = [
        OffsetFetchResponsePartitions(
            partition_index=0,
            committed_offset=7,
            committed_leader_epoch=2,
            metadata="m",
            error_code=partition_code,
        ),
        OffsetFetchResponsePartitions(partition_index=1, committed_offset=-1),
    ]
    topics = [OffsetFetchResponseTopics(name="orders", partitions=partitions)]
    group = OffsetFetchResponseGroup(group_id="g", error_code=code, topics=topics)
    return OffsetFetchResponse(groups=[group])


async def test_a_commit_says_who_commits_and_at_which_epoch() -> None:
    async with ScriptedBroker() as broker:
        ScriptedGroup(broker)
        async with member_of(broker, Diary(), instance_id="i") as member:
            await member.commit({})
            await member.commit(
                {
                    ORDERS_0: 5,
                    ORDERS_1: OffsetAndMetadata(6, leader_epoch=3, metadata="m"),
                    TopicPartition("more", 0): 7,
                }
            )
        (asked,) = broker.asked_of(OffsetCommitRequest)
        assert (asked.group_id, asked.group_instance_id) == ("g", "i")
        assert asked.member_id == member.member_id
        assert asked.generation_id_or_member_epoch == 1
        assert [
            (
                topic.name,
                each.partition_index,
                each.committed_offset,
                each.committed_leader_epoch,
                each.committed_metadata,
            )
            for topic in asked.topics
            for each in topic.partitions
        ] == [
            ("orders", 0, 5, -1, ""),
            ("orders", 1, 6, 3, "m"),
            ("more", 0, 7, -1, ""),
        ]


async def test_a_commit_at_a_stale_epoch_is_repeated_once_at_the_next() -> None:
    diary = Diary()
    async with ScriptedBroker() as broker:
        group = ScriptedGroup(broker)
        async with member_of(broker, diary) as member:
            await diary.told("assigned", of("orders", 0))
            group.epoch = 2
            group.commits = [STALE]
            await member.commit({ORDERS_0: 5})
            assert group.committed == [(1, 5), (2, 5)]
            group.commits = [STALE, STALE]
            with pytest.raises(CommitRefused, match="orders-0: STALE_MEMBER_EPOCH"):
                await member.commit({ORDERS_0: 6})


async def test_a_commit_that_is_refused_says_which_and_why() -> None:
    async with ScriptedBroker() as broker:
        group = ScriptedGroup(broker)
        async with member_of(broker, Diary()) as member:
            group.commits = [ErrorCode.OFFSET_METADATA_TOO_LARGE]
            with pytest.raises(CommitRefused) as caught:
                await member.commit({ORDERS_0: 5})
            assert caught.value.refused == {
                ORDERS_0: ErrorCode.OFFSET_METADATA_TOO_LARGE
            }


async def test_a_commit_finds_a_coordinator_that_moved_or_loads() -> None:
    async with ScriptedBroker() as broker:
        group = ScriptedGroup(broker)
        async with member_of(broker, Diary()) as member:
            await group.acknowledged()
            group.commits = [
                ErrorCode.NOT_COORDINATOR,
                ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
            ]
            await member.commit({ORDERS_0: 5})
        assert group.committed == [(1, 5)] * 3
        assert len(broker.asked_of(FindCoordinatorRequest)) == 2


async def test_who_is_no_member_cannot_commit_and_asks_nobody() -> None:
    async with ScriptedBroker() as broker:
        group = ScriptedGroup(broker)
        async with member_of(broker, Diary()) as member:
            pass
        with pytest.raises(ApiError, match="not a member of group g now") as caught:
            await member.commit({ORDERS_0: 5})
        assert caught.value.code is ErrorCode.UNKNOWN_MEMBER_ID
        assert group.committed == []


async def test_a_member_fenced_while_it_learns_its_epoch_cannot_commit() -> None:
    diary = Diary()
    async with ScriptedBroker() as broker:
        group = ScriptedGroup(broker)
        async with member_of(broker, diary) as member:
            await group.acknowledged()
            group.commits = [STALE]
            group.heartbeats = [ErrorCode.UNKNOWN_MEMBER_ID]
            with pytest.raises(ApiError) as caught:
                async with asyncio.timeout(WAIT_S):
                    await member.commit({ORDERS_0: 5})
            assert caught.value.code is ErrorCode.UNKNOWN_MEMBER_ID


async def test_an_epoch_that_nobody_tells_is_not_waited_for_for_ever() -> None:
    diary = Diary()
    async with ScriptedBroker() as broker:
        group = ScriptedGroup(broker)
        async with member_of(broker, diary) as member:
            await group.acknowledged()
            member._cluster.options = IMPATIENT
            group.commits = [STALE]
            group.hold = lambda _: SILENCE
            with pytest.raises(RequestTimedOut, match="no heartbeat brought"):
                await member.commit({ORDERS_0: 5})


async def test_a_last_commit_that_is_refused_does_not_keep_the_member() -> None:
    diary = Diary()
    diary.commits = {ORDERS_0: 5}
    async with ScriptedBroker() as broker:
        group = ScriptedGroup(broker)
        async with member_of(broker, diary):
            await diary.told("assigned", of("orders", 0))
            group.commits = [ErrorCode.UNKNOWN_MEMBER_ID]
        assert group.committed == [(1, 5)]
        assert group.epochs[-1] == -1


async def test_a_broker_without_member_epochs_is_told_from_one_with() -> None:
    async with ScriptedBroker() as broker:
        ScriptedGroup(broker)
        broker.versions[ApiKey.OFFSET_COMMIT] = Versions(2, 8)
        async with member_of(broker, Diary()) as member:
            with pytest.raises(UnsupportedByBroker, match="2 to 8; 9 to 9 is needed"):
                await member.commit({ORDERS_0: 5})


async def test_what_is_committed_is_fetched_as_a_member_and_settled() -> None:
    async with ScriptedBroker() as broker:
        ScriptedGroup(broker)
        broker.answers[ApiKey.OFFSET_FETCH] = in_turn(fetched())
        async with member_of(broker, Diary()) as member:
            found = await member.committed([ORDERS_0, ORDERS_1])
        assert found == {ORDERS_0: OffsetAndMetadata(7, 2, "m"), ORDERS_1: None}
        (asked,) = broker.asked_of(OffsetFetchRequest)
        assert asked.require_stable
        assert asked.groups[0].member_id == member.member_id
        assert asked.groups[0].member_epoch == 1
        assert asked.groups[0].topics[0].partition_indexes == [0, 1]


async def test_a_fetch_at_a_stale_epoch_is_repeated_at_the_next() -> None:
    diary = Diary()
    async with ScriptedBroker() as broker:
        group = ScriptedGroup(broker)
        broker.answers[ApiKey.OFFSET_FETCH] = in_turn(fetched(STALE), fetched())
        async with member_of(broker, diary) as member:
            await diary.told("assigned", of("orders", 0))
            group.epoch = 2
            assert (await member.committed([ORDERS_0]))[ORDERS_0] is not None
        asked = broker.asked_of(OffsetFetchRequest)
        assert [each.groups[0].member_epoch for each in asked] == [1, 2]


async def test_a_fetch_waits_for_a_transaction_to_end() -> None:
    unstable = fetched(partition_code=ErrorCode.UNSTABLE_OFFSET_COMMIT)
    async with ScriptedBroker() as broker:
        ScriptedGroup(broker)
        broker.answers[ApiKey.OFFSET_FETCH] = in_turn(unstable, unstable, fetched())
        async with member_of(broker, Diary()) as member:
            await member.committed([ORDERS_0])
        assert len(broker.asked_of(OffsetFetchRequest)) == 3


@pytest.mark.parametrize(
    "answer",
    [
        fetched(ErrorCode.GROUP_AUTHORIZATION_FAILED),
        fetched(partition_code=ErrorCode.GROUP_AUTHORIZATION_FAILED),
    ],
)
async def test_a_fetch_that_is_refused_is_an_error(answer: OffsetFetchResponse) -> None:
    async with ScriptedBroker() as broker:
        ScriptedGroup(broker)
        broker.answers[ApiKey.OFFSET_FETCH] = in_turn(answer)
        async with member_of(broker, Diary()) as member:
            with pytest.raises(ApiError) as caught:
                await member.committed([ORDERS_0])
            assert caught.value.code is ErrorCode.GROUP_AUTHORIZATION_FAILED
