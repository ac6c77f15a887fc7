"""An admin client and groups with members of both protocols, on a server.

COTERIE_TEST_BOOTSTRAP=HOST:PORT selects another broker, such as Apache Kafka.
"""

from __future__ import annotations

import os
import struct
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import pytest
import pytest_asyncio

from coterie.client import AdminClient
from coterie.client.admin.group_changes import MemberToRemove
from coterie.client.admin.group_offsets import CommittedOffset, GroupOffsets
from coterie.client.admin.groups import GroupState, GroupType
from coterie.client.admin.results import Results
from coterie.errors import ApiError
from coterie.types import GroupId, TopicPartition
from coterie.wire import messages as m
from coterie.wire.codec import encode
from coterie.wire.error_codes import ErrorCode
from tests.broker.server.harness import ThreadServer, WireClient
from tests.client.recorded_callbacks import RecordedCallbacks
from tests.client.scripted_broker import OPTIONS

pytestmark = pytest.mark.asyncio

ELSEWHERE = os.environ.get("COTERIE_TEST_BOOTSTRAP", "")
PARTITIONS = 2
LIMIT_MS = 10_000
JOIN_VERSION, SYNC_VERSION = 7, 5
"""The JoinGroup version in which a static member needs no second request for its id."""


@dataclass
class Stage:
    """A broker, and a topic of two partitions for this test alone."""

    host: str
    port: int
    topic: str

    @property
    def bootstrap(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def partitions(self) -> list[TopicPartition]:
        return [TopicPartition(self.topic, number) for number in range(PARTITIONS)]

    def consumer(self, group_id: GroupId, recorded: RecordedCallbacks) -> Any:
        return recorded.member(
            self.bootstrap, group_id=group_id, topics=[self.topic], client=OPTIONS
        )

    def classic_member(self, client: WireClient, group_id: GroupId) -> Any:
        """Join as the only, static member and take the first partition; return the
        response."""
        subscription = m.ConsumerProtocolSubscription(topics=[self.topic])
        metadata = struct.pack(">h", 0) + encode(subscription, 0)
        offered = [
            m.JoinGroupRequestProtocol(name=name, metadata=metadata)
            for name in ("roundrobin", "range")
        ]
        joined = client.call(
            m.JoinGroupRequest(
                group_id=group_id,
                session_timeout_ms=LIMIT_MS,
                rebalance_timeout_ms=LIMIT_MS,
                group_instance_id="instance",
                protocol_type="consumer",
                protocols=offered,
            ),
            JOIN_VERSION,
        )
        own = m.ConsumerProtocolTopicPartitions(topic=self.topic, partitions=[0])
        assignment = m.ConsumerProtocolAssignment(assigned_partitions=[own])
        synced = client.call(
            m.SyncGroupRequest(
                group_id=group_id,
                generation_id=joined.generation_id,
                member_id=joined.member_id,
                group_instance_id="instance",
                protocol_type="consumer",
                protocol_name=joined.protocol_name,
                assignments=[
                    m.SyncGroupRequestAssignment(
                        member_id=joined.member_id,
                        assignment=struct.pack(">h", 0) + encode(assignment, 0),
                    )
                ],
            ),
            SYNC_VERSION,
        )
        assert (joined.error_code, synced.error_code) == (0, 0)
        return joined


@pytest.fixture(scope="module")
def address() -> Iterator[tuple[str, int]]:
    if ELSEWHERE:
        host, _, port = ELSEWHERE.partition(":")
        yield host, int(port)
        return
    with ThreadServer(
        group_initial_rebalance_delay_ms=0,
        group_consumer_heartbeat_interval_ms=20,
        group_consumer_assignment_interval_ms=0,
    ) as server:
        yield server.addresses[0]


@pytest.fixture
def stage(address: tuple[str, int]) -> Stage:
    name = f"orders-{uuid4().hex[:8]}"
    topic = m.CreatableTopic(name=name, num_partitions=PARTITIONS, replication_factor=1)
    with WireClient(*address) as client:
        client.call(m.CreateTopicsRequest(topics=[topic], timeout_ms=LIMIT_MS))
    return Stage(*address, name)


@pytest_asyncio.fixture
async def admin(stage: Stage) -> AsyncIterator[AdminClient]:
    async with AdminClient(stage.bootstrap, OPTIONS) as client:
        yield client


@pytest.fixture
def group(stage: Stage) -> GroupId:
    return f"group of {stage.topic}"


def codes(results: Results[Any, Any]) -> set[ErrorCode]:
    """Return the codes of the errors; assert that nothing succeeded."""
    assert not results.values
    found = set()
    for error in results.errors.values():
        assert isinstance(error, ApiError)
        found.add(error.code)
    return found


@pytest.mark.fact("C-13", "E29-02", "E16-12a")
async def test_a_consumer_group_is_described_with_epochs(
    stage: Stage, admin: AdminClient, group: GroupId
) -> None:
    recorded = RecordedCallbacks()
    async with stage.consumer(group, recorded):
        await recorded.wait_for_count(PARTITIONS)
        found = (await admin.describe_groups([group])).one(group)
        assert (found.type, found.state) == (GroupType.CONSUMER, GroupState.STABLE)
        assert found.group_epoch == found.assignment_epoch
        assert (found.generation_id, found.leader_id) == (None, None)
        (member,) = found.members
        assert member.epoch == found.group_epoch
        assert member.is_classic is False
        assert member.subscribed_topics == (stage.topic,)
        assert list(member.assignment) == stage.partitions
        assert member.target_assignment == member.assignment
        assert member.host.startswith("/")


@pytest.mark.fact("E29-01", "E29-08", "D-53a")
async def test_a_group_with_members_is_neither_reset_nor_deleted(
    stage: Stage, admin: AdminClient, group: GroupId
) -> None:
    recorded = RecordedCallbacks()
    offsets = dict.fromkeys(stage.partitions, CommittedOffset(1))
    async with stage.consumer(group, recorded):
        await recorded.wait_for_count(PARTITIONS)
        moved = await admin.alter_group_offsets(group, offsets)
        assert codes(moved) == {ErrorCode.UNKNOWN_MEMBER_ID}
        assert moved.errors.keys() == offsets.keys()
        forgotten = await admin.delete_group_offsets(group, stage.partitions)
        assert codes(forgotten) == {ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC}
        deleted = await admin.delete_groups([group])
        assert codes(deleted) == {ErrorCode.NON_EMPTY_GROUP}
        listed = await admin.list_groups(
            states=[GroupState.STABLE], types=[GroupType.CONSUMER]
        )
        assert group in {each.group_id for each in listed.groups}


@pytest.mark.fact("C-02", "C-03", "C-05", "C-12")
async def test_a_classic_group_is_described_with_the_fields_of_kip_181(
    stage: Stage, admin: AdminClient, group: GroupId
) -> None:
    with WireClient(stage.host, stage.port, client_id="me") as client:
        joined = stage.classic_member(client, group)
        found = (await admin.describe_groups([group])).one(group)
        assert (found.type, found.state) == (GroupType.CLASSIC, GroupState.STABLE)
        (member,) = found.members
        assert (member.member_id, member.client_id) == (joined.member_id, "me")
        assert member.instance_id == "instance"
        assert member.assignment == (TopicPartition(stage.topic, 0),)
        assert member.subscribed_topics == (stage.topic,)
        told = (found.generation_id, found.leader_id, member.protocols)
        if ELSEWHERE:
            assert told == (None, None, None)
        else:
            generation = (joined.generation_id, joined.leader)
            assert told == (*generation, ("roundrobin", "range"))


@pytest.mark.fact("B-27")
async def test_all_members_are_removed(
    stage: Stage, admin: AdminClient, group: GroupId
) -> None:
    with WireClient(stage.host, stage.port) as client:
        stage.classic_member(client, group)
        removed = await admin.remove_members(group, reason="tests")
        assert removed.all() == {MemberToRemove(instance_id="instance"): None}
        again = await admin.remove_members(group, [*removed.values])
        assert codes(again) == {ErrorCode.UNKNOWN_MEMBER_ID}
        found = (await admin.describe_groups([group])).one(group)
        assert (found.state, found.members) == (GroupState.EMPTY, ())


@pytest.mark.fact("D-45", "D-54b")
async def test_offsets_of_a_group_without_members_are_deleted(
    stage: Stage, admin: AdminClient, group: GroupId
) -> None:
    first, second = stage.partitions
    await admin.alter_group_offsets(group, {first: CommittedOffset(3)})
    gone = TopicPartition("no-such-topic", 0)
    deleted = await admin.delete_group_offsets(group, [first, second, gone])
    assert deleted.values == {first: None, second: None}
    assert deleted.errors.keys() == {gone}
    assert await admin.list_group_offsets(group) == GroupOffsets({})
    with pytest.raises(ApiError) as caught:
        await admin.delete_group_offsets("no-such-group", [first])
    assert caught.value.code is ErrorCode.GROUP_ID_NOT_FOUND


async def test_authorized_operations_are_returned(
    stage: Stage, admin: AdminClient, group: GroupId
) -> None:
    await admin.alter_group_offsets(group, {stage.partitions[0]: CommittedOffset(3)})
    with_them = (await admin.describe_groups([group], with_operations=True)).one(group)
    without = (await admin.describe_groups([group])).one(group)
    assert with_them.authorized_operations
    assert without.authorized_operations is None
