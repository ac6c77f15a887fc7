"""Hanging transactions and abort markers, on scripted leaders."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from coterie.client.admin.transactions import (
    HangingTransaction,
    OpenTransaction,
    ProducerState,
    TransactionState,
    abort_transactions,
    describe_transactions,
    find_hanging_transactions,
    list_transactions,
)
from coterie.client.cluster import Cluster
from coterie.errors import ApiError, MalformedFrame, UnsupportedByBroker
from coterie.types import TopicPartition
from coterie.wire import messages as m
from coterie.wire.api import ApiKey
from coterie.wire.error_codes import ErrorCode
from coterie.wire.schema import Versions
from tests.client.admin.scripted_cluster import ScriptedCluster

pytestmark = pytest.mark.asyncio

FIRST, SECOND = TopicPartition("t", 0), TopicPartition("t", 1)
NOW_MS = 1_000_000


def producers(request: m.DescribeProducersRequest) -> m.DescribeProducersResponse:
    """Return an old open transaction of producer 7, a new one of 8, and a producer 9
    without one, in every partition."""
    return m.DescribeProducersResponse(
        topics=[
            m.ProducersTopic(
                name=topic.name,
                partitions=[
                    m.ProducersPartition(
                        partition_index=index,
                        active_producers=[
                            producer(7, timestamp=100, start=40),
                            producer(8, timestamp=NOW_MS, start=50),
                            producer(9, timestamp=100, start=-1),
                        ],
                    )
                    for index in topic.partition_indexes
                ],
            )
            for topic in request.topics
        ]
    )


def producer(producer_id: int, timestamp: int, start: int) -> m.DescribedProducer:
    return m.DescribedProducer(
        producer_id=producer_id,
        producer_epoch=3,
        coordinator_epoch=-1,
        last_timestamp=timestamp,
        current_txn_start_offset=start,
    )


def described(code: ErrorCode = ErrorCode.NONE) -> m.DescribeTransactionsResponse:
    """Return the transaction of producer 7 with one partition, or an error."""
    return m.DescribeTransactionsResponse(
        transaction_states=[
            m.DescribedTransaction(
                error_code=code,
                transactional_id="payments",
                transaction_state="Ongoing",
                producer_id=7,
                topics=[m.TransactionTopic(topic="t", partitions=[0])],
            )
        ]
    )


def listed(*ids: str) -> m.ListTransactionsResponse:
    return m.ListTransactionsResponse(
        transaction_states=[
            m.ListedTransaction(
                transactional_id=each, producer_id=7, transaction_state="Ongoing"
            )
            for each in ids
        ]
    )


async def find(
    *, known: m.ListTransactionsResponse, description: m.DescribeTransactionsResponse
) -> dict[TopicPartition, Any]:
    """Search both partitions; return the outcome of each."""
    async with ScriptedCluster() as nodes:
        nodes.leaders = {FIRST: 1, SECOND: 1}
        answers = nodes.brokers[0].answers
        answers[ApiKey.DESCRIBE_PRODUCERS] = producers
        answers[ApiKey.LIST_TRANSACTIONS] = lambda _: known
        answers[ApiKey.DESCRIBE_TRANSACTIONS] = lambda _: description
        cluster = nodes.client()
        found = await find_hanging_transactions(
            cluster, [FIRST, SECOND], 900_000, lambda: NOW_MS
        )
    return {**found.values, **found.errors}


def hanging(at: TopicPartition, name: str | None) -> HangingTransaction:
    return HangingTransaction(OpenTransaction(at, 7, 3, 0, 40), 100, name)


async def test_an_old_transaction_of_an_unknown_producer_hangs() -> None:
    found = await find(known=listed(), description=described())
    assert found == {at: (hanging(at, None),) for at in (FIRST, SECOND)}


async def test_a_partition_outside_the_producers_transaction_hangs() -> None:
    found = await find(known=listed("payments"), description=described())
    assert found == {FIRST: (), SECOND: (hanging(SECOND, "payments"),)}


async def test_a_transactional_id_that_expired_hangs() -> None:
    gone = described(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
    found = await find(known=listed("payments"), description=gone)
    assert found[FIRST] == (hanging(FIRST, "payments"),)


async def test_an_error_of_the_coordinator_is_no_hanging_transaction() -> None:
    denied = described(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    found = await find(known=listed("payments"), description=denied)
    for at in (FIRST, SECOND):
        assert found[at].code is ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


async def test_a_node_that_cannot_list_fails_the_search() -> None:
    refused = m.ListTransactionsResponse(error_code=ErrorCode.INVALID_REQUEST)
    with pytest.raises(ApiError, match="cannot list transactions: INVALID_REQUEST"):
        await find(known=refused, description=described())


async def test_a_loading_coordinator_is_asked_again() -> None:
    responses = [described(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS), described()]
    async with ScriptedCluster() as nodes:
        answers = nodes.brokers[0].answers
        answers[ApiKey.DESCRIBE_TRANSACTIONS] = lambda _: responses.pop(0)
        cluster = nodes.client()
        results = await describe_transactions(cluster, ["payments", "payments"])
    assert not responses
    assert results.one("payments").partitions == (FIRST,)
    assert results.one("payments").state is TransactionState.ONGOING


async def test_a_transaction_that_the_response_omits_is_an_error() -> None:
    async with ScriptedCluster() as nodes:
        answers = nodes.brokers[0].answers
        answers[ApiKey.DESCRIBE_TRANSACTIONS] = lambda _: described()
        cluster = nodes.client()
        results = await describe_transactions(cluster, ["payments", "orders"])
    assert isinstance(results.errors["orders"], MalformedFrame)
    assert results.values.keys() == {"payments"}


async def test_a_filter_that_a_broker_does_not_know_fails_the_call() -> None:
    async with ScriptedCluster() as nodes:
        broker = nodes.brokers[0]
        broker.versions[ApiKey.LIST_TRANSACTIONS] = Versions(0, 0)
        broker.answers[ApiKey.LIST_TRANSACTIONS] = lambda _: listed("payments")
        cluster = nodes.client()
        (each,) = (await list_transactions(cluster, (), (), None, None)).all()
        with pytest.raises(UnsupportedByBroker, match="1 to 2 is needed"):
            await list_transactions(cluster, (), (), 60_000, None)
    assert (each.transactional_id, each.coordinator_id) == ("payments", 1)


def answering_markers(
    monkeypatch: pytest.MonkeyPatch, code_of: Callable[[int], int]
) -> list[m.WriteTxnMarkersRequest]:
    """Answer WriteTxnMarkers, which scripted brokers cannot read, by a code for each
    producer id; return the requests."""
    sent: list[m.WriteTxnMarkersRequest] = []

    async def call(cluster: Cluster, request: Any, *_: Any, **__: Any) -> Any:
        if not isinstance(request, m.WriteTxnMarkersRequest):
            return await original(cluster, request, *_, **__)
        sent.append(request)
        return m.WriteTxnMarkersResponse(
            markers=[
                m.WritableTxnMarkerResult(
                    producer_id=marker.producer_id,
                    topics=[
                        m.WritableTxnMarkerTopicResult(
                            name=topic.name,
                            partitions=[
                                m.WritableTxnMarkerPartitionResult(
                                    partition_index=index,
                                    error_code=code_of(marker.producer_id),
                                )
                                for index in topic.partition_indexes
                            ],
                        )
                        for topic in marker.topics
                    ],
                )
                for marker in request.markers
            ]
        )

    original = Cluster.call
    monkeypatch.setattr(Cluster, "call", call)
    return sent


async def test_transactions_of_one_partition_are_aborted_in_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sent = answering_markers(monkeypatch, lambda _: 0)
    aborted = [
        OpenTransaction(FIRST, 7, 3),
        OpenTransaction(FIRST, 8, 3),
        OpenTransaction(SECOND, 7, 3),
    ]
    async with ScriptedCluster() as nodes:
        nodes.leaders = {FIRST: 1, SECOND: 1}
        cluster = nodes.client()
        results = await abort_transactions(cluster, aborted)
    assert list(results.all()) == aborted
    assert [len(request.markers) for request in sent] == [2, 1]
    assert not any(marker.transaction_result for r in sent for marker in r.markers)


async def test_a_refused_marker_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answering_markers(
        monkeypatch, lambda id_: 0 if id_ == 7 else ErrorCode.INVALID_PRODUCER_EPOCH
    )
    refused = OpenTransaction.of(FIRST, ProducerState(8, 3, 0, 0, None, 50))
    async with ScriptedCluster() as nodes:
        nodes.leaders = {FIRST: 1, SECOND: 1}
        cluster = nodes.client()
        results = await abort_transactions(
            cluster, [refused, OpenTransaction(SECOND, 7, 3)]
        )
    assert list(results.values) == [OpenTransaction(SECOND, 7, 3)]
    assert "find its open transaction again" in str(results.errors[refused])
