"""Offsets committed and fetched by a member, with its epoch."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from coterie.client import CommittedOffset, GroupMember
from coterie.errors import ApiError, CommitRefused, RequestTimedOut, UnsupportedByBroker
from coterie.types import TopicPartition
from coterie.wire import messages as m
from coterie.wire.api import ApiKey
from coterie.wire.error_codes import ErrorCode
from coterie.wire.schema import Versions
from tests.client.group_script import ScriptedGroup
from tests.client.recorded_callbacks import RecordedCallbacks, of
from tests.client.scripted_broker import (
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


def member_of(
    broker: ScriptedBroker, recorded: RecordedCallbacks, **options: Any
) -> GroupMember:
    return recorded.member(
        broker.bootstrap, topics=["orders"], client=OPTIONS, **options
    )


def fetched(
    code: ErrorCode = ErrorCode.NONE, partition_code: ErrorCode = ErrorCode.NONE
) -> m.OffsetFetchResponse:
    """Return offset 7 of partition 0, and none of partition 1."""
    partitions = [
        m.OffsetFetchResponsePartitions(
            partition_index=0,
            committed_offset=7,
            committed_leader_epoch=2,
            metadata="m",
            error_code=partition_code,
        ),
        m.OffsetFetchResponsePartitions(partition_index=1, committed_offset=-1),
    ]
    topics = [m.OffsetFetchResponseTopics(name="orders", partitions=partitions)]
    group = m.OffsetFetchResponseGroup(group_id="g", error_code=code, topics=topics)
    return m.OffsetFetchResponse(groups=[group])


async def test_a_commit_contains_member_id_and_epoch() -> None:
    async with ScriptedBroker() as broker:
        ScriptedGroup(broker)
        async with member_of(broker, RecordedCallbacks(), instance_id="i") as member:
            await member.commit({})
            await member.commit(
                {
                    ORDERS_0: 5,
                    ORDERS_1: CommittedOffset(6, leader_epoch=3, metadata="m"),
                    TopicPartition("more", 0): 7,
                }
            )
        (asked,) = broker.asked_of(m.OffsetCommitRequest)
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


async def test_a_commit_at_a_stale_epoch_is_retried_once_at_the_next_epoch() -> None:
    recorded = RecordedCallbacks()
    async with ScriptedBroker() as broker:
        group = ScriptedGroup(broker)
        async with member_of(broker, recorded) as member:
            await recorded.wait_for("assigned", of("orders", 0))
            group.epoch = 2
            group.commits = [STALE]
            await member.commit({ORDERS_0: 5})
            assert group.committed == [(1, 5), (2, 5)]
            group.commits = [STALE, STALE]
            with pytest.raises(CommitRefused, match="orders-0: STALE_MEMBER_EPOCH"):
                await member.commit({ORDERS_0: 6})


async def test_a_commit_error_contains_the_error_code_of_each_partition() -> None:
    async with ScriptedBroker() as broker:
        group = ScriptedGroup(broker)
        async with member_of(broker, RecordedCallbacks()) as member:
            group.commits = [ErrorCode.OFFSET_METADATA_TOO_LARGE]
            with pytest.raises(CommitRefused) as caught:
                await member.commit({ORDERS_0: 5})
            assert caught.value.refused == {
                ORDERS_0: ErrorCode.OFFSET_METADATA_TOO_LARGE
            }


async def test_a_commit_is_retried_when_the_coordinator_moved_or_loads() -> None:
    async with ScriptedBroker() as broker:
        group = ScriptedGroup(broker)
        async with member_of(broker, RecordedCallbacks()) as member:
            await group.acknowledged()
            group.commits = [
                ErrorCode.NOT_COORDINATOR,
                ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
            ]
            await member.commit({ORDERS_0: 5})
        assert group.committed == [(1, 5)] * 3
        assert len(broker.asked_of(m.FindCoordinatorRequest)) == 2


async def test_a_commit_outside_the_group_raises_without_a_request() -> None:
    async with ScriptedBroker() as broker:
        group = ScriptedGroup(broker)
        async with member_of(broker, RecordedCallbacks()) as member:
            pass
        with pytest.raises(ApiError, match="is not in group g") as caught:
            await member.commit({ORDERS_0: 5})
        assert caught.value.code is ErrorCode.UNKNOWN_MEMBER_ID
        assert group.committed == []


async def test_a_member_fenced_while_waiting_for_its_epoch_cannot_commit() -> None:
    recorded = RecordedCallbacks()
    async with ScriptedBroker() as broker:
        group = ScriptedGroup(broker)
        async with member_of(broker, recorded) as member:
            await group.acknowledged()
            group.commits = [STALE]
            group.heartbeats = [ErrorCode.UNKNOWN_MEMBER_ID]
            with pytest.raises(ApiError) as caught:
                async with asyncio.timeout(WAIT_S):
                    await member.commit({ORDERS_0: 5})
            assert caught.value.code is ErrorCode.UNKNOWN_MEMBER_ID


async def test_waiting_for_the_member_epoch_times_out() -> None:
    recorded = RecordedCallbacks()
    async with ScriptedBroker() as broker:
        group = ScriptedGroup(broker)
        async with member_of(broker, recorded) as member:
            await group.acknowledged()
            member._cluster.options = IMPATIENT
            group.commits = [STALE]
            group.hold = lambda _: SILENCE
            with pytest.raises(RequestTimedOut, match="no heartbeat response"):
                await member.commit({ORDERS_0: 5})


async def test_a_failed_commit_does_not_delay_leaving() -> None:
    recorded = RecordedCallbacks()
    recorded.commits = {ORDERS_0: 5}
    async with ScriptedBroker() as broker:
        group = ScriptedGroup(broker)
        async with member_of(broker, recorded):
            await recorded.wait_for("assigned", of("orders", 0))
            group.commits = [ErrorCode.UNKNOWN_MEMBER_ID]
        assert group.committed == [(1, 5)]
        assert group.epochs[-1] == -1


async def test_an_old_broker_without_member_epochs_in_commits_is_unsupported() -> None:
    async with ScriptedBroker() as broker:
        ScriptedGroup(broker)
        broker.versions[ApiKey.OFFSET_COMMIT] = Versions(2, 8)
        async with member_of(broker, RecordedCallbacks()) as member:
            with pytest.raises(UnsupportedByBroker, match="2 to 8; 9 to 9 is needed"):
                await member.commit({ORDERS_0: 5})


async def test_committed_offsets_are_fetched_with_member_epoch_and_require_stable() -> (
    None
):
    async with ScriptedBroker() as broker:
        ScriptedGroup(broker)
        broker.answers[ApiKey.OFFSET_FETCH] = in_turn(fetched())
        async with member_of(broker, RecordedCallbacks()) as member:
            found = await member.committed([ORDERS_0, ORDERS_1])
        assert found == {ORDERS_0: CommittedOffset(7, 2, "m"), ORDERS_1: None}
        (asked,) = broker.asked_of(m.OffsetFetchRequest)
        assert asked.require_stable
        assert asked.groups[0].member_id == member.member_id
        assert asked.groups[0].member_epoch == 1
        assert asked.groups[0].topics[0].partition_indexes == [0, 1]


@pytest.mark.parametrize("offset", [-1, -2, -1001, -(2**63)])
async def test_a_negative_offset_is_no_committed_offset(offset: int) -> None:
    answer = fetched()
    answer.groups[0].topics[0].partitions[0].committed_offset = offset
    async with ScriptedBroker() as broker:
        ScriptedGroup(broker)
        broker.answers[ApiKey.OFFSET_FETCH] = in_turn(answer)
        async with member_of(broker, RecordedCallbacks()) as member:
            assert await member.committed([ORDERS_0]) == {ORDERS_0: None}


async def test_a_fetch_at_a_stale_epoch_is_retried_at_the_next_epoch() -> None:
    recorded = RecordedCallbacks()
    async with ScriptedBroker() as broker:
        group = ScriptedGroup(broker)
        broker.answers[ApiKey.OFFSET_FETCH] = in_turn(fetched(STALE), fetched())
        async with member_of(broker, recorded) as member:
            await recorded.wait_for("assigned", of("orders", 0))
            group.epoch = 2
            assert (await member.committed([ORDERS_0]))[ORDERS_0] is not None
        asked = broker.asked_of(m.OffsetFetchRequest)
        assert [each.groups[0].member_epoch for each in asked] == [1, 2]


async def test_a_fetch_waits_for_a_transaction_to_end() -> None:
    unstable = fetched(partition_code=ErrorCode.UNSTABLE_OFFSET_COMMIT)
    async with ScriptedBroker() as broker:
        ScriptedGroup(broker)
        broker.answers[ApiKey.OFFSET_FETCH] = in_turn(unstable, unstable, fetched())
        async with member_of(broker, RecordedCallbacks()) as member:
            await member.committed([ORDERS_0])
        assert len(broker.asked_of(m.OffsetFetchRequest)) == 3


@pytest.mark.parametrize(
    "answer",
    [
        fetched(ErrorCode.GROUP_AUTHORIZATION_FAILED),
        fetched(partition_code=ErrorCode.GROUP_AUTHORIZATION_FAILED),
    ],
)
async def test_an_offset_fetch_error_is_raised(answer: m.OffsetFetchResponse) -> None:
    async with ScriptedBroker() as broker:
        ScriptedGroup(broker)
        broker.answers[ApiKey.OFFSET_FETCH] = in_turn(answer)
        async with member_of(broker, RecordedCallbacks()) as member:
            with pytest.raises(ApiError) as caught:
                await member.committed([ORDERS_0])
            assert caught.value.code is ErrorCode.GROUP_AUTHORIZATION_FAILED
