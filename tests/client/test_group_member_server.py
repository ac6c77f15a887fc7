"""Group members on a server, over sockets.

COTERIE_TEST_BOOTSTRAP=HOST:PORT selects another broker, such as Apache Kafka.
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
from coterie.wire import messages as m
from coterie.wire.error_codes import ErrorCode
from tests.broker.server.harness import ThreadServer, WireClient
from tests.client.recorded_callbacks import Entry, RecordedCallbacks, of
from tests.client.scripted_broker import OPTIONS, WAIT_S

pytestmark = pytest.mark.asyncio

INTERVAL_MS = 20
LIMIT_MS = 10_000
Partitions = frozenset[TopicPartition]


class Stage:
    """A broker with the topic "orders" of four partitions, and the callbacks of all
    members in one list. Names have a suffix on a shared broker."""

    def __init__(self, host: str, port: int, suffix: str = "") -> None:
        self.address = (host, port)
        self.suffix = suffix
        self.story: list[tuple[str, Entry]] = []
        self.topic("orders")

    def topic(self, name: str, partitions: int = 4) -> None:
        topic = m.CreatableTopic(
            name=name + self.suffix, num_partitions=partitions, replication_factor=1
        )
        self.ask(m.CreateTopicsRequest(topics=[topic], timeout_ms=LIMIT_MS))

    def of(self, topic: str, *numbers: int) -> Partitions:
        return of(topic + self.suffix, *numbers)

    def ask(self, request: Any) -> Any:
        with WireClient(*self.address) as client:
            return client.call(request)

    def recorded(self, name: str) -> RecordedCallbacks:
        return RecordedCallbacks(name, self.story)

    def member(
        self,
        recorded: RecordedCallbacks,
        *,
        topics: Iterable[str] = ("orders",),
        **options: Any,
    ) -> GroupMember:
        return recorded.member(
            "{}:{}".format(*self.address),
            group_id=f"g{self.suffix}",
            topics=[topic + self.suffix for topic in topics],
            client=OPTIONS,
            **options,
        )

    def check_owners(self) -> None:
        """Assert that no partition ever had two owners."""
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
    """Wait until the member has acknowledged its assignment."""
    async with asyncio.timeout(WAIT_S):
        await member._notifier.wait_until(lambda: member.state is MemberState.STABLE)


@pytest.mark.fact("E25-07a", "E25-07c", "E25-08a", "E25-08b")
async def test_a_second_member_gets_half_of_the_partitions_until_it_leaves(
    stage: Stage,
) -> None:
    first, second = stage.recorded("first"), stage.recorded("second")
    first.commits = dict.fromkeys(stage.of("orders", 0, 1, 2, 3), 7)
    async with stage.member(first):
        await first.wait_for("assigned", stage.of("orders", 0, 1, 2, 3))
        async with stage.member(second) as member:
            await second.wait_for_count(2)
            assert len(first.owned) == 2
            committed = await member.committed(second.owned)
            assert {each and each.offset for each in committed.values()} == {7}
        await first.wait_for_count(4)
    stage.check_owners()
    assert [what for what, _ in first.entries] == [
        "assigned",
        "revoked",
        "assigned",
        "revoked",
    ]


async def test_no_partition_has_two_owners_while_members_join_and_leave(
    stage: Stage,
) -> None:
    stage.topic("more", 20)
    topics = ["orders", "more"]
    recordings = [stage.recorded(str(number)) for number in range(6)]
    members = [stage.member(recorded, topics=topics) for recorded in recordings]
    for member in members:
        await member.start()
    for member, recorded in zip(members, recordings, strict=True):
        await recorded.wait_for_count(4)
        assert member.assignment == recorded.owned
    for member in members[:4]:
        await member.leave()
    for recorded in recordings[4:]:
        await recorded.wait_for_count(12)
    for member in members[4:]:
        await member.leave()
    stage.check_owners()
    assert not any(recorded.owned for recorded in recordings)


@pytest.mark.fact("E7-72", "E10-06")
async def test_a_removed_member_loses_everything_and_rejoins(stage: Stage) -> None:
    recorded = stage.recorded("it")
    async with stage.member(recorded) as member:
        await recorded.wait_for("assigned", stage.of("orders", 0, 1, 2, 3))
        await quiet(member)
        member_id = member.member_id
        stage.ask(
            m.ConsumerGroupHeartbeatRequest(
                group_id=member.group_id, member_id=member_id, member_epoch=-1
            )
        )
        await recorded.until(lambda: len(recorded.entries) == 3)
        assert [what for what, _ in recorded.entries] == [
            "assigned",
            "lost",
            "assigned",
        ]
        assert member.member_id == member_id


@pytest.mark.fact("E9-13")
async def test_a_restarted_static_member_is_assigned_the_same_partitions(
    stage: Stage,
) -> None:
    first, second, back = map(stage.recorded, ("first", "second", "back"))
    async with stage.member(first):
        await first.wait_for("assigned", stage.of("orders", 0, 1, 2, 3))
        async with stage.member(second, instance_id="i") as member:
            await second.wait_for_count(2)
            held, epoch = second.owned, member.member_epoch
            old_id = member.member_id
        async with stage.member(back, instance_id="i") as member:
            await back.wait_for("assigned", held)
            assert member.member_epoch == epoch
            assert member.member_id != old_id
            await member.leave(for_good=True)
        await first.wait_for_count(4)
    stage.check_owners()


async def test_an_instance_id_in_use_is_rejected(stage: Stage) -> None:
    async with stage.member(stage.recorded("first"), instance_id="i"):
        with pytest.raises(ApiError) as caught:
            await stage.member(stage.recorded("second"), instance_id="i").start()
        assert caught.value.code is ErrorCode.UNRELEASED_INSTANCE_ID


async def test_an_unknown_server_assignor_is_rejected(stage: Stage) -> None:
    with pytest.raises(ApiError) as caught:
        await stage.member(stage.recorded("it"), server_assignor="none").start()
    assert caught.value.code is ErrorCode.UNSUPPORTED_ASSIGNOR


async def test_another_subscription_changes_the_assignment(stage: Stage) -> None:
    stage.topic("more", 2)
    recorded = stage.recorded("it")
    async with stage.member(recorded) as member:
        await recorded.wait_for("assigned", stage.of("orders", 0, 1, 2, 3))
        await member.subscribe([f"more{stage.suffix}"])
        await recorded.wait_for("assigned", stage.of("more", 0, 1))
        assert recorded.owned == stage.of("more", 0, 1)
        await member.subscribe()
        await recorded.wait_for("revoked", stage.of("more", 0, 1))
        assert recorded.owned == stage.of("more")


async def test_a_member_commits_and_fetches_its_offsets(stage: Stage) -> None:
    recorded = stage.recorded("it")
    async with stage.member(recorded) as member:
        await recorded.wait_for("assigned", stage.of("orders", 0, 1, 2, 3))
        await member.commit(dict.fromkeys(stage.of("orders", 1), 12))
        found = await member.committed(stage.of("orders", 1, 2))
        offsets = {each.partition: at and at.offset for each, at in found.items()}
        assert offsets == {1: 12, 2: None}


async def test_only_added_partitions_are_assigned(
    stage: Stage,
) -> None:
    recorded = stage.recorded("it")
    async with stage.member(recorded):
        await recorded.wait_for("assigned", stage.of("orders", 0, 1, 2, 3))
        grown = m.CreatePartitionsTopic(
            name=f"orders{stage.suffix}", count=6, assignments=None
        )
        stage.ask(m.CreatePartitionsRequest(topics=[grown], timeout_ms=LIMIT_MS))
        await recorded.wait_for("assigned", stage.of("orders", 4, 5))
        assert len(recorded.entries) == 2


async def test_a_recreated_topic_is_revoked_and_assigned_by_its_new_id(
    stage: Stage,
) -> None:
    recorded = stage.recorded("it")
    async with stage.member(recorded):
        await recorded.wait_for("assigned", stage.of("orders", 0, 1, 2, 3))
        gone = m.DeleteTopicState(name=f"orders{stage.suffix}")
        stage.ask(m.DeleteTopicsRequest(topics=[gone], timeout_ms=LIMIT_MS))
        await recorded.wait_for("revoked", stage.of("orders", 0, 1, 2, 3))
        stage.topic("orders", 1)
        await recorded.wait_for("assigned", stage.of("orders", 0))


@pytest.mark.fact("E25-06")
async def test_topics_are_subscribed_to_by_pattern(stage: Stage) -> None:
    stage.topic("orders-eu", 1)
    recorded = stage.recorded("it")
    async with stage.member(
        recorded, topics=[], pattern=f"orders.*{stage.suffix}"
    ) as member:
        await recorded.wait_for_count(5)
        with pytest.raises(ApiError) as caught:
            await member.subscribe(pattern="(")
        assert caught.value.code is ErrorCode.INVALID_REGULAR_EXPRESSION
        assert len(recorded.owned) == 5
