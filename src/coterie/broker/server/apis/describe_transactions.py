"""The APIs that describe transactions and their producers (KIP-664).

====================  ===  ============================================================
API                   key  versions
====================  ===  ============================================================
DescribeProducers     61   0
DescribeTransactions  65   0
ListTransactions      66   0-2 (1: duration, KIP-994; 2: regular expression, KIP-1152)
====================  ===  ============================================================

Descriptions include changes that are not durable yet, so responses wait for the flush.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from coterie.auth.acl import Operation, ResourceType
from coterie.broker.catalog.producer_state import ProducerStateEntry
from coterie.broker.catalog.topics import check_topic_name
from coterie.broker.catalog.transactions import Transaction
from coterie.broker.coordinator.consumer.subscriptions import check_regex, matching
from coterie.broker.server.apis.routing import (
    HasErrorCode,
    find_partition,
    respond_when_durable,
    unknown_partition,
)
from coterie.broker.server.call import Call, in_slices
from coterie.errors import ApiError, LogError
from coterie.types import ProducerId, TopicName
from coterie.wire import messages as m
from coterie.wire.error_codes import ErrorCode
from coterie.wire.schema import Struct

STATES: Final = frozenset(
    {
        "Empty",
        "Ongoing",
        "PrepareCommit",
        "PrepareAbort",
        "CompleteCommit",
        "CompleteAbort",
        "PrepareEpochFence",
        "Dead",
    }
)
"""The states of Kafka's coordinator; transactions here have four of them."""


# DescribeProducers.


@in_slices
def describe_producers(call: Call) -> Iterator[None]:
    """Describe the producers of each partition. Requires READ on its topic.

    Repeated partitions are described once. The first description of a partition reads
    the latest batches of its log.
    """
    response = m.DescribeProducersResponse()
    yield from _describe_partitions(call, response.topics)
    described = [part for topic in response.topics for part in topic.partitions]
    respond_when_durable(call, response, described)


def _describe_partitions(call: Call, topics: list[m.ProducersTopic]) -> Iterator[None]:
    """Append the descriptions, one partition a step."""
    request: m.DescribeProducersRequest = call.request
    wanted: dict[TopicName, dict[int, None]] = {}
    for requested in request.topics:
        indexes = wanted.setdefault(requested.name, {})
        indexes.update(dict.fromkeys(requested.partition_indexes))
    for name, indexes in wanted.items():
        error = _topic_error(call, name)
        topic = m.ProducersTopic(name=name)
        topics.append(topic)
        yield
        for index in indexes:
            topic.partitions.append(_describe_partition(call, name, index, error))
            yield


def _topic_error(call: Call, name: TopicName) -> ApiError | None:
    """Return the error of the checks before a partition is read, in Kafka's order."""
    try:
        check_topic_name(name)
    except ApiError as error:
        return error
    if not call.authorize_topic(Operation.READ, name):
        return ApiError(
            ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Topic authorization failed."
        )
    is_known = name in call.node.broker.catalog.topics
    return None if is_known else unknown_partition()


def _describe_partition(
    call: Call, name: TopicName, index: int, error: ApiError | None
) -> m.ProducersPartition:
    result = m.ProducersPartition(partition_index=index)
    if error is not None:
        result.error_code, result.error_message = error.code, error.message
        return result
    try:
        partition = find_partition(call, name, index)
        result.active_producers = [
            _described_producer(producer_id, entry)
            for producer_id, entry in partition.current_producers()
        ]
    except ApiError as missing:
        result.error_code = missing.code
    except LogError:
        result.error_code = ErrorCode.KAFKA_STORAGE_ERROR
    return result


def _described_producer(
    producer_id: ProducerId, entry: ProducerStateEntry
) -> m.DescribedProducer:
    return m.DescribedProducer(
        producer_id=producer_id,
        producer_epoch=entry.epoch,
        last_sequence=entry.batches[-1].last_sequence if entry.batches else -1,
        last_timestamp=entry.timestamp_ms,
        # Markers have the epoch of a coordinator that never moves; entries have none.
        coordinator_epoch=-1,
        current_txn_start_offset=-1 if entry.open_offset is None else entry.open_offset,
    )


# DescribeTransactions.


@in_slices
def describe_transactions(call: Call) -> Iterator[None]:
    """Describe the transaction of each transactional id. Requires DESCRIBE on the id.

    Topics without DESCRIBE are left out. A repeated id is described once.
    """
    request: m.DescribeTransactionsRequest = call.request
    described = []
    for transactional_id in dict.fromkeys(request.transactional_ids):
        described.append(_describe_transaction(call, transactional_id))
        yield
    response = m.DescribeTransactionsResponse(transaction_states=described)
    _respond_when_durable(call, response, described)


def _describe_transaction(call: Call, transactional_id: str) -> m.DescribedTransaction:
    broker = call.node.broker
    try:
        if not _may_describe(call, transactional_id):
            raise ApiError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        if not transactional_id:
            raise ApiError(ErrorCode.INVALID_REQUEST)
        if broker.transaction_coordinator(transactional_id) is not call.node:
            raise ApiError(ErrorCode.NOT_COORDINATOR)
        found = broker.catalog.transactions.get(transactional_id)
        if found is None:
            raise ApiError(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
    except ApiError as error:
        return m.DescribedTransaction(
            transactional_id=transactional_id, error_code=error.code
        )
    topics: dict[TopicName, list[int]] = {}
    for topic, index in sorted(found.partitions):
        topics.setdefault(topic, []).append(index)
    return m.DescribedTransaction(
        transactional_id=transactional_id,
        transaction_state=found.state,
        transaction_timeout_ms=found.timeout_ms,
        transaction_start_time_ms=found.started_ms,
        producer_id=found.producer_id,
        producer_epoch=found.producer_epoch,
        topics=[
            m.TransactionTopic(topic=topic, partitions=indexes)
            for topic, indexes in topics.items()
            if call.may_describe(topic)
        ],
    )


# ListTransactions.


def list_transactions(call: Call) -> None:
    """List the transactions that this node coordinates and that pass all filters.

    Those without DESCRIBE on the transactional id are left out without an error.
    """
    request: m.ListTransactionsRequest = call.request
    pattern = request.transactional_id_pattern
    if pattern:
        try:
            check_regex(pattern)
        except ApiError as error:
            call.respond(m.ListTransactionsResponse(error_code=error.code))
            return
    states = dict.fromkeys(request.state_filters)
    response = m.ListTransactionsResponse(
        unknown_state_filters=[each for each in states if each not in STATES],
        transaction_states=[
            m.ListedTransaction(
                transactional_id=found.transactional_id,
                producer_id=found.producer_id,
                transaction_state=found.state,
            )
            for found in _matching_transactions(call, pattern)
        ],
    )
    _respond_when_durable(call, response, [response])


def _matching_transactions(call: Call, pattern: str | None) -> list[Transaction]:
    request: m.ListTransactionsRequest = call.request
    broker = call.node.broker
    states, producer_ids = set(request.state_filters), set(request.producer_id_filters)
    now_ms = broker.data.clock()
    found = [
        each
        for each in broker.catalog.transactions
        if (not states or each.state in states)
        and (not producer_ids or each.producer_id in producer_ids)
        and _runs_longer(each, request.duration_filter, now_ms)
        and broker.transaction_coordinator(each.transactional_id) is call.node
    ]
    if pattern:
        names = matching([pattern], (each.transactional_id for each in found))
        matched = set(names[pattern])
        found = [each for each in found if each.transactional_id in matched]
    return [each for each in found if _may_describe(call, each.transactional_id)]


def _runs_longer(found: Transaction, duration_ms: int, now_ms: int) -> bool:
    """Return whether a transaction began more than `duration_ms` ago.

    As in Kafka, one that never began passes, and one that ended is still compared.
    """
    return duration_ms < 0 or now_ms - found.started_ms > duration_ms


def _may_describe(call: Call, transactional_id: str) -> bool:
    resource_type = ResourceType.TRANSACTIONAL_ID
    return call.authorize(Operation.DESCRIBE, resource_type, transactional_id)


def _respond_when_durable(
    call: Call, response: Struct, results: Iterable[HasErrorCode]
) -> None:
    """Respond once all that is staged is durable.

    When the flush fails, clients retry: the catalog was loaded again.
    """

    def durable(error: ErrorCode) -> None:
        if error is not ErrorCode.NONE:
            for result in results:
                code = result.error_code or ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
                result.error_code = code
        call.respond(response)

    call.node.broker.data.when_durable(durable)
