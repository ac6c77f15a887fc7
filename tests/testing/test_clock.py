"""A clock that a test moves, with raw members of groups. The clock is frozen, so that
the speed of the machine does not matter."""

from __future__ import annotations

import asyncio
import select
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from coterie.broker.coordinator.result import Timer
from coterie.broker.log.stores import open_log
from coterie.testing import Kafka
from coterie.testing.clock import Clock
from coterie.wire import messages as m
from coterie.wire.record_batch import (
    LogRecord,
    decode_records,
    encode_batch,
    split_batches,
)
from tests.broker.server.apis.fake_broker import produce_request
from tests.broker.server.harness import ThreadServer, WireClient
from tests.interop.exchanges.members import (
    Beating,
    ClassicMember,
    assign_at_once,
    commit,
    describe_classic,
    join_classic,
    join_request,
)
from tests.interop.exchanges.transactions import Transactions, offsets
from tests.support.waiting import eventually

UNKNOWN_MEMBER_ID = 25
EARLIEST, LATEST = -2, -1
WEEK = timedelta(days=7)


@contextmanager
def serving(clock: Clock, **options: Any) -> Iterator[ThreadServer]:
    options.setdefault("group_initial_rebalance_delay_ms", 0)
    with ThreadServer(clock=clock, **options) as server:
        yield server


@pytest.fixture
def clock() -> Clock:
    clock = Clock()
    clock.freeze()
    return clock


@pytest.fixture
def server(clock: Clock) -> Iterator[ThreadServer]:
    with serving(clock) as server:
        yield server


@pytest.fixture
def wire(server: ThreadServer) -> Iterator[WireClient]:
    with server.client() as client:
        create_topic(client, "t", partitions=2)
        yield client


def create_topic(
    wire: WireClient, name: str, *, partitions: int = 1, **configs: str
) -> None:
    """Create a topic; `retention_ms` is a config with dots."""
    topic = m.CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=1,
        configs=[
            m.CreatableTopicConfig(name=key.replace("_", "."), value=value)
            for key, value in configs.items()
        ],
    )
    created = wire.call(m.CreateTopicsRequest(topics=[topic], timeout_ms=5_000), 6)
    assert created.topics[0].error_code == 0, created


def produce(
    wire: WireClient,
    topic: str,
    timestamp_ms: int,
    key: bytes = b"k",
    value: bytes | None = b"v",
) -> Any:
    """Produce a record; return the response of the partition."""
    batch = encode_batch([LogRecord(0, timestamp_ms, key, value)])
    response = wire.call(produce_request(batch, topic=topic), 9)
    [[found]] = [each.partition_responses for each in response.responses]
    return found


def offset_at(wire: WireClient, topic: str, timestamp: int) -> int:
    asked = m.ListOffsetsPartition(partition_index=0, timestamp=timestamp)
    listed = m.ListOffsetsTopic(name=topic, partitions=[asked])
    response = wire.call(m.ListOffsetsRequest(replica_id=-1, topics=[listed]), 7)
    offset: int = response.topics[0].partitions[0].offset
    return offset


def beat(wire: WireClient, member: ClassicMember, instance: str | None = None) -> int:
    """Send a classic heartbeat of group "g"; return the error code."""
    request = m.HeartbeatRequest(
        group_id="g",
        generation_id=member.generation,
        member_id=member.id,
        group_instance_id=instance,
    )
    code: int = wire.call(request, 4).error_code
    return code


def state_of(wire: WireClient, group: str) -> str:
    return describe_classic(wire, group).group_state


def groups(wire: WireClient) -> Mapping[str, str]:
    response = wire.call(m.ListGroupsRequest(), 5)
    return {each.group_id: each.group_state for each in response.groups}


# The time.


def test_a_frozen_clock_moves_by_what_is_advanced(
    clock: Clock, server: ThreadServer
) -> None:
    before = clock.now
    clock.advance(timedelta(days=1), hours=1, minutes=1, seconds=1, ms=1)
    assert clock.now - before == timedelta(
        days=1, hours=1, minutes=1, seconds=1, milliseconds=1
    )
    assert clock.now_ms == round(clock.now.timestamp() * 1_000)


def test_a_clock_that_runs_moves_by_at_least_what_is_advanced() -> None:
    clock = Clock()
    before = datetime.now(UTC)
    clock.advance(days=8)
    assert clock.now - before >= timedelta(days=8) - timedelta(milliseconds=1)


def test_a_clock_runs_on_from_where_it_was_frozen(clock: Clock) -> None:
    frozen = clock.now
    clock.advance(days=1)
    clock.run()
    assert not clock.is_frozen
    assert timedelta(days=1) <= clock.now - frozen < timedelta(days=2)


def test_the_time_does_not_go_back(clock: Clock) -> None:
    with pytest.raises(ValueError, match="cannot go back: -1 day"):
        clock.advance(days=-1)


@pytest.mark.slow
def test_a_second_server_has_the_time_of_the_first(clock: Clock) -> None:
    for _ in range(2):
        with serving(clock) as server:
            clock.advance(days=1)
            assert server.server.assembly.broker.data.clock() == clock.now_ms


def test_time_that_passes_between_two_servers_counts(clock: Clock) -> None:
    with serving(clock):
        before = clock.now
    clock.detach()
    clock.advance(days=1)
    with serving(clock):
        assert clock.now - before == timedelta(days=1)


def test_advance_in_the_servers_loop_is_refused(
    clock: Clock, server: ThreadServer
) -> None:
    async def advance() -> None:
        with pytest.raises(RuntimeError, match="await advance_async"):
            clock.advance(days=1)
        await clock.advance_async(days=1)

    before = clock.now
    server.run(advance())
    assert clock.now - before == timedelta(days=1)


def test_another_loop_can_advance(clock: Clock, server: ThreadServer) -> None:
    before = clock.now
    asyncio.run(clock.advance_async(days=1))
    assert clock.now - before == timedelta(days=1)


def test_advance_waits_for_the_worker_thread(
    clock: Clock, server: ThreadServer
) -> None:
    events: list[str] = []
    may_end = threading.Event()

    async def start() -> None:
        broker = server.server.assembly.broker
        broker.data.run_in_worker(may_end.wait, lambda _: events.append("decoded"))
        asyncio.get_running_loop().call_later(0.02, may_end.set)

    server.run(start())
    clock.advance(seconds=1)
    assert events == ["decoded"]


def test_advance_says_why_a_paused_server_does_not_finish(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("coterie.testing.clock._WAIT_S", 0.01)
    with Kafka() as kafka:
        kafka.pause()
        with pytest.raises(TimeoutError, match="resume it if it is paused"):
            kafka.clock.advance(days=1)
        kafka.resume()


def test_the_time_of_kafka_survives_a_kill() -> None:
    with Kafka() as kafka:
        kafka.clock.advance(days=1)
        kafka.kill()
        kafka.clock.advance(days=1)
        kafka.restart()
        kafka.clock.advance(days=1)
        assert kafka.clock.now - datetime.now(UTC) > timedelta(days=2, hours=23)


# Members.


def test_a_classic_session_expires_when_its_timeout_has_passed(
    clock: Clock, wire: WireClient
) -> None:
    member = join_classic(wire, "g", "t", session_timeout_ms=45_000)
    clock.advance(seconds=44)
    assert beat(wire, member) == 0
    clock.advance(seconds=44)
    assert state_of(wire, "g") == "Stable"
    clock.advance(seconds=1)
    assert beat(wire, member) == UNKNOWN_MEMBER_ID
    assert state_of(wire, "g") == "Empty"


def test_a_static_member_keeps_its_id_until_its_session_expires(
    clock: Clock, wire: WireClient
) -> None:
    member = join_classic(
        wire, "g", "t", session_timeout_ms=45_000, group_instance_id="i"
    )
    clock.advance(seconds=44)
    assert beat(wire, member, "i") == 0
    clock.advance(seconds=45)
    assert beat(wire, member, "i") == UNKNOWN_MEMBER_ID


def test_a_member_of_the_consumer_protocol_is_fenced(
    clock: Clock, wire: WireClient
) -> None:
    assign_at_once(wire, "g")
    member = Beating(wire, "g", "t").owning(2)
    clock.advance(seconds=44)
    assert member.beat().error_code == 0
    clock.advance(seconds=45)
    assert member.beat().error_code == UNKNOWN_MEMBER_ID


@pytest.mark.slow
def test_keep_sessions_keeps_members_of_both_protocols(
    clock: Clock, wire: WireClient
) -> None:
    assign_at_once(wire, "c")
    consumer = Beating(wire, "c", "t").owning(2)
    member = join_classic(wire, "g", "t", session_timeout_ms=45_000)
    clock.advance(seconds=40)
    clock.advance(days=8, keep_sessions=True)
    assert state_of(wire, "g") == "Stable"
    clock.advance(seconds=4)
    assert (beat(wire, member), consumer.beat().error_code) == (0, 0)
    clock.advance(days=8, keep_sessions=True)
    clock.advance(seconds=45)
    assert beat(wire, member) == UNKNOWN_MEMBER_ID
    assert consumer.beat().error_code == UNKNOWN_MEMBER_ID


def test_keep_sessions_keeps_a_member_that_sends_heartbeats_meanwhile(
    clock: Clock, server: ThreadServer, wire: WireClient
) -> None:
    member = join_classic(wire, "g", "t", session_timeout_ms=45_000)
    broker = server.server.assembly.broker
    timers = broker.runtime.shards[broker.shard_of("g")].timers
    beats: list[int] = []

    def renew() -> None:
        session = timers.entries["session", "g", member.id]
        timers.change(Timer(session.key, clock.now_ms + 45_000, session.request))
        beats.append(clock.now_ms)
        broker.data.timekeeping.scheduler.call_later(3_600, renew)

    async def start() -> None:
        renew()

    server.run(start())
    clock.advance(days=1, keep_sessions=True)
    assert len(beats) == 25
    clock.advance(seconds=44)
    assert beat(wire, member) == 0
    clock.advance(seconds=45)
    assert beat(wire, member) == UNKNOWN_MEMBER_ID


def test_a_classic_member_that_does_not_rejoin_is_removed(
    clock: Clock, server: ThreadServer, wire: WireClient
) -> None:
    join_classic(
        wire, "g", "t", session_timeout_ms=100_000, rebalance_timeout_ms=30_000
    )
    with server.client() as other:
        refused = other.call(join_request("g", "t"), 9)
        request = join_request("g", "t", member_id=refused.member_id)
        other.send(request, 9)
        wire_has_seen(wire, "g", "PreparingRebalance")
        clock.advance(seconds=30)
        joined = other.receive()
    assert joined.error_code == 0
    assert [each.member_id for each in joined.members] == [refused.member_id]


def wire_has_seen(wire: WireClient, group: str, state: str) -> None:
    """Wait until a request on another connection was handled."""
    eventually(lambda: state_of(wire, group) == state, expected=state)


def test_a_member_that_does_not_acknowledge_a_revocation_is_fenced(
    clock: Clock, wire: WireClient
) -> None:
    assign_at_once(wire, "g")
    slow = Beating(wire, "g", "t", rebalance_timeout_ms=20_000).owning(2)
    Beating(wire, "g", "t")
    slow.beat()
    assert sum(map(len, slow.owned.values())) == 1
    clock.advance(seconds=19)
    assert slow.beat().error_code == 0
    clock.advance(seconds=1)
    assert slow.beat().error_code == UNKNOWN_MEMBER_ID


# Offsets and groups.


@pytest.mark.slow
def test_offsets_expire_a_week_after_the_session_of_the_last_member(
    clock: Clock, wire: WireClient
) -> None:
    member = join_classic(wire, "g", "t", session_timeout_ms=45_000)
    commit(wire, "g", {("t", 0): 5}, member_id=member.id, epoch=member.generation)
    clock.advance(WEEK)
    assert offsets(wire, "g", {"t": [0]}) == {("t", 0): 5}
    clock.advance(minutes=11)
    assert offsets(wire, "g", {"t": [0]}) == {("t", 0): -1}
    assert "g" not in groups(wire)


@pytest.mark.slow
def test_keep_sessions_expires_the_offsets_of_groups_without_members(
    clock: Clock, wire: WireClient
) -> None:
    member = join_classic(wire, "g", "t")
    commit(wire, "g", {("t", 0): 5}, member_id=member.id, epoch=member.generation)
    commit(wire, "left", {("t", 0): 6})
    clock.advance(days=8, keep_sessions=True)
    assert offsets(wire, "g") == {("t", 0): 5}
    assert groups(wire) == {"g": "Stable"}


@pytest.mark.slow
def test_a_commit_has_the_time_of_the_clock(clock: Clock, wire: WireClient) -> None:
    clock.advance(days=8)
    commit(wire, "g", {("t", 0): 5})
    clock.advance(days=6)
    assert offsets(wire, "g") == {("t", 0): 5}


@pytest.mark.slow
def test_the_end_of_a_session_is_durable_when_advance_returns(
    clock: Clock, tmp_path: Path
) -> None:
    log = open_log(tmp_path)
    with serving(clock, log=log) as server, server.client() as wire:
        create_topic(wire, "t")
        join_classic(wire, "g", "t", session_timeout_ms=45_000)

        async def advance() -> int:
            broker = server.server.assembly.broker
            before = broker.flusher.durable_sequence
            await clock.advance_async(seconds=45)
            assert not log.has_staged()
            assert not broker.flusher.is_writing
            return broker.flusher.durable_sequence - before

        assert server.run(advance()) == 1


def test_an_abort_has_happened_when_advance_returns(
    clock: Clock, server: ThreadServer, wire: WireClient
) -> None:
    Transactions(wire, "x").commit("g", {("t", 0): 5})

    async def advance() -> bool:
        await clock.advance_async(minutes=1)
        transactions = server.server.assembly.broker.catalog.transactions
        return any(transactions.ongoing())

    assert not server.run(advance())


def test_a_transaction_that_is_too_old_is_aborted(
    clock: Clock, wire: WireClient
) -> None:
    transactions = Transactions(wire, "x")
    transactions.commit("g", {("t", 0): 5})
    clock.advance(seconds=59)
    assert state_of_transactions(wire) == {"x": "Ongoing"}
    clock.advance(seconds=1)
    assert state_of_transactions(wire) == {"x": "CompleteAbort"}
    assert offsets(wire, "g", {"t": [0]}, stable=True) == {("t", 0): -1}


@pytest.mark.slow
def test_transactional_ids_expire_a_week_after_their_last_transaction(
    clock: Clock, wire: WireClient
) -> None:
    transactions = Transactions(wire, "x")
    transactions.commit("g", {("t", 0): 5})
    transactions.end(commit=True)
    clock.advance(days=6)
    assert state_of_transactions(wire) == {"x": "CompleteCommit"}
    clock.advance(days=1, minutes=6)
    assert state_of_transactions(wire) == {}


def state_of_transactions(wire: WireClient) -> Mapping[str, str]:
    response = wire.call(m.ListTransactionsRequest(), 0)
    return {
        each.transactional_id: each.transaction_state
        for each in response.transaction_states
    }


# Records.


@pytest.mark.slow
def test_retention_deletes_records_of_the_past(clock: Clock, wire: WireClient) -> None:
    create_topic(wire, "log", retention_ms=str(24 * 3_600_000))
    produce(wire, "log", clock.now_ms)
    clock.advance(hours=23)
    produce(wire, "log", clock.now_ms)
    clock.advance(hours=1, minutes=6)
    assert offset_at(wire, "log", EARLIEST) == 1
    assert offset_at(wire, "log", LATEST) == 2


@pytest.mark.slow
def test_compaction_removes_tombstones_after_delete_retention(
    clock: Clock, wire: WireClient
) -> None:
    create_topic(
        wire,
        "log",
        cleanup_policy="compact",
        min_cleanable_dirty_ratio="0",
        delete_retention_ms=str(24 * 3_600_000),
    )
    for key, value in ((b"k", b"v"), (b"k", None), (b"last", b"v")):
        produce(wire, "log", clock.now_ms, key, value)
    clock.advance(minutes=6)
    assert keys(wire, "log") == [(b"k", None), (b"last", b"v")]
    clock.advance(days=1)
    produce(wire, "log", clock.now_ms, b"last", b"w")
    clock.advance(minutes=6)
    assert keys(wire, "log") == [(b"last", b"v"), (b"last", b"w")]


def keys(wire: WireClient, topic: str) -> list[tuple[bytes | None, bytes | None]]:
    """Return keys and values of all records."""
    partition = m.FetchPartition(partition_max_bytes=1 << 20)
    request = m.FetchRequest(topics=[m.FetchTopic(topic=topic, partitions=[partition])])
    [[found]] = [each.partitions for each in wire.call(request, 12).responses]
    return [
        (record.key, record.value)
        for _, batch in split_batches(found.records)
        for record in decode_records(batch)
    ]


@pytest.mark.slow
def test_a_record_with_the_real_time_is_old_after_an_advance(
    clock: Clock, wire: WireClient
) -> None:
    real_ms = clock.now_ms
    create_topic(wire, "log")
    clock.advance(days=8)
    produce(wire, "log", real_ms)
    clock.advance(minutes=6)
    assert offset_at(wire, "log", EARLIEST) == 1


def test_append_times_are_of_the_clock(clock: Clock, wire: WireClient) -> None:
    create_topic(wire, "log", message_timestamp_type="LogAppendTime")
    clock.advance(days=8)
    assert produce(wire, "log", 1).log_append_time_ms == clock.now_ms


def test_a_record_of_the_clocks_time_is_not_in_the_future(
    clock: Clock, wire: WireClient
) -> None:
    create_topic(wire, "log")
    in_a_week_ms = clock.now_ms + WEEK // timedelta(milliseconds=1)
    assert produce(wire, "log", in_a_week_ms).error_code == 32  # INVALID_TIMESTAMP
    clock.advance(WEEK)
    assert produce(wire, "log", in_a_week_ms).error_code == 0


def test_a_fetch_waits_in_real_time(
    clock: Clock, server: ThreadServer, wire: WireClient
) -> None:
    create_topic(wire, "log")
    with server.client() as other:
        partition = m.FetchPartition(partition_max_bytes=1 << 20)
        topic = m.FetchTopic(topic="log", partitions=[partition])
        other.send(m.FetchRequest(min_bytes=1, max_wait_ms=600_000, topics=[topic]), 12)
        clock.advance(hours=1)
        assert select.select([other.socket], [], [], 0)[0] == []
        produce(wire, "log", clock.now_ms)
        [[found]] = [each.partitions for each in other.receive().responses]
        assert found.records
