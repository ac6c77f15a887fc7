"""Members of a group against a server: ours, end to end, over sockets.

With COTERIE_TEST_BOOTSTRAP=HOST:PORT it is another broker: Apache Kafka is the judge.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable, Iterator
from typing import Any
from uuid import uuid4

import pytest

from coterie.client import GroupMember, MemberState
from coterie.errors import ApiError
from coterie.types import TopicPartition
from coterie.wire.error_codes import ErrorCode
from coterie.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from coterie.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from coterie.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from coterie.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from tests.client.diary import Diary, Entry, of
from tests.client.scripted import OPTIONS, WAIT_S
from tests.server.harness import ThreadServer, WireClient

pytestmark = pytest.mark.asyncio

INTERVAL_MS = 20
LIMIT_MS = 10_000
Partitions = frozenset[TopicPartition]


class Stage:
    """A broker with a topic of four partitions, "orders", and its members' common
    diary. Names have a suffix where others may use the broker too."""

    def __init__(self, host: str, port: int, suffix: str = "") -> None:
        self.address = (host, port)
        self.suffix = suffix
        self.story: list[tuple[str, Entry]] = []
        self.topic("orders")

    def topic(self, name: str, partitions: int = 4) -> None:
        topic = CreatableTopic(
            name=name + self.suffix, num_partitions=partitions, replication_factor=1
        )
        self.ask(CreateTopicsRequest(topics=[topic], timeout_ms=LIMIT_MS))

    def of(self, topic: str, *numbers: int) -> Partitions:
        return of(topic + self.suffix, *numbers)

    def ask(self, request: Any) -> Any:
        with WireClient(*self.address) as client:
            return client.call(request)

    def diary(self, name: str) -> Diary:
        return Diary(name, self.story)

    def member(
        self, diary: Diary, *, topics: Iterable[str] = ("orders",), **options: Any
    ) -> GroupMember:
        return diary.member(
            "{}:{}".format(*self.address),
            group_id=f"g{self.suffix}",
            topics=[topic + self.suffix for topic in topics],
            client=OPTIONS,
            **options,
        )

    def check_owners(self) -> None:
        """No partition has two owners, at any moment of the story."""
        owner: dict[TopicPartition, str] = {}
        for name, (what, partitions) in self.story:
            for each in partitions:
                if what == "assigned":
                    assert each not in owner, f"{each} is {owner[each]}'s"
                    owner[each] = name
                else:
                    assert owner.pop(each) == name


@pytest.fixture
def stage() -> Iterator[Stage]:
    if elsewhere := os.environ.get("COTERIE_TEST_BOOTSTRAP"):
        host, _, port = elsewhere.partition(":")
        yield Stage(host, int(port), f"-{uuid4().hex[:8]}")
        return
    with ThreadServer(
        group_consumer_heartbeat_interval_ms=INTERVAL_MS,
        group_consumer_assignment_interval_ms=0,
    ) as server:
        yield Stage(*server.addresses[0])


async def quiet(member: GroupMember) -> None:
    """Wait until the member has said what it owns."""
    async with asyncio.timeout(WAIT_S):
        await member._pulse.until(lambda: member.state is MemberState.STABLE)


@pytest.mark.fact("E25-07", "E25-08")
async def test_a_second_member_takes_half_and_gives_it_back(stage: Stage) -> None:
    first, second = stage.diary("first"), stage.diary("second")
    first.commits = dict.fromkeys(stage.of("orders", 0, 1, 2, 3), 7)
    async with stage.member(first):
        await first.told("assigned", stage.of("orders", 0, 1, 2, 3))
        async with stage.member(second) as member:
            await second.holds(2)
            assert len(first.held) == 2
            committed = await member.committed(second.held)
            assert {each and each.offset for each in committed.values()} == {7}
        await first.holds(4)
    stage.check_owners()
    assert [what for what, _ in first.entries] == [
        "assigned",
        "revoked",
        "assigned",
        "revoked",
    ]


async def test_many_members_come_and_go_and_no_partition_has_two_owners(
    stage: Stage,
) -> None:
    stage.topic("more", 20)
    topics = ["orders", "more"]
    diaries = [stage.diary(str(number)) for number in range(6)]
    members = [stage.member(diary, topics=topics) for diary in diaries]
    for member in members:
        await member.start()
    for member, diary in zip(members, diaries, strict=True):
        await diary.holds(4)
        assert member.assignment == diary.held
    for member in members[:4]:
        await member.leave()
    for diary in diaries[4:]:
        await diary.holds(12)
    for member in members[4:]:
        await member.leave()
    stage.check_owners()
    assert not any(diary.held for diary in diaries)


@pytest.mark.fact("E7-72", "E10-06")
async def test_a_member_that_was_removed_loses_all_and_is_back(stage: Stage) -> None:
    diary = stage.diary("it")
    async with stage.member(diary) as member:
        await diary.told("assigned", stage.of("orders", 0, 1, 2, 3))
        await quiet(member)
        member_id = member.member_id
        stage.ask(
            ConsumerGroupHeartbeatRequest(
                group_id=member.group_id, member_id=member_id, member_epoch=-1
            )
        )
        await diary.until(lambda: len(diary.entries) == 3)
        assert [what for what, _ in diary.entries] == ["assigned", "lost", "assigned"]
        assert member.member_id == member_id


@pytest.mark.fact("E9-13")
async def test_a_static_member_finds_its_partitions_again(stage: Stage) -> None:
    first, second, back = map(stage.diary, ("first", "second", "back"))
    async with stage.member(first):
        await first.told("assigned", stage.of("orders", 0, 1, 2, 3))
        async with stage.member(second, instance_id="i") as member:
            await second.holds(2)
            held, epoch = second.held, member.member_epoch
            old_id = member.member_id
        async with stage.member(back, instance_id="i") as member:
            await back.told("assigned", held)
            assert member.member_epoch == epoch
            assert member.member_id != old_id
            await member.leave(for_good=True)
        await first.holds(4)
    stage.check_owners()


async def test_an_instance_that_is_there_already_is_refused(stage: Stage) -> None:
    async with stage.member(stage.diary("first"), instance_id="i"):
        with pytest.raises(ApiError) as caught:
            await stage.member(stage.diary("second"), instance_id="i").start()
        assert caught.value.code is ErrorCode.UNRELEASED_INSTANCE_ID


async def test_an_assignor_that_the_server_has_not_is_refused(stage: Stage) -> None:
    with pytest.raises(ApiError) as caught:
        await stage.member(stage.diary("it"), server_assignor="none").start()
    assert caught.value.code is ErrorCode.UNSUPPORTED_ASSIGNOR


async def test_another_subscription_changes_what_is_owned(stage: Stage) -> None:
    stage.topic("more", 2)
    diary = stage.diary("it")
    async with stage.member(diary) as member:
        await diary.told("assigned", stage.of("orders", 0, 1, 2, 3))
        await member.subscribe([f"more{stage.suffix}"])
        await diary.told("assigned", stage.of("more", 0, 1))
        assert diary.held == stage.of("more", 0, 1)
        await member.subscribe()
        await diary.told("revoked", stage.of("more", 0, 1))
        assert diary.held == stage.of("more")


async def test_a_member_commits_and_fetches_what_it_committed(stage: Stage) -> None:
    diary = stage.diary("it")
    async with stage.member(diary) as member:
        await diary.told("assigned", stage.of("orders", 0, 1, 2, 3))
        await member.commit(dict.fromkeys(stage.of("orders", 1), 12))
        found = await member.committed(stage.of("orders", 1, 2))
        offsets = {each.partition: at and at.offset for each, at in found.items()}
        assert offsets == {1: 12, 2: None}


async def test_partitions_that_are_added_are_assigned_and_they_alone(
    stage: Stage,
) -> None:
    diary = stage.diary("it")
    async with stage.member(diary):
        await diary.told("assigned", stage.of("orders", 0, 1, 2, 3))
        grown = CreatePartitionsTopic(
            name=f"orders{stage.suffix}", count=6, assignments=None
        )
        stage.ask(CreatePartitionsRequest(topics=[grown], timeout_ms=LIMIT_MS))
        await diary.told("assigned", stage.of("orders", 4, 5))
        assert len(diary.entries) == 2


async def test_a_topic_that_is_deleted_and_made_anew_is_revoked_and_assigned(
    stage: Stage,
) -> None:
    diary = stage.diary("it")
    async with stage.member(diary):
        await diary.told("assigned", stage.of("orders", 0, 1, 2, 3))
        gone = DeleteTopicState(name=f"orders{stage.suffix}")
        stage.ask(DeleteTopicsRequest(topics=[gone], timeout_ms=LIMIT_MS))
        await diary.told("revoked", stage.of("orders", 0, 1, 2, 3))
        stage.topic("orders", 1)
        await diary.told("assigned", stage.of("orders", 0))


@pytest.mark.fact("E25-06")
async def test_topics_are_subscribed_to_by_pattern(stage: Stage) -> None:
    stage.topic("orders-eu", 1)
    diary = stage.diary("it")
    async with stage.member(
        diary, topics=[], pattern=f"orders.*{stage.suffix}"
    ) as member:
        await diary.holds(5)
        with pytest.raises(ApiError) as caught:
            await member.subscribe(pattern="(")
        assert caught.value.code is ErrorCode.INVALID_REGULAR_EXPRESSION
        assert len(diary.held) == 5
