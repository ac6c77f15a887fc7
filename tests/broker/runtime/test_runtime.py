"""Requests through the runtime: durability, loading, timers and events."""

from __future__ import annotations

from typing import Any

import pytest

from coterie.broker.coordinator.admin import DescribeConsumerGroup, DescribeGroup
from coterie.broker.coordinator.offsets.deletion import DeletedTopic, TopicsDeleted
from coterie.broker.coordinator.shard import Shard
from coterie.broker.runtime.shards import Phase
from coterie.errors import LogError
from coterie.settings import Settings
from coterie.wire import messages as m
from coterie.wire.commit import as_received
from coterie.wire.error_codes import ErrorCode
from coterie.wire.record_batch import decode_records, read_header
from tests.broker.coordinator.driver import Topics
from tests.broker.runtime.world import (
    Caller,
    World,
    commit_error,
    commit_request,
    consumer_join,
    fetch_request,
    heartbeat_request,
    join_request,
    txn_commit_request,
)

# Durability.


@pytest.mark.fact("E23-03a", "E1-05")
def test_a_write_gets_its_response_once_it_is_durable() -> None:
    world = World()
    before = world.writes
    answers = world.submit(commit_request("g", 5), "g")
    assert answers == []
    assert world.writes == before
    world.loop.settle()
    assert world.writes == before + 1
    assert commit_error(answers[0]) == 0


@pytest.mark.fact("E23-05", "E23-16", "H-92")
def test_a_read_waits_for_the_writes_it_has_read() -> None:
    world = World()
    world.submit(commit_request("g", 5), "g")
    answers = world.submit(fetch_request("g"), "g", 5)
    assert answers == []
    world.loop.settle()
    assert answers[0].topics[0].partitions[0].committed_offset == 5


@pytest.mark.fact("E23-16")
@pytest.mark.parametrize("ends", ["flushed", "killed", "failed"])
def test_a_description_has_no_state_that_is_not_durable(ends: str) -> None:
    world = World()
    world.submit(consumer_join("m"), "g", 1)
    world.submit(commit_request("h", 5), "h")
    requests = {"g": DescribeConsumerGroup("g"), "h": DescribeGroup("h")}
    answers = {
        name: world.submit(request, name, 1) for name, request in requests.items()
    }
    answers["f"] = world.submit(fetch_request("h"), "h", 5)
    assert answers == {"g": [], "h": [], "f": []}
    if ends == "killed":
        after = world.reopened()
        assert after.partition("g").shard.state.consumer_groups == {}
        assert after.partition("h").shard.state.classic_groups == {}
        assert after.offset("h") == -1
        return
    world.disk_fails = LogError("the disk is on fire") if ends == "failed" else None
    world.loop.settle()
    [described], [other], [fetched] = answers.values()
    if ends == "failed":
        codes = {each.error_code for each in (described, other, fetched)}
        assert codes == {ErrorCode.NOT_COORDINATOR}
        assert (described.members, other.members, fetched.topics) == ([], [], [])
    else:
        assert [member.member_id for member in described.members] == ["m"]
        assert other.group_state == "Empty"
        assert fetched.topics[0].partitions[0].committed_offset == 5


def test_an_error_response_waits_for_earlier_writes() -> None:
    world = World()
    world.submit(commit_request("g", 5), "g")
    answers = world.submit(heartbeat_request("g"), "g")
    assert answers == []
    world.loop.settle()
    assert answers[0].error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_shard_without_unflushed_writes_responds_immediately() -> None:
    world = World()
    world.submit(commit_request("g", 5), "g")
    other = next(
        name
        for name in map(str, range(100))
        if world.partition(name) is not world.partition("g")
    )
    assert len(world.submit(fetch_request(other), other)) == 1


def test_a_record_has_the_time_of_its_write() -> None:
    world = World()
    world.loop.advance(1.5)
    world.call(consumer_join("m"), "g", 1)
    [batch] = world.log.read(world.partition("g").log_partition, 0, 1 << 30)
    header = read_header(batch)
    times = {record.timestamp_ms for record in decode_records(batch, header)}
    assert times == {world.loop.now_ms}


@pytest.mark.fact("E22-06f")
def test_a_batch_outside_transactions_has_no_producer() -> None:
    world = World()
    world.call(consumer_join("m"), "g", 1)
    world.call(commit_request("h", 5, metadata="m"), "h")
    for name in "gh":
        [batch] = world.log.read(world.partition(name).log_partition, 0, 1 << 30)
        header = read_header(batch)
        assert (header.producer_id, header.producer_epoch) == (-1, -1)
        assert (header.base_sequence, header.attributes) == (-1, 0)


def test_writes_of_one_loop_iteration_are_one_flush() -> None:
    world = World()
    before = world.writes
    for at in range(20):
        world.submit(commit_request(f"g{at}", at), f"g{at}")
    world.loop.settle()
    assert world.writes == before + 1


def test_growth_listeners_are_called_once_records_are_durable() -> None:
    world = World()
    world.submit(commit_request("g", 5), "g")
    assert world.grown == []
    world.loop.settle()
    [(log_partition, size_bytes)] = world.grown
    assert log_partition == world.partition("g").log_partition
    assert size_bytes == world.log.size_bytes(log_partition)


@pytest.mark.fact("E23-06a")
def test_the_records_of_one_request_are_one_batch() -> None:
    world = World()
    request = commit_request("g", 5)
    request.topics[0].partitions += commit_request("g", 6, 1).topics[0].partitions
    world.call(request, "g")
    [batch] = world.log.read(world.partition("g").log_partition, 0, 1 << 20)
    assert read_header(batch).record_count == 2


def test_commits_of_one_loop_iteration_are_one_batch() -> None:
    world = World()
    world.call(commit_request("g", 5), "g")
    log_partition, world.grown = world.partition("g").log_partition, []
    size_bytes = world.log.size_bytes(log_partition)
    answers = [
        world.submit(commit_request("g", 6 + at, partition), "g")
        for at, partition in enumerate([0, 1, 0])
    ]
    assert answers == [[], [], []]
    world.loop.settle()
    assert [commit_error(answer) for [answer] in answers] == [0, 0, 0]
    _, batch = world.log.read(log_partition, 0, 1 << 20)
    assert read_header(batch).record_count == 3
    assert world.grown == [
        (log_partition, world.log.size_bytes(log_partition) - size_bytes)
    ]
    assert (world.offset("g"), world.offset("g", 1)) == (8, 7)
    world = world.reopened()
    assert (world.offset("g"), world.offset("g", 1)) == (8, 7)


def test_a_failed_flush_fails_every_commit_of_its_batch() -> None:
    world = World()
    world.call(commit_request("g", 5), "g")
    world.disk_fails = LogError("broken")
    answers = [world.submit(commit_request("g", 6), "g") for _ in range(3)]
    world.loop.settle()
    codes = [commit_error(answer) for [answer] in answers]
    assert codes == [ErrorCode.NOT_COORDINATOR] * 3
    assert world.offset("g") == 5


@pytest.mark.fact("E23-06b")
def test_a_batch_over_message_max_bytes_fails_and_changes_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = World(settings=Settings(message_max_bytes=500))
    refused = world.call(commit_request("g", 5, metadata="m" * 600), "g")
    assert commit_error(refused) == ErrorCode.UNKNOWN_SERVER_ERROR
    assert "message.max.bytes" in caplog.text
    assert world.partition("g").phase is Phase.ACTIVE
    assert world.offset("g") == -1


def test_a_commit_over_message_max_bytes_fails_and_changes_nothing() -> None:
    world = World(settings=Settings(message_max_bytes=500))
    world.call(commit_request("g", 5), "g")
    request = commit_request("g", 6)
    request.topics[0].partitions *= 20
    assert commit_error(world.call(request, "g")) == ErrorCode.UNKNOWN_SERVER_ERROR
    assert world.partition("g").phase is Phase.ACTIVE
    assert world.offset("g") == 5


def test_a_commit_that_exceeds_the_open_batch_begins_another() -> None:
    world = World(settings=Settings(message_max_bytes=400))
    sizes = [commit_request("g", at, partition) for at, partition in ((5, 0), (6, 1))]
    sizes[1].topics[0].partitions *= 5
    answers = [world.submit(request, "g") for request in sizes]
    world.loop.settle()
    assert [commit_error(answer) for [answer] in answers] == [0, 0]
    batches = world.log.read(world.partition("g").log_partition, 0, 1 << 20)
    assert [read_header(batch).record_count for batch in batches] == [1, 5]
    assert (world.offset("g"), world.offset("g", 1)) == (5, 6)


# Loading.


@pytest.mark.fact("E23-02a")
def test_requests_to_a_loading_shard_get_coordinator_load_in_progress() -> None:
    world = World(starts=False)
    world.start()
    answers = world.submit(commit_request("g", 5), "g")
    assert commit_error(answers[0]) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    world.loop.settle()
    assert world.phases == {Phase.ACTIVE}


@pytest.mark.fact("H-121a")
def test_a_classic_heartbeat_succeeds_while_its_shard_loads() -> None:
    world = World(starts=False)
    world.start()
    assert world.submit(heartbeat_request("g"), "g")[0].error_code == 0


@pytest.mark.fact("H-112", "E7-04")
def test_requests_before_start_get_coordinator_not_available() -> None:
    world = World(starts=False)
    heartbeat = world.submit(heartbeat_request("g"), "g")[0]
    assert heartbeat.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    commit = world.submit(commit_request("g", 5), "g")[0]
    assert commit_error(commit) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    fetch = world.submit(fetch_request("g"), "g")[0]
    assert fetch.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    join = world.submit(consumer_join("m"), "g", 1)[0]
    assert join.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE


@pytest.mark.fact("E23-10a")
def test_acknowledged_commits_survive_a_kill() -> None:
    world = World()
    for at in range(30):
        assert commit_error(world.call(commit_request(f"g{at}", at), f"g{at}")) == 0
    reopened = world.reopened()
    assert [reopened.offset(f"g{at}") for at in range(30)] == list(range(30))


def test_unflushed_commits_are_lost_by_a_kill() -> None:
    world = World()
    world.submit(commit_request("g", 5), "g")
    assert world.reopened().offset("g") == -1


@pytest.mark.fact("E23-10b", "E23-15")
def test_a_member_without_heartbeats_after_a_restart_is_removed() -> None:
    world = World()
    joined: list[Any] = world.submit(join_request("g"), "g", 3)
    world.loop.advance(4)
    member_id = joined[0].member_id
    plan = m.SyncGroupRequestAssignment(member_id=member_id, assignment=b"")
    request = m.SyncGroupRequest(
        group_id="g", generation_id=1, member_id=member_id, assignments=[plan]
    )
    assert world.call(request, "g", 2).error_code == 0
    reopened = world.reopened()
    assert len(reopened.partition("g").timers) >= 2
    reopened.loop.advance(30)
    assert reopened.partition("g").shard.state.classic_groups["g"].members == {}


# Timers.


@pytest.mark.fact("E23-15")
def test_a_pending_join_group_is_completed_by_its_timer() -> None:
    world = World()
    joined = world.submit(join_request("g"), "g", 3)
    world.loop.settle()
    assert joined == []
    world.loop.advance(3.1)
    assert joined[0].generation_id == 1


@pytest.mark.fact("E23-15", "E8-07")
def test_the_records_of_a_timer_are_written_flushed_and_replayed() -> None:
    world = World()
    assert world.call(consumer_join("m"), "g", 1).error_code == 0
    partition = world.partition("g")
    before = world.log.bounds(partition.log_partition).next_offset
    world.loop.advance(Settings().group_consumer_session_timeout_ms / 1000)
    assert partition.shard.state.consumer_groups["g"].members == {}
    bounds = world.log.bounds(partition.log_partition)
    assert bounds.flushed_offset == bounds.next_offset > before
    assert world.grown[-1][0] == partition.log_partition
    reopened = world.reopened()
    assert reopened.partition("g").shard.state.consumer_groups["g"].members == {}


@pytest.mark.fact("E23-15")
def test_a_timer_whose_records_cannot_be_flushed_changes_nothing() -> None:
    world = World()
    assert world.call(consumer_join("m"), "g", 1).error_code == 0
    world.disk_fails = LogError("the disk is on fire")
    world.loop.advance(Settings().group_consumer_session_timeout_ms / 1000)
    world.disk_fails = None
    world.loop.settle()
    assert [*world.partition("g").shard.state.consumer_groups["g"].members] == ["m"]


# Events.


@pytest.mark.fact("E23-14")
@pytest.mark.parametrize("while_loading", [False, True])
def test_a_topic_deletion_is_broadcast_to_all_shards(while_loading: bool) -> None:
    world = World()
    names = [f"g{at}" for at in range(12)]
    for name in names:
        world.call(commit_request(name, 5), name)
    if while_loading:
        world = world.reopened(starts=False)
        world.start()
    topic_id = world.topics.topic_id("t")
    assert topic_id is not None
    world.runtime.broadcast(TopicsDeleted((DeletedTopic("t", topic_id),)))
    world.loop.settle()
    assert {world.offset(name) for name in names} == {-1}


@pytest.mark.fact("E23-06c")
def test_an_event_with_many_records_is_written_in_several_batches() -> None:
    world = World(shard_count=1, topics=Topics({"t": 3_000}))
    request = commit_request("g", 5)
    request.topics[0].partitions = [
        commit_request("g", 5, at).topics[0].partitions[0] for at in range(2_500)
    ]
    world.call(request, "g")
    topic_id = world.topics.topic_id("t")
    assert topic_id is not None
    world.runtime.broadcast(TopicsDeleted((DeletedTopic("t", topic_id),)))
    world.loop.settle()
    batches = world.log.read(world.partition("g").log_partition, 0, 1 << 30)
    assert [read_header(batch).record_count for batch in batches] == [
        2_500,
        1_000,
        1_000,
        500,
    ]


# Order.


@pytest.mark.fact("E23-01")
def test_requests_of_a_shard_never_overlap() -> None:
    # A request that a callback submits does not interrupt the current one either.
    running: list[Any] = []

    class Checked(Shard):
        def handle(self, request: Any, context: Any) -> Any:
            assert not running
            running.append(request)
            try:
                return super().handle(request, context)
            finally:
                running.pop()

        def replay(self, record: Any, origin: Any) -> None:
            assert not running
            running.append(record)
            super().replay(record, origin)
            running.pop()

    class CheckedWorld(World):
        def make_shard(self) -> Shard:
            return Checked(self.settings)

    world = CheckedWorld(shard_count=1)
    left = [20]

    def again(_: Any) -> None:
        if left[0]:
            left[0] -= 1
            request = as_received(commit_request("g", left[0]), 8)
            world.runtime.submit(0, request, Caller(), again)
            world.runtime.submit(0, fetch_request("g"), Caller(), lambda _: None)

    again(None)
    world.loop.settle()
    assert world.phases == {Phase.ACTIVE}
    assert world.offset("g") == 0


# Transactions.


def test_a_transactional_commit_is_visible_after_its_durable_marker() -> None:
    world = World()
    assert commit_error(world.call(txn_commit_request("g", 9), "g", 5)) == 0
    assert world.offset("g") == -1
    world.runtime.end_transaction(world.runtime.shard_of("g"), 7, 0, True)
    answers = world.submit(fetch_request("g"), "g")
    assert answers == []
    world.loop.settle()
    assert world.offset("g") == 9


@pytest.mark.parametrize("committed", [True, False])
@pytest.mark.parametrize("restarts", [0, 1, 2])
def test_a_transaction_has_the_same_outcome_after_any_number_of_restarts(
    committed: bool, restarts: int
) -> None:
    world = World()
    world.call(commit_request("g", 1), "g")
    world.call(txn_commit_request("g", 9), "g", 5)
    if restarts > 0:
        world = world.reopened()
    assert world.offset("g") == 1
    world.runtime.end_transaction(world.runtime.shard_of("g"), 7, 0, committed)
    world.loop.settle()
    if restarts > 1:
        world = world.reopened()
    assert world.offset("g") == (9 if committed else 1)


def test_a_marker_staged_while_the_shard_loads_is_replayed_from_the_log() -> None:
    world = World()
    world.call(txn_commit_request("g", 9), "g", 5)
    loading = world.reopened(starts=False)
    loading.start()
    loading.runtime.end_transaction(loading.runtime.shard_of("g"), 7, 0, True)
    loading.loop.settle()
    assert loading.phases == {Phase.ACTIVE}
    assert loading.offset("g") == 9


# Stop.


def test_no_request_is_served_after_stop() -> None:
    world = World()
    world.runtime.stop()
    refused = world.call(commit_request("g", 5), "g")
    assert commit_error(refused) == ErrorCode.NOT_COORDINATOR
    assert world.loop.alarms == 0
