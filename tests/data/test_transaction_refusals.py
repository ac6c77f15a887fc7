"""Who may not take part in transactions, and AddPartitionsToTxn between brokers."""

from __future__ import annotations

from typing import Any

import pytest

from coterie.server.apis import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    end_txn,
    init_producer_id,
)
from coterie.wire.error_codes import ErrorCode
from coterie.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from coterie.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from coterie.wire.messages.end_txn import EndTxnRequest
from coterie.wire.messages.init_producer_id import InitProducerIdRequest
from tests.data.test_transactions import Client
from tests.data.world import World


@pytest.fixture
def world() -> World:
    made = World()
    made.create("a", partition_count=2)
    return made


@pytest.fixture
def client(world: World) -> Client:
    made = Client(world)
    assert made.init() is ErrorCode.NONE
    return made


class Except:
    """An authorizer that refuses one operation."""

    def __init__(self, operation: str) -> None:
        self._operation = operation

    def authorize(self, _: object, operation: Any, *__: object) -> bool:
        return operation.name != self._operation


class Nobody:
    """An authorizer that refuses everything."""

    def authorize(self, *_: object) -> bool:
        return False


def test_whoever_may_not_is_refused(world: World, client: Client) -> None:
    world.authorizer = Nobody()
    refused = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert client.end(committed=True) is refused
    assert client.add(0) is refused
    assert client.add_offsets("g") is refused
    assert client.init() is refused
    idempotent = InitProducerIdRequest(transactional_id=None)
    code = world.call(init_producer_id, idempotent, 5).error_code
    assert code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def test_a_topic_that_may_not_be_written_is_refused(
    world: World, client: Client
) -> None:
    class NoTopics:
        def authorize(self, _: object, __: object, kind: Any, ___: str) -> bool:
            return kind.name != "TOPIC"

    world.authorizer = NoTopics()
    assert client.add(0) is ErrorCode.TOPIC_AUTHORIZATION_FAILED


def test_a_group_that_may_not_be_read_is_refused(world: World, client: Client) -> None:
    world.authorizer = Except("READ")
    assert client.add_offsets("g") is ErrorCode.GROUP_AUTHORIZATION_FAILED


def test_an_id_without_its_epoch_is_refused(world: World) -> None:
    request = InitProducerIdRequest(
        transactional_id="t", transaction_timeout_ms=1_000, producer_id=5
    )
    code = world.call(init_producer_id, request, 4).error_code
    assert code == ErrorCode.INVALID_REQUEST


def test_an_empty_transactional_id_is_refused_everywhere(world: World) -> None:
    client = Client(world, "")
    assert client.add(0) is ErrorCode.INVALID_REQUEST
    assert client.end(committed=True) is ErrorCode.INVALID_REQUEST


def test_another_node_is_not_the_coordinator() -> None:
    world = World(nodes=2)
    requests = [
        (add_offsets_to_txn, AddOffsetsToTxnRequest(transactional_id="t"), 3),
        (end_txn, EndTxnRequest(transactional_id="t"), 3),
        (init_producer_id, InitProducerIdRequest(transactional_id="t"), 3),
    ]
    for api, request, version in requests:
        response = world.call(api, request, version, node=1)
        assert response.error_code == ErrorCode.NOT_COORDINATOR


def test_many_transactions_are_added_in_one_request(
    world: World, client: Client
) -> None:
    topics = [AddPartitionsToTxnTopic(name="a", partitions=[0])]

    def of(*, verify_only: bool) -> AddPartitionsToTxnRequest:
        transaction = AddPartitionsToTxnTransaction(
            transactional_id="t",
            producer_id=client.producer_id,
            producer_epoch=client.epoch,
            verify_only=verify_only,
            topics=topics,
        )
        return AddPartitionsToTxnRequest(transactions=[transaction])

    def code_of(request: AddPartitionsToTxnRequest) -> int:
        response = world.call(add_partitions_to_txn, request, 5)
        [result] = response.results_by_transaction
        [topic] = result.topic_results
        code: int = topic.results_by_partition[0].partition_error_code
        return code

    assert code_of(of(verify_only=True)) == ErrorCode.TRANSACTION_ABORTABLE
    assert code_of(of(verify_only=False)) == ErrorCode.NONE
    assert code_of(of(verify_only=True)) == ErrorCode.NONE


def test_only_brokers_add_many(world: World) -> None:
    world.authorizer = Except("CLUSTER_ACTION")
    response = world.call(add_partitions_to_txn, AddPartitionsToTxnRequest(), 4)
    assert response.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
