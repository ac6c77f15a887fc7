"""Consumers in a classic group on a server, and their assignor."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.broker.coordinator.assignors import range as server_range
from coterie.broker.coordinator.assignors.spec import GroupSpec, MemberSpec, TopicSpec
from coterie.client import (
    AssignorMember,
    ClassicConsumer,
    ClientAssignor,
    NewTopic,
    SyncAdmin,
)
from coterie.client import classic_consumer as module
from coterie.client.classic_consumer import RANGE, assign_range, read_assignment
from coterie.client.notifier import Notifier
from coterie.errors import MalformedFrame
from coterie.types import TopicPartition
from tests.broker.server.harness import ThreadServer
from tests.client.recorded_callbacks import of
from tests.client.scripted_broker import OPTIONS

WAIT_S = 60


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with ThreadServer(group_initial_rebalance_delay_ms=0) as server:
        yield "{}:{}".format(*server.addresses[0])


@pytest.fixture
def topic(address: str) -> str:
    name = f"t-{uuid4().hex[:8]}"
    with SyncAdmin(address) as admin:
        admin.topics.create([NewTopic(name, partitions=4)]).all()
    return name


class Recorded:
    """A consumer that lists its callbacks and commits offset 5 on revocation."""

    def __init__(self, address: str, *topics: str, **options: Any) -> None:
        self.entries: list[tuple[str, frozenset[TopicPartition]]] = []
        self._notifier = Notifier()
        self.consumer = ClassicConsumer(
            address,
            group_id=f"g-{topics[0]}",
            topics=topics,
            on_assigned=self._assigned,
            on_revoked=self._revoked,
            on_lost=self._lost,
            heartbeat_interval_ms=20,
            client=OPTIONS,
            **options,
        )

    async def until(self, is_so: Callable[[], bool]) -> None:
        async with asyncio.timeout(WAIT_S):
            await self._notifier.wait_until(is_so)

    async def owns(self, count: int) -> None:
        await self.until(lambda: len(self.consumer.assignment) == count)

    async def _assigned(self, partitions: frozenset[TopicPartition]) -> None:
        self._add("assigned", partitions)

    async def _revoked(
        self, partitions: frozenset[TopicPartition]
    ) -> dict[TopicPartition, int]:
        self._add("revoked", partitions)
        return dict.fromkeys(partitions, 5)

    async def _lost(self, partitions: frozenset[TopicPartition]) -> None:
        self._add("lost", partitions)

    def _add(self, what: str, partitions: frozenset[TopicPartition]) -> None:
        self.entries.append((what, partitions))
        self._notifier.notify()


@pytest.mark.asyncio
async def test_consumers_share_a_topic_and_commit_what_they_give_up(
    address: str, topic: str
) -> None:
    one, two = Recorded(address, topic), Recorded(address, topic)
    async with one.consumer:
        assert one.consumer.assignment == of(topic, 0, 1, 2, 3)
        async with two.consumer as second:
            await one.owns(2)
            both = one.consumer.assignment | second.assignment
            assert both == of(topic, 0, 1, 2, 3)
            assert one.consumer.generation == second.generation
            committed = await second.committed(second.assignment)
            assert {each and each.offset for each in committed.values()} == {5}
            await second.commit(dict.fromkeys(second.assignment, 9))
        await one.owns(4)
        assert len(two.entries) == 2
    assert one.consumer.assignment == frozenset()
    assert {what for what, _ in one.entries} == {"assigned", "revoked"}


@pytest.mark.asyncio
async def test_a_consumer_changes_its_subscription(address: str, topic: str) -> None:
    other = f"{topic}-other"
    with SyncAdmin(address) as admin:
        admin.topics.create([NewTopic(other, partitions=1)]).all()
    recorded = Recorded(address, topic)
    async with recorded.consumer as consumer:
        await consumer.subscribe([topic, other, "t-missing"])
        await recorded.owns(5)
        assert of(other, 0) < consumer.assignment


@pytest.mark.asyncio
async def test_the_leader_assigns_new_partitions(
    address: str, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_TOPICS_CHECKED_S", 0.01)
    recorded = Recorded(address, topic)
    async with recorded.consumer:
        with SyncAdmin(address) as admin:
            admin.topics.create_partitions({topic: 6}).all()
        await recorded.owns(6)


@pytest.mark.asyncio
async def test_a_consumer_uses_the_assignor_that_all_members_have(
    address: str, topic: str
) -> None:
    def all_to_last(members: Any, topics: Any) -> Any:
        numbered = [(name, n) for name, count in topics.items() for n in range(count)]
        seen.append(members)
        return {max(members): [TopicPartition(*each) for each in numbered]}

    seen: list[dict[str, AssignorMember]] = []
    last = ClientAssignor("all-to-last", all_to_last, b"data")
    one = Recorded(address, topic, assignors=[last, RANGE], rack_id="r")
    two = Recorded(address, topic, assignors=[last])
    three = Recorded(address, topic)
    async with one.consumer as first:
        assert seen[-1][first.member_id] == AssignorMember(
            instance_id=None,
            rack_id="r",
            topics=frozenset({topic}),
            target=frozenset(),
            version=3,
            metadata=b"data",
        )
        async with two.consumer as second:
            owner = max((one, two), key=lambda each: each.consumer.member_id)
            await owner.owns(4)
            assert {len(first.assignment), len(second.assignment)} == {0, 4}
        async with three.consumer:
            await one.owns(2)


members_of_topics = st.dictionaries(
    st.sampled_from("abcdef"),
    st.tuples(st.none() | st.sampled_from("xyz"), st.sets(st.sampled_from("tu"))),
    min_size=1,
)


@settings(max_examples=40)
@given(members_of_topics, st.integers(1, 7), st.integers(1, 3))
def test_range_is_the_range_of_the_server(
    members: dict[str, tuple[str | None, set[str]]], first: int, second: int
) -> None:
    ids = {"t": b"t" * 16, "u": b"u" * 16}
    counts = {"t": first, "u": second}
    assigned = assign_range(
        {
            member_id: AssignorMember(
                instance_id=instance_id and instance_id + member_id,
                rack_id=None,
                topics=frozenset(topics),
                target=frozenset(),
                version=3,
                metadata=b"",
            )
            for member_id, (instance_id, topics) in members.items()
        },
        counts,
    )
    spec = GroupSpec(
        {
            member_id: MemberSpec(
                member_id,
                instance_id and instance_id + member_id,
                None,
                frozenset(ids[topic] for topic in topics),
                {},
            )
            for member_id, (instance_id, topics) in members.items()
        },
        {ids[topic]: TopicSpec(count) for topic, count in counts.items()},
    )
    expected = {
        member_id: {
            TopicPartition(topic, number)
            for topic, topic_id in ids.items()
            for number in topics.get(topic_id, ())
        }
        for member_id, topics in server_range.assign(spec).items()
    }
    assert {key: set(value) for key, value in assigned.items()} == expected


def test_no_bytes_are_an_empty_assignment_and_others_are_refused() -> None:
    assert read_assignment(b"") == frozenset()
    for data in (b"\0", b"\xff\xff", b"\0\0\0"):
        with pytest.raises(MalformedFrame):
            read_assignment(data)
