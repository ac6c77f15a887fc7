"""Plans that are applied to groups on a server.

COTERIE_TEST_BOOTSTRAP=HOST:PORT selects another broker, such as Apache Kafka.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any
from uuid import uuid4

import pytest
import pytest_asyncio

from coterie.client import AdminClient
from coterie.client.admin.group_calls import MemberToRemove
from coterie.client.admin.group_offsets import CommittedOffset
from coterie.client.admin.groups import GroupState
from coterie.client.admin.topics import NewTopic
from coterie.operations.apply import apply_items
from coterie.operations.current_groups import read_current_groups
from coterie.operations.plan_files import Action, ItemResult, PlanItem, Verdict
from coterie.operations.plans import (
    GroupPlan,
    items_of,
    plan_clone,
    plan_delete_groups,
    plan_delete_offsets,
    plan_offsets,
    plan_remove_members,
)
from coterie.operations.resets import (
    Note,
    Scenario,
    ShiftBy,
    ToCommits,
    ToEarliest,
    ToLatest,
    ToTime,
    plan_resets,
    write_offsets,
)
from coterie.operations.selection import TopicSelector
from coterie.operations.undo import plan_undo
from coterie.types import GroupId, TopicPartition
from coterie.wire import messages as m
from coterie.wire.record_batch import LogRecord, encode_batch
from tests.broker.server.harness import ThreadServer, WireClient
from tests.client.recorded_callbacks import RecordedCallbacks
from tests.client.scripted_broker import OPTIONS
from tests.operations.small_cluster import MemorySnapshot
from tests.support.waiting import eventually

pytestmark = [pytest.mark.asyncio, pytest.mark.slow]

ELSEWHERE = os.environ.get("COTERIE_TEST_BOOTSTRAP", "")
LIMIT_MS = 10_000
RECORDS = 10


@dataclass
class Stage:
    """A broker, a topic of two partitions with ten records each, and a group."""

    host: str
    port: int
    topic: str

    @property
    def bootstrap(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def group(self) -> GroupId:
        return f"group of {self.topic}"

    def at(self, partition: int) -> TopicPartition:
        return TopicPartition(self.topic, partition)

    def client(self) -> WireClient:
        return WireClient(self.host, self.port)


@pytest.fixture(scope="module")
def address() -> Iterator[tuple[str, int]]:
    if ELSEWHERE:
        host, _, port = ELSEWHERE.partition(":")
        yield host, int(port)
        return
    with ThreadServer(
        group_consumer_heartbeat_interval_ms=20,
        group_consumer_assignment_interval_ms=0,
    ) as server:
        yield server.addresses[0]


@pytest.fixture
def stage(address: tuple[str, int]) -> Stage:
    made = Stage(*address, f"orders-{uuid4().hex[:8]}")
    topic = m.CreatableTopic(name=made.topic, num_partitions=2, replication_factor=1)
    with made.client() as client:
        client.call(m.CreateTopicsRequest(topics=[topic], timeout_ms=LIMIT_MS))
    produce_to(made)
    return made


def produce_to(stage: Stage) -> None:
    """Append records, once the broker knows the new topic."""
    with stage.client() as client:
        for partition in range(2):
            produced = partial(is_produced, client, records(stage.topic, partition))
            eventually(produced, expected="the records are written")


def is_produced(client: WireClient, request: m.ProduceRequest) -> bool:
    answer = client.call(request, 9)
    return bool(answer.responses[0].partition_responses[0].error_code == 0)


def records(topic: str, partition: int) -> m.ProduceRequest:
    """Append ten records with the times 0, 1000, ... ms."""
    batch = encode_batch(
        [LogRecord(each, 1000 * each, b"key", b"value") for each in range(RECORDS)]
    )
    data = m.PartitionProduceData(index=partition, records=batch)
    topic_data = m.TopicProduceData(name=topic, partition_data=[data])
    return m.ProduceRequest(acks=-1, timeout_ms=LIMIT_MS, topic_data=[topic_data])


@pytest_asyncio.fixture
async def admin(stage: Stage) -> AsyncIterator[AdminClient]:
    async with AdminClient(stage.bootstrap, OPTIONS) as client:
        yield client


async def offsets_of(
    admin: AdminClient, group_id: GroupId
) -> Mapping[TopicPartition, CommittedOffset]:
    return (await read_current_groups(admin, [group_id])).one(group_id).committed


async def commit(admin: AdminClient, stage: Stage, *offsets: int) -> None:
    """Commit the offsets for the group, from partition 0 on, without a member."""
    commits = {
        stage.at(number): CommittedOffset(offset, 0, f"by {number}")
        for number, offset in enumerate(offsets)
    }
    assert not (await admin.group_offsets.alter(stage.group, commits)).errors


async def applied(
    admin: AdminClient,
    items: tuple[PlanItem, ...],
    snapshot: MemorySnapshot | None = None,
) -> list[Verdict]:
    results = await apply_items(admin, items, snapshot or MemorySnapshot())
    return [each.verdict for each in results]


async def reset(admin: AdminClient, stage: Stage) -> tuple[PlanItem, ...]:
    scenarios: Mapping[GroupId, Scenario] = {stage.group: ToEarliest()}
    return items_of(await plan_offsets(admin, Action.RESET, scenarios))


@pytest.mark.fact("C-60a")
@pytest.mark.parametrize(
    ("scenario", "offset"),
    [
        (ToEarliest(), 0),
        (ToLatest(), 10),
        (ShiftBy(-2), 3),
        (ShiftBy(99), 10),
        (ToTime(3_500), 4),
        (ToTime(99_000), 10),
    ],
)
async def test_each_scenario_resets_a_group_on_a_server(
    stage: Stage, admin: AdminClient, scenario: Scenario, offset: int
) -> None:
    await commit(admin, stage, 5)
    (planned,) = await plan_resets(admin, {stage.group: scenario})
    written = await write_offsets(admin, stage.group, planned.writes)
    assert not written.errors
    found = (await offsets_of(admin, stage.group))[stage.at(0)]
    assert (found.offset, found.metadata) == (offset, "by 0")


@pytest.mark.fact("C-61", "E29-07")
async def test_a_group_with_members_is_not_reset(
    stage: Stage, admin: AdminClient
) -> None:
    recorded = RecordedCallbacks()
    member = recorded.member(
        stage.bootstrap, group_id=stage.group, topics=[stage.topic], client=OPTIONS
    )
    async with member:
        await recorded.wait_for_count(2)
        (live,) = await plan_resets(admin, {stage.group: ToEarliest()})
        assert "but the current state is Stable" in str(live.error)
    (left,) = await plan_resets(
        admin, {stage.group: ToEarliest()}, (TopicSelector(stage.topic),)
    )
    assert left.error is None
    assert len(left.writes) == 2


async def actions(admin: AdminClient, stage: Stage) -> dict[str, tuple[GroupPlan, ...]]:
    """Return a plan of each action that writes offsets."""
    group = stage.group
    exact = ToCommits({stage.at(0): CommittedOffset(1, 0, "x")})
    scope = (TopicSelector(stage.topic, (1,)),)
    return {
        "reset": await plan_offsets(admin, Action.RESET, {group: ToLatest()}),
        "set": await plan_offsets(admin, Action.SET, {group: exact}),
        "clone": (await plan_clone(admin, group, f"{group}-clone"),),
        "delete offsets": await plan_delete_offsets(admin, [group], scope),
        "delete": await plan_delete_groups(admin, [group]),
    }


@pytest.mark.parametrize(
    "action", ["reset", "set", "clone", "delete offsets", "delete"]
)
async def test_undo_restores_the_offsets_and_is_idempotent(
    stage: Stage, admin: AdminClient, action: str
) -> None:
    await commit(admin, stage, 5, 7)
    clone = f"{stage.group}-clone"
    before = await offsets_of(admin, stage.group)
    items = items_of((await actions(admin, stage))[action])
    snapshot = MemorySnapshot()
    assert await applied(admin, items, snapshot) == [Verdict.DONE]
    after = await offsets_of(admin, stage.group), await offsets_of(admin, clone)
    assert after != (before, {})
    assert await applied(admin, items) == [Verdict.ALREADY]
    assert after == (
        await offsets_of(admin, stage.group),
        await offsets_of(admin, clone),
    )
    undo = await plan_undo(admin, snapshot.content)
    assert await applied(admin, items_of(undo)) == [Verdict.DONE]
    assert await offsets_of(admin, stage.group) == before
    seen = (await read_current_groups(admin, [clone])).one(clone)
    assert (seen.committed, seen.state) == ({}, GroupState.DEAD)


@pytest.mark.parametrize("action", ["delete offsets", "delete"])
async def test_offsets_of_a_topic_that_was_created_again_are_not_restored(
    stage: Stage, admin: AdminClient, action: str
) -> None:
    await commit(admin, stage, 5, 7)
    snapshot = MemorySnapshot()
    items = items_of((await actions(admin, stage))[action])
    assert await applied(admin, items, snapshot) == [Verdict.DONE]
    (await admin.topics.delete([stage.topic])).all()
    (await admin.topics.create([NewTopic(stage.topic, 2, 1)])).all()
    produce_to(stage)
    (undo,) = await plan_undo(admin, snapshot.content)
    assert undo.item is None
    assert all("was deleted and created again" in str(row.error) for row in undo.rows)
    (forced,) = await plan_undo(admin, snapshot.content, force=True)
    assert all(Note.RECREATED in row.notes for row in forced.rows)


@pytest.mark.parametrize("action", ["reset", "set", "delete offsets", "delete"])
async def test_a_commit_after_the_plan_is_never_overwritten(
    stage: Stage, admin: AdminClient, action: str
) -> None:
    await commit(admin, stage, 5, 7)
    items = items_of((await actions(admin, stage))[action])
    await commit(admin, stage, 6, 8)
    assert await applied(admin, items) == [Verdict.REFUSED]
    offsets = await offsets_of(admin, stage.group)
    assert [each.offset for each in offsets.values()] == [6, 8]


async def test_a_group_with_a_member_after_the_plan_is_not_deleted(
    stage: Stage, admin: AdminClient
) -> None:
    await commit(admin, stage, 5, 7)
    items = await reset(admin, stage)
    delete = items_of(await plan_delete_groups(admin, [stage.group]))
    recorded = RecordedCallbacks()
    member = recorded.member(
        stage.bootstrap, group_id=stage.group, topics=[stage.topic], client=OPTIONS
    )
    async with member:
        await recorded.wait_for_count(2)
        assert await applied(admin, items) == [Verdict.REFUSED]
        assert await applied(admin, delete) == [Verdict.REFUSED]
        forced = await apply_items(admin, items, MemorySnapshot(), force=True)
        assert reasons_of(forced) == {"the group has members; stop them first"}
    assert await applied(admin, items) == [Verdict.REFUSED]
    offsets = await offsets_of(admin, stage.group)
    assert [each.offset for each in offsets.values()] == [5, 7]


def reasons_of(results: tuple[ItemResult, ...]) -> set[str]:
    (result,) = results
    assert result.verdict is Verdict.FAILED
    return {reason.partition(": ")[2] for reason in result.reasons}


@pytest.mark.parametrize("partition", [0, 1])
async def test_a_transaction_after_the_plan_is_never_overwritten(
    stage: Stage, admin: AdminClient, partition: int
) -> None:
    """Test partition 0 with a commit, and partition 1 without one before the
    transaction."""
    await commit(admin, stage, 5)
    scope = (TopicSelector(stage.topic),)
    scenarios: Mapping[GroupId, Scenario] = {stage.group: ToEarliest()}
    items = items_of(await plan_offsets(admin, Action.RESET, scenarios, scope))
    with stage.client() as client:
        begin_transaction(stage, client, partition)
        (result,) = await apply_items(admin, items, MemorySnapshot())
    assert result.verdict is Verdict.REFUSED
    assert "cannot be read" in result.reasons[0]
    found = await admin.group_offsets.fetch(stage.group, [stage.at(0)])
    assert found.offsets == {stage.at(0): CommittedOffset(5, 0, "by 0")}


def begin_transaction(stage: Stage, client: WireClient, partition: int) -> None:
    """Begin a transaction, commit an offset of the group in it, and leave it open."""
    name = f"tx of {stage.topic}"
    request = m.InitProducerIdRequest(
        transactional_id=name, transaction_timeout_ms=LIMIT_MS
    )
    find = m.FindCoordinatorRequest(key=name, key_type=1)  # creates __transaction_state
    eventually(lambda: ready(client.call(find, 3)), expected="a coordinator")
    made = eventually(lambda: ready(client.call(request, 4)), expected="a producer id")
    ids = {
        "transactional_id": name,
        "producer_id": made.producer_id,
        "producer_epoch": made.producer_epoch,
        "group_id": stage.group,
    }
    group = m.AddOffsetsToTxnRequest(**ids)
    eventually(lambda: ready(client.call(group, 3)), expected="a transaction")
    offset = m.TxnOffsetCommitRequestPartition(
        partition_index=partition, committed_offset=9
    )
    topic = m.TxnOffsetCommitRequestTopic(name=stage.topic, partitions=[offset])
    answer = client.call(m.TxnOffsetCommitRequest(**ids, topics=[topic]), 2)
    assert answer.topics[0].partitions[0].error_code == 0


def ready(answer: Any) -> Any:
    """Return the response if it has no error, else None."""
    return answer if answer.error_code == 0 else None


async def test_members_are_removed(stage: Stage, admin: AdminClient) -> None:
    recorded = RecordedCallbacks()
    member = recorded.member(
        stage.bootstrap,
        group_id=stage.group,
        topics=[stage.topic],
        instance_id="till-1",
        client=OPTIONS,
    )
    async with member:
        await recorded.wait_for_count(2)
        to_remove = [MemberToRemove(instance_id="till-1")]
        planned = await plan_remove_members(admin, stage.group, to_remove)
        assert await applied(admin, items_of([planned])) == [Verdict.DONE]
        await recorded.until(
            lambda: any(what == "lost" for what, _ in recorded.entries)
        )
