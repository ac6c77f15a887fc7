"""A clock that a test moves, with raw members of groups. The clock is frozen, so that
the speed of the machine does not matter."""

from __future__ import annotations

import asyncio
import select
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from coterie.broker.log.stores import open_log
from coterie.broker.runtime.log_cleaner import LogCleaner
from coterie.testing.clock import Clock
from coterie.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from coterie.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from coterie.wire.messages.heartbeat import HeartbeatRequest
from coterie.wire.messages.list_groups import ListGroupsRequest
from coterie.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from coterie.wire.messages.list_transactions import ListTransactionsRequest
from coterie.wire.record_batch import LogRecord, encode_batch
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
    topic = CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=1,
        configs=[
            CreatableTopicConfig(name=key.replace("_", "."), value=value)
            for key, value in configs.items()
        ],
    )
    created = wire.call(CreateTopicsRequest(topics=[topic], timeout_ms=5_000), 6)
    assert created.topics[0].error_code == 0, created


def produce(wire: WireClient, topic: str, timestamp_ms: int) -> Any:
    """Produce a record; return the response of the partition."""
    batch = encode_batch([LogRecord(0, timestamp_ms, b"k", b"v")])
    response = wire.call(produce_request(batch, topic=topic), 9)
    [[found]] = [each.partition_responses for each in response.responses]
    return found


def offset_at(wire: WireClient, topic: str, timestamp: int) -> int:
    asked = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
    listed = ListOffsetsTopic(name=topic, partitions=[asked])
    response = wire.call(ListOffsetsRequest(replica_id=-1, topics=[listed]), 7)
    offset: int = response.topics[0].partitions[0].offset
    return offset


def beat(wire: WireClient, member: ClassicMember, instance: str | None = None) -> int:
    """Send a classic heartbeat of group "g"; return the error code."""
    request = HeartbeatRequest(
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
    response = wire.call(ListGroupsRequest(), 5)
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


def test_timers_fire_in_order_each_at_its_own_time(
    clock: Clock, server: ThreadServer
) -> None:
    timers = server.server.assembly.broker.data.timekeeping.scheduler
    start_ms = clock.now_ms
    fired: list[int] = []

    def fire() -> None:
        fired.append(clock.now_ms - start_ms)
        if len(fired) == 1:
            timers.call_later(1, fire)

    async def schedule() -> None:
        for delay in (3, 1, 2):
            timers.call_later(delay, fire)
        timers.call_later(1.5, fire).cancel()
        timers.call_later(60, fire)

    server.run(schedule())
    clock.advance(seconds=59)
    assert fired == [1_000, 2_000, 2_000, 3_000]


def test_a_timer_that_fails_does_not_end_the_advance(
    clock: Clock, server: ThreadServer
) -> None:
    failures: list[str] = []
    timers = server.server.assembly.broker.data.timekeeping.scheduler

    async def schedule() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(
            lambda _, context: failures.append(context["message"])
        )
        timers.call_later(1, lambda: 1 // 0)  # type: ignore[arg-type]
        timers.call_later(2, lambda: failures.append("next"))

    server.run(schedule())
    clock.advance(seconds=3)
    assert failures == ["a bug in a timer", "next"]


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
def test_expired_offsets_are_durable_when_advance_returns(
    clock: Clock, tmp_path: Path
) -> None:
    log = open_log(tmp_path)
    with serving(clock, log=log) as server, server.client() as wire:
        create_topic(wire, "t")
        commit(wire, "g", {("t", 0): 5})
        clock.advance(days=8)
        assert not log.has_staged()
        assert not server.server.assembly.broker.flusher.is_writing
        assert offsets(wire, "g", {"t": [0]}) == {("t", 0): -1}


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


def state_of_transactions(wire: WireClient) -> Mapping[str, str]:
    response = wire.call(ListTransactionsRequest(), 0)
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
        partition = FetchPartition(partition_max_bytes=1 << 20)
        topic = FetchTopic(topic="log", partitions=[partition])
        other.send(FetchRequest(min_bytes=1, max_wait_ms=600_000, topics=[topic]), 12)
        clock.advance(hours=1)
        assert select.select([other.socket], [], [], 0)[0] == []
        produce(wire, "log", clock.now_ms)
        [[found]] = [each.partitions for each in other.receive().responses]
        assert found.records


@pytest.mark.slow
@pytest.mark.parametrize("days", [8, 365])
def test_a_long_advance_makes_few_rounds_of_retention(
    clock: Clock,
    server: ThreadServer,
    monkeypatch: pytest.MonkeyPatch,
    days: int,
) -> None:
    rounds: list[int] = []
    clean = LogCleaner._round

    def count(cleaner: LogCleaner) -> Any:
        rounds.append(clock.now_ms)
        return clean(cleaner)

    monkeypatch.setattr(LogCleaner, "_round", count)
    clock.advance(days=days)
    assert 250 < len(rounds) < 700
    last_minutes = (rounds[-1] - rounds[-2]) / 60_000
    assert last_minutes == pytest.approx(5, abs=0.1)
