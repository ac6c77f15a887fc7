"""Log offsets on scripted brokers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from coterie.client.admin import routing
from coterie.client.admin.log_offsets import (
    EARLIEST,
    LATEST,
    AtTime,
    LogOffsetInfo,
    Logs,
    OffsetSpec,
    SpecialOffset,
)
from coterie.client.cluster import Cluster
from coterie.errors import (
    ApiError,
    ConnectionLost,
    CoterieError,
    MalformedFrame,
    RequestTimedOut,
    UnsupportedByBroker,
)
from coterie.types import TopicPartition
from coterie.wire import messages as m
from coterie.wire.api import ApiKey
from coterie.wire.error_codes import ErrorCode
from coterie.wire.schema import Versions
from tests.client.admin.scripted_cluster import (
    NOBODY,
    ScriptedCluster,
    offsets_of_node,
)
from tests.client.scripted_broker import BRIEF, IMPATIENT, OPTIONS, SILENCE, in_turn

pytestmark = pytest.mark.asyncio

SOON = replace(OPTIONS, leader_wait_ms=30)
"""Ends soon when no leader is available."""


def ends(topic: str, *partitions: int) -> dict[TopicPartition, OffsetSpec]:
    return {TopicPartition(topic, each): LATEST for each in partitions}


def code_of(error: CoterieError) -> ErrorCode:
    assert isinstance(error, ApiError)
    return error.code


async def test_no_request_is_sent_without_partitions() -> None:
    async with ScriptedCluster() as nodes:
        results = await Logs(nodes.client()).list_offsets({})
        assert results.all() == {}
        assert nodes.brokers[0].connection_count == 0


async def test_each_leader_gets_one_request_for_all_of_its_partitions() -> None:
    async with ScriptedCluster(3) as nodes:
        nodes.lead(1, "t", 0, 3)
        nodes.lead(2, "t", 1)
        nodes.lead(2, "u", 7)
        nodes.lead(3, "t", 2)
        wanted = ends("t", 0, 1, 2, 3) | ends("u", 7)
        told: list[tuple[int, int]] = []
        results = await Logs(nodes.client()).list_offsets(
            wanted, progress=lambda done, of: told.append((done, of))
        )
        offsets = {key: found.offset for key, found in results.all().items()}
        assert list(offsets) == list(wanted)
        assert offsets == {
            ("t", 0): 1000,
            ("t", 1): 2001,
            ("t", 2): 3002,
            ("t", 3): 1003,
            ("u", 7): 2007,
        }
        assert [
            len(broker.asked_of(m.ListOffsetsRequest)) for broker in nodes.brokers
        ] == [1, 1, 1]
        assert len(nodes.brokers[0].asked_of(m.MetadataRequest)) == 1
        assert told[-1] == (5, 5)
        assert [done for done, _ in told] == sorted(done for done, _ in told)


async def test_many_partitions_are_requested_in_chunks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(routing, "PARTITIONS_PER_REQUEST", 2)
    monkeypatch.setattr(routing, "TOPICS_PER_REQUEST", 3)
    monkeypatch.setattr(routing, "IN_FLIGHT_MAX", 1)
    async with ScriptedCluster() as nodes:
        wanted: dict[TopicPartition, OffsetSpec] = {}
        for number in range(5):
            nodes.lead(1, f"t{number}", 0)
            wanted |= ends(f"t{number}", 0)
        results = await Logs(nodes.client()).list_offsets(wanted)
        assert len(results.all()) == 5
        [broker] = nodes.brokers
        assert len(broker.asked_of(m.ListOffsetsRequest)) == 3
        assert [len(each.topics) for each in broker.asked_of(m.MetadataRequest)] == [
            3,
            2,
        ]


@pytest.mark.parametrize(
    ("spec", "number"),
    [
        (LATEST, -1),
        (EARLIEST, -2),
        (SpecialOffset.MAX_TIMESTAMP, -3),
        (SpecialOffset.EARLIEST_LOCAL, -4),
        (SpecialOffset.LATEST_TIERED, -5),
        (AtTime(1_700_000_000_000), 1_700_000_000_000),
        (AtTime(-5), 0),
    ],
)
async def test_offset_kinds_are_sent_with_the_protocols_numbers(
    spec: OffsetSpec, number: int
) -> None:
    async with ScriptedCluster() as nodes:
        nodes.lead(1, "t", 0)
        await Logs(nodes.client()).list_offsets({TopicPartition("t", 0): spec})
        [request] = nodes.brokers[0].asked_of(m.ListOffsetsRequest)
        assert request.topics[0].partitions[0].timestamp == number
        assert (request.replica_id, request.isolation_level) == (-1, 0)


@pytest.mark.parametrize(
    ("spec", "since"),
    [
        (SpecialOffset.MAX_TIMESTAMP, 7),
        (SpecialOffset.EARLIEST_LOCAL, 8),
        (SpecialOffset.LATEST_TIERED, 9),
    ],
)
async def test_an_unsupported_offset_kind_does_not_affect_others(
    spec: SpecialOffset, since: int
) -> None:
    async with ScriptedCluster() as nodes:
        nodes.brokers[0].versions[ApiKey.LIST_OFFSETS] = Versions(1, since - 1)
        nodes.lead(1, "t", 0, 1)
        wanted = ends("t", 0) | {TopicPartition("t", 1): spec}
        results = await Logs(nodes.client()).list_offsets(wanted)
        assert results.one(TopicPartition("t", 0)).offset == 1000
        with pytest.raises(UnsupportedByBroker, match=f"{spec.name} needs {since}"):
            results.one(TopicPartition("t", 1))
        alone = await Logs(nodes.client()).list_offsets({TopicPartition("t", 1): spec})
        assert len(alone.errors) == 1
        assert len(nodes.brokers[0].asked_of(m.ListOffsetsRequest)) == 1


async def test_brokers_before_kafka_0_11_support_no_committed_only() -> None:
    async with ScriptedCluster() as nodes:
        nodes.brokers[0].versions[ApiKey.LIST_OFFSETS] = Versions(0, 1)
        nodes.lead(1, "t", 0)
        old = await Logs(nodes.client()).list_offsets(ends("t", 0))
        assert old.one(TopicPartition("t", 0)) == LogOffsetInfo(1000)
        results = await Logs(nodes.client()).list_offsets(
            ends("t", 0), committed_only=True
        )
        with pytest.raises(UnsupportedByBroker, match="2 to 11 is needed"):
            results.all()


async def test_a_broker_with_version_0_only_is_unsupported() -> None:
    async with ScriptedCluster() as nodes:
        nodes.brokers[0].versions[ApiKey.LIST_OFFSETS] = Versions(0, 0)
        nodes.lead(1, "t", 0)
        results = await Logs(nodes.client()).list_offsets(ends("t", 0))
        with pytest.raises(UnsupportedByBroker, match="ListOffsets 0 to 0"):
            results.all()


async def test_committed_only_sets_the_isolation_level() -> None:
    async with ScriptedCluster() as nodes:
        nodes.lead(1, "t", 0)
        await Logs(nodes.client()).list_offsets(ends("t", 0), committed_only=True)
        [request] = nodes.brokers[0].asked_of(m.ListOffsetsRequest)
        assert request.isolation_level == 1


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.KAFKA_STORAGE_ERROR,
    ],
)
async def test_only_the_partition_with_a_moved_leader_is_retried(
    code: ErrorCode,
) -> None:
    async with ScriptedCluster(2) as nodes:
        first, second = nodes.brokers
        nodes.lead(1, "t", 0)
        nodes.lead(2, "t", 1)
        moved = offsets_of_node(1, code)

        def move(request: m.ListOffsetsRequest) -> m.ListOffsetsResponse:
            nodes.lead(2, "t", 0)
            return moved(request)

        first.answers[ApiKey.LIST_OFFSETS] = move
        results = await Logs(nodes.client()).list_offsets(ends("t", 0, 1))
        assert {key[1]: found.offset for key, found in results.all().items()} == {
            0: 2000,
            1: 2001,
        }
        assert len(first.asked_of(m.ListOffsetsRequest)) == 1
        asked = [
            [each.partition_index for each in request.topics[0].partitions]
            for request in second.asked_of(m.ListOffsetsRequest)
        ]
        assert asked == [[1], [0]]


async def test_a_partition_without_a_leader_is_retried() -> None:
    async with ScriptedCluster() as nodes:
        [broker] = nodes.brokers
        nodes.lead(NOBODY, "t", 0)
        before = nodes.metadata(m.MetadataRequest(topics=None))
        nodes.lead(1, "t", 0)
        after = nodes.metadata(m.MetadataRequest(topics=None))
        broker.answers[ApiKey.METADATA] = in_turn(before, before, before, after)
        results = await Logs(nodes.client()).list_offsets(ends("t", 0))
        assert results.one(TopicPartition("t", 0)).offset == 1000


async def test_a_partition_without_a_leader_does_not_affect_others() -> None:
    async with ScriptedCluster() as nodes:
        nodes.lead(NOBODY, "t", 0)
        nodes.lead(1, "t", 1)
        results = await Logs(nodes.client(SOON)).list_offsets(ends("t", 0, 1))
        assert results.values == {("t", 1): LogOffsetInfo(1001)}
        error = results.errors[TopicPartition("t", 0)]
        assert code_of(error) is ErrorCode.LEADER_NOT_AVAILABLE
        assert "partition t-0 has no leader now" in str(error)


async def test_a_deleted_topic_is_reported_after_a_few_retries() -> None:
    async with ScriptedCluster() as nodes:
        nodes.lead(1, "t", 0)
        wanted = ends("gone", 0) | ends("t", 0, 1)
        results = await Logs(nodes.client()).list_offsets(wanted)
        assert results.values == {("t", 0): LogOffsetInfo(1000)}
        assert {key: code_of(error) for key, error in results.errors.items()} == {
            ("gone", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ("t", 1): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        }
        assert "topic gone does not exist" in str(
            results.errors[TopicPartition("gone", 0)]
        )
        asked = nodes.brokers[0].asked_of(m.MetadataRequest)
        assert len(asked) == routing.UNKNOWN_TRIES


async def test_a_topic_deleted_between_requests_does_not_affect_others() -> None:
    async with ScriptedCluster() as nodes:
        [broker] = nodes.brokers
        nodes.lead(1, "t", 0)
        nodes.lead(1, "u", 0)
        gone = offsets_of_node(1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        there = offsets_of_node(1)

        def delete(request: m.ListOffsetsRequest) -> m.ListOffsetsResponse:
            del nodes.leaders[TopicPartition("t", 0)]
            broker.answers[ApiKey.LIST_OFFSETS] = there
            answer = there(request)
            [deleted] = gone(request).topics[:1]
            assert deleted.name == "t"
            answer.topics[0] = deleted
            return answer

        broker.answers[ApiKey.LIST_OFFSETS] = delete
        results = await Logs(nodes.client()).list_offsets(ends("t", 0) | ends("u", 0))
        assert results.values == {("u", 0): LogOffsetInfo(1000)}
        [error] = results.errors.values()
        assert "topic t does not exist" in str(error)
        assert len(broker.asked_of(m.ListOffsetsRequest)) == 1


async def test_the_offsets_of_an_unauthorized_topic_are_requested_once() -> None:
    async with ScriptedCluster() as nodes:
        nodes.refused["t"] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        results = await Logs(nodes.client()).list_offsets(ends("t", 0))
        [error] = results.errors.values()
        assert code_of(error) is ErrorCode.TOPIC_AUTHORIZATION_FAILED
        assert len(nodes.brokers[0].asked_of(m.MetadataRequest)) == 1


async def test_an_error_that_is_not_retriable_is_not_retried() -> None:
    async with ScriptedCluster() as nodes:
        [broker] = nodes.brokers
        code = ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT
        nodes.lead(1, "t", 0)
        broker.answers[ApiKey.LIST_OFFSETS] = offsets_of_node(1, code)
        results = await Logs(nodes.client()).list_offsets(ends("t", 0))
        [error] = results.errors.values()
        assert code_of(error) is code
        assert len(broker.asked_of(m.ListOffsetsRequest)) == 1


async def test_a_dead_leader_fails_its_own_partitions() -> None:
    async with ScriptedCluster(2) as nodes:
        nodes.brokers[1]._server.close()
        nodes.lead(1, "t", 0)
        nodes.lead(2, "t", 1)
        results = await Logs(nodes.client(SOON)).list_offsets(ends("t", 0, 1))
        assert results.values == {("t", 0): LogOffsetInfo(1000)}
        [error] = results.errors.values()
        assert isinstance(error, ConnectionLost)
        assert f"127.0.0.1:{nodes.brokers[1].port} cannot be reached" in str(error)


async def test_a_leader_that_times_out_fails_its_own_partitions() -> None:
    async with ScriptedCluster(2) as nodes:
        nodes.brokers[1].answers[ApiKey.LIST_OFFSETS] = lambda _: SILENCE
        nodes.lead(1, "t", 0)
        nodes.lead(2, "t", 1)
        options = replace(BRIEF, request_timeout_ms=60_000, api_timeout_ms=30_000)
        results = await Logs(nodes.client(options)).list_offsets(ends("t", 0, 1))
        assert results.values == {("t", 0): LogOffsetInfo(1000)}
        [error] = results.errors.values()
        assert isinstance(error, RequestTimedOut)
        assert "no response within the call's 30000 ms" in str(error)


async def test_a_partition_missing_in_a_leaders_response_has_an_error() -> None:
    async with ScriptedCluster() as nodes:
        [broker] = nodes.brokers
        nodes.lead(1, "t", 0)
        broker.answers[ApiKey.LIST_OFFSETS] = lambda _: m.ListOffsetsResponse()
        results = await Logs(nodes.client()).list_offsets(ends("t", 0))
        [error] = results.errors.values()
        assert isinstance(error, MalformedFrame)
        assert "the response of node 1 omits partition t-0" in str(error)


async def test_a_call_raises_when_no_broker_returns_metadata() -> None:
    async with ScriptedCluster() as nodes:
        bootstrap = nodes.brokers[0].bootstrap
    with pytest.raises((ConnectionLost, RequestTimedOut)):
        await Logs(Cluster(bootstrap, IMPATIENT)).list_offsets(ends("t", 0))


async def test_metadata_time_outs_end_the_call() -> None:
    async with ScriptedCluster() as nodes:
        nodes.brokers[0].answers[ApiKey.METADATA] = lambda _: SILENCE
        options = replace(BRIEF, request_timeout_ms=60_000)
        with pytest.raises(
            RequestTimedOut, match="no response within the call's 20000 ms"
        ):
            await Logs(nodes.client(options)).list_offsets(ends("t", 0))


async def test_a_metadata_failure_during_a_retry_fails_the_remaining_partitions() -> (
    None
):
    async with ScriptedCluster() as nodes:
        [broker] = nodes.brokers
        nodes.lead(NOBODY, "t", 0)
        nodes.lead(1, "t", 1)
        known = nodes.metadata(m.MetadataRequest(topics=None))
        refused = nodes.metadata(m.MetadataRequest(topics=None))
        refused.error_code = ErrorCode.REBOOTSTRAP_REQUIRED
        broker.answers[ApiKey.METADATA] = in_turn(known, refused)
        results = await Logs(nodes.client()).list_offsets(ends("t", 0, 1))
        assert results.values == {("t", 1): LogOffsetInfo(1001)}
        [error] = results.errors.values()
        assert code_of(error) is ErrorCode.REBOOTSTRAP_REQUIRED
