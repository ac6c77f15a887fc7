"""Authorization and errors of transactions, and AddPartitionsToTxn between brokers."""

from __future__ import annotations

from typing import Any

import pytest

from coterie.broker.log.log import Bounds, Log, LogPartition
from coterie.broker.log.memory import MemoryLog
from coterie.errors import LogCorrupt
from coterie.wire import messages as m
from coterie.wire.error_codes import ErrorCode
from tests.broker.server.apis.fake_broker import FakeBroker, allow_except, allow_only
from tests.broker.server.apis.test_transactions import Client


@pytest.fixture
def broker() -> FakeBroker:
    made = FakeBroker()
    made.create("a", partition_count=2)
    return made


@pytest.fixture
def client(broker: FakeBroker) -> Client:
    made = Client(broker)
    assert made.init() is ErrorCode.NONE
    return made


def test_a_transaction_request_without_permission_is_refused(
    broker: FakeBroker, client: Client
) -> None:
    broker.authorizer = allow_only()
    refused = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert client.end(committed=True) is refused
    assert client.add(0) is refused
    assert client.add_offsets("g") is refused
    assert client.init() is refused
    idempotent = m.InitProducerIdRequest(transactional_id=None)
    code = broker.call(idempotent, 5).error_code
    assert code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def test_adding_a_topic_without_write_permission_is_refused(
    broker: FakeBroker, client: Client
) -> None:
    class NoTopics:
        def authorize(self, _: object, __: object, kind: Any, ___: str) -> bool:
            return kind.name != "TOPIC"

    broker.authorizer = NoTopics()
    assert client.add(0) is ErrorCode.TOPIC_AUTHORIZATION_FAILED


def test_adding_a_group_without_read_permission_is_refused(
    broker: FakeBroker, client: Client
) -> None:
    broker.authorizer = allow_except(("READ", None))
    assert client.add_offsets("g") is ErrorCode.GROUP_AUTHORIZATION_FAILED


def test_a_producer_id_without_its_epoch_is_refused(broker: FakeBroker) -> None:
    request = m.InitProducerIdRequest(
        transactional_id="t", transaction_timeout_ms=1_000, producer_id=5
    )
    code = broker.call(request, 4).error_code
    assert code == ErrorCode.INVALID_REQUEST


def test_every_api_refuses_an_empty_transactional_id(broker: FakeBroker) -> None:
    client = Client(broker, "")
    assert client.add(0) is ErrorCode.INVALID_REQUEST
    assert client.end(committed=True) is ErrorCode.INVALID_REQUEST


def test_another_node_responds_not_coordinator() -> None:
    broker = FakeBroker(nodes=2)
    requests = [
        (m.AddOffsetsToTxnRequest(transactional_id="t"), 3),
        (m.EndTxnRequest(transactional_id="t"), 3),
        (m.InitProducerIdRequest(transactional_id="t"), 3),
    ]
    for request, version in requests:
        response = broker.call(request, version, node=1)
        assert response.error_code == ErrorCode.NOT_COORDINATOR


def test_many_transactions_are_added_in_one_request(
    broker: FakeBroker, client: Client
) -> None:
    topics = [m.AddPartitionsToTxnTopic(name="a", partitions=[0])]

    def of(*, verify_only: bool) -> m.AddPartitionsToTxnRequest:
        transaction = m.AddPartitionsToTxnTransaction(
            transactional_id="t",
            producer_id=client.producer_id,
            producer_epoch=client.epoch,
            verify_only=verify_only,
            topics=topics,
        )
        return m.AddPartitionsToTxnRequest(transactions=[transaction])

    def code_of(request: m.AddPartitionsToTxnRequest) -> int:
        response = broker.call(request, 5)
        [result] = response.results_by_transaction
        [topic] = result.topic_results
        code: int = topic.results_by_partition[0].partition_error_code
        return code

    assert code_of(of(verify_only=True)) == ErrorCode.TRANSACTION_ABORTABLE
    assert code_of(of(verify_only=False)) == ErrorCode.NONE
    assert code_of(of(verify_only=True)) == ErrorCode.NONE


def test_adding_many_transactions_needs_cluster_action(broker: FakeBroker) -> None:
    broker.authorizer = allow_except(("CLUSTER_ACTION", None))
    response = broker.call(m.AddPartitionsToTxnRequest(), 4)
    assert response.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def test_there_are_at_most_catalog_max_entries_transactional_ids() -> None:
    broker = FakeBroker(catalog_max_entries=1)
    assert Client(broker, "t").init() == 0
    assert Client(broker, "u").init() == ErrorCode.POLICY_VIOLATION
    assert Client(broker, "t").init() == 0


class DamagedLog(MemoryLog):
    """A log with the offsets of another one, whose key-value store is damaged."""

    def __init__(self, of: Log) -> None:
        super().__init__()
        self._of = of

    def get(self, space: str, key: bytes) -> bytes | None:
        raise LogCorrupt("coterie.db is damaged")

    def bounds(self, partition: LogPartition) -> Bounds:
        return self._of.bounds(partition)


def unreadable(partition: Any) -> None:
    """Let the producer state of a partition be read from a damaged log."""
    partition.reset()
    partition._log = DamagedLog(partition._log)


def test_a_transaction_with_an_unreadable_partition_stays_open(
    broker: FakeBroker, client: Client
) -> None:
    client.init()
    client.add(0, 1)
    client.send(b"x")
    partition = broker.data.partition("a", 1)
    assert partition is not None
    log = partition._log
    unreadable(partition)
    assert client.end(committed=True) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    broker.scheduler.advance(100)  # its timeout, which is tried again later
    partition._log = log
    broker.scheduler.advance(100)
    transaction = broker.catalog.transactions.get("t")
    assert transaction is not None
    assert not transaction.is_ongoing
    first = broker.data.partition("a", 0)
    assert first is not None
    assert first.last_stable_offset() == first.bounds().flushed_offset == 2
