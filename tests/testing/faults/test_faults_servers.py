"""Faults of the server's state: moved coordinators, fenced members, a full disk."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from coterie.broker.server.server import Server
from coterie.testing.kafka import Kafka
from coterie.wire import messages as m
from coterie.wire.error_codes import ErrorCode
from coterie.wire.record_batch import LogRecord, encode_batch
from tests.broker.server.harness import WireClient
from tests.support.waiting import eventually
from tests.testing.clients import (
    commit_code,
    committed,
    connect,
    consumer_heartbeat,
    create_topic,
    heartbeat_code,
    join,
)

MOVED = ErrorCode.NOT_COORDINATOR


@pytest.fixture(name="kafka")
def start_kafka() -> Iterator[Kafka]:
    with Kafka() as kafka:
        yield kafka


@pytest.fixture(name="client")
def connect_client(kafka: Kafka) -> Iterator[WireClient]:
    with connect(kafka) as client:
        create_topic(client)
        yield client


def find_coordinator(client: WireClient, key: str, kind: int = 0) -> int:
    request = m.FindCoordinatorRequest(key_type=kind, coordinator_keys=[key])
    (found,) = client.call(request, 6).coordinators
    return int(found.node_id)


# Coordinators.


def test_a_coordinator_moves_to_another_node() -> None:
    with Kafka(nodes=2) as kafka, connect(kafka, 0) as one, connect(kafka, 1) as two:
        create_topic(one)
        old = find_coordinator(one, "g")
        assert commit_code((one, two)[old - 1]) == 0

        with kafka.faults.coordinator_moves("g") as fault:
            codes = [commit_code((one, two)[old - 1], offset=6)]

        new = find_coordinator(one, "g")
        assert new == 3 - old
        assert codes == [MOVED]
        assert [each.errors for each in fault.hits] == [(MOVED.name,)]
        assert until_loaded((one, two)[new - 1]) == 5


def until_loaded(client: WireClient) -> int:
    """Commit until the coordinator has loaded; return the offset from before."""

    def attempt() -> tuple[int] | None:
        before = committed(client)
        return (before,) if commit_code(client, offset=9) == 0 else None

    known = eventually(attempt, expected="the shard is loaded")
    assert known is not None
    return known[0]


def test_a_join_in_progress_is_lost_when_the_coordinator_moves(
    kafka: Kafka, client: WireClient
) -> None:
    member = join(client)
    with connect(kafka) as second:
        request = m.JoinGroupRequest(
            group_id="g",
            session_timeout_ms=60_000,
            rebalance_timeout_ms=60_000,
            protocol_type="consumer",
            protocols=[m.JoinGroupRequestProtocol(name="range", metadata=b"")],
        )
        request.member_id = second.call(request, 9).member_id
        second.send(request, 9)
        kafka.rebalances.wait_for("g")
        eventually(
            lambda: heartbeat_code(client, member) == ErrorCode.REBALANCE_IN_PROGRESS,
            expected="the second member joins",
        )

        with kafka.faults.coordinator_moves("g"):
            assert second.receive().error_code == MOVED


def test_the_only_node_refuses_until_it_is_looked_up(
    kafka: Kafka, client: WireClient
) -> None:
    commit_code(client)
    with kafka.faults.coordinator_moves("g") as fault:
        find_coordinator(client, "g")  # of a client that was not refused
        assert [commit_code(client), commit_code(client)] == [MOVED, MOVED]
        find_coordinator(client, "g")

        assert until_loaded(client) == 5
    assert len(fault.hits) == 2


def test_the_coordinator_of_a_transactional_id_moves() -> None:
    with Kafka(nodes=2) as kafka, connect(kafka, 0) as one, connect(kafka, 1) as two:
        old = find_coordinator(one, "tx", 1)
        request = m.InitProducerIdRequest(
            transactional_id="tx", transaction_timeout_ms=1
        )

        with kafka.faults.coordinator_moves(transactional_id="tx", node=3 - old):
            refused = (one, two)[old - 1].call(request, 4).error_code
            served = (two, one)[old - 1].call(request, 4).error_code

        assert (refused, served) == (MOVED, 0)
        with pytest.raises(ValueError, match="there is no node 3; the nodes are 1, 2"):
            kafka.faults.coordinator_moves("g", node=3)


# Members.


def test_a_static_member_is_replaced(kafka: Kafka, client: WireClient) -> None:
    member = join(client, instance="i")
    with kafka.faults.fence("g", "i") as fault:
        code = heartbeat_code(client, member, instance="i")

    assert code == ErrorCode.FENCED_INSTANCE_ID
    assert fault.hit


def test_a_dynamic_member_is_removed(kafka: Kafka, client: WireClient) -> None:
    member = join(client)
    kafka.faults.fence("g", member[0])

    assert heartbeat_code(client, member) == ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize(
    ("instance", "error"),
    [(None, ErrorCode.UNKNOWN_MEMBER_ID), ("i", ErrorCode.FENCED_INSTANCE_ID)],
)
def test_a_member_of_a_consumer_group_is_fenced(
    kafka: Kafka, client: WireClient, instance: str | None, error: ErrorCode
) -> None:
    epoch = consumer_heartbeat(client, 0, instance).member_epoch
    with kafka.faults.fence("g", instance or "m") as fault:
        response = consumer_heartbeat(client, epoch, instance)

    assert response.error_code == error
    assert fault.hit


def test_the_replacement_of_a_member_can_be_fenced(
    kafka: Kafka, client: WireClient
) -> None:
    consumer_heartbeat(client, 0, "i")
    kafka.faults.fence("g", "i")
    first = member_ids(kafka)
    kafka.faults.fence("g", "i")

    assert len(first) == len(member_ids(kafka)) == 1
    assert first != member_ids(kafka)


def member_ids(kafka: Kafka) -> list[str]:
    """Return the members of the KIP-848 group g."""

    def read(server: Server) -> list[str]:
        broker = server.assembly.broker
        state = broker.runtime.shards[broker.shard_of("g")].shard.state
        return list(state.consumer_groups["g"].members)

    return kafka.call(read)


def test_fencing_an_unknown_member_names_the_known_ones(
    kafka: Kafka, client: WireClient
) -> None:
    with pytest.raises(ValueError, match="the group 'g' has no members"):
        kafka.faults.fence("g", "m")
    member = join(client, instance="i")
    with pytest.raises(ValueError, match=f"no member 'm'.*{member[0]}, i$"):
        kafka.faults.fence("g", "m")


# The disk.


@pytest.mark.parametrize("on_disk", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_commits_to_a_full_disk_are_refused_and_not_kept(
    tmp_path: Path, on_disk: bool
) -> None:
    with Kafka(data=tmp_path if on_disk else None) as kafka, connect(kafka) as client:
        create_topic(client)
        assert commit_code(client) == 0

        with kafka.faults.disk_full() as fault:
            code = commit_code(client, offset=6)

        assert code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert fault.failed_writes >= 1
        assert fault.hits[0].api == "OffsetCommit"
        assert until_loaded(client) == 5


def test_records_for_a_full_disk_are_refused(kafka: Kafka, client: WireClient) -> None:
    batch = encode_batch([LogRecord(0, 0, None, b"value")])
    part = m.PartitionProduceData(index=0, records=batch)
    request = m.ProduceRequest(
        acks=-1,
        timeout_ms=1_000,
        topic_data=[m.TopicProduceData(name="t", partition_data=[part])],
    )
    with kafka.faults.disk_full(times=1):
        codes = [
            client.call(request, 9).responses[0].partition_responses[0].error_code
            for _ in range(2)
        ]

    assert codes == [ErrorCode.KAFKA_STORAGE_ERROR, 0]
    refused, _ = kafka.requests.of("Produce", topic="t")
    assert (refused.fault, refused.record_bytes) == ("disk_full", len(batch))
    assert refused.request.topic_data[0].partition_data[0].records is None


# The server as a whole.


def test_faults_come_and_go_while_requests_arrive(
    kafka: Kafka, client: WireClient
) -> None:
    """Two threads add and remove faults; each request gets its own response."""

    def add_and_remove() -> None:
        for _ in range(50):
            fault = kafka.faults.reply("OffsetCommit", MOVED.name, group="g")
            kafka.faults.loading(group="other").remove()
            fault.remove()

    threads = [threading.Thread(target=add_and_remove) for _ in range(2)]
    for thread in threads:
        thread.start()
    codes = {commit_code(client) for _ in range(100)}
    for thread in threads:
        thread.join()

    assert codes <= {0, MOVED}
    assert kafka.faults.active == ()
    assert commit_code(client) == 0


def test_requests_and_faults_outlive_a_restart(
    kafka: Kafka, client: WireClient
) -> None:
    commit_code(client)
    fault = kafka.faults.reply("OffsetCommit", MOVED.name)
    kafka.kill()
    kafka.restart()

    with connect(kafka) as again:
        assert commit_code(again) == MOVED
    assert len(kafka.requests.of("OffsetCommit")) == 2
    assert fault.hit


def test_close_removes_the_faults(kafka: Kafka) -> None:
    kafka.faults.reply("OffsetCommit", MOVED.name)
    kafka.close()

    assert kafka.faults.active == ()
    with pytest.raises(RuntimeError, match="the server is not running"):
        kafka.faults.fence("g", "m")
