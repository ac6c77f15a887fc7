"""AddPartitionsToTxn, key 24: versions 0-5 (4: many transactions, for brokers only)."""

from __future__ import annotations

from typing import Final

from coterie.auth.authorizer import Operation, ResourceType
from coterie.catalog.transactions import Claim
from coterie.errors import ApiError
from coterie.server.apis.support import may, may_cluster, may_topic
from coterie.server.apis.transactional import (
    answer_when_durable,
    check_coordinator,
    told,
)
from coterie.server.call import Call
from coterie.types import TopicPartition
from coterie.wire.error_codes import ErrorCode
from coterie.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)

_BATCHED_SINCE: Final = 4
_FENCED_SINCE: Final = 2


def handle(call: Call) -> None:
    """Let transactions write to partitions; answer when that is durable."""
    request: AddPartitionsToTxnRequest = call.request
    is_batched = call.api_version >= _BATCHED_SINCE
    if is_batched and not may_cluster(call, Operation.CLUSTER_ACTION):
        code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        call.answer(AddPartitionsToTxnResponse(error_code=code))
        return
    wanted = request.transactions if is_batched else [_single(request)]
    results = [
        AddPartitionsToTxnResult(
            transactional_id=transaction.transactional_id,
            topic_results=_add(call, transaction),
        )
        for transaction in wanted
    ]

    def durable(error: ErrorCode) -> None:
        if error is not ErrorCode.NONE:
            _fail_all(results, error)
        response = AddPartitionsToTxnResponse()
        if is_batched:
            response.results_by_transaction = results
        else:
            response.results_by_topic_v3_and_below = results[0].topic_results
        call.answer(response)

    answer_when_durable(call, durable)


def _single(request: AddPartitionsToTxnRequest) -> AddPartitionsToTxnTransaction:
    return AddPartitionsToTxnTransaction(
        transactional_id=request.v3_and_below_transactional_id,
        producer_id=request.v3_and_below_producer_id,
        producer_epoch=request.v3_and_below_producer_epoch,
        topics=request.v3_and_below_topics,
    )


def _add(
    call: Call, wanted: AddPartitionsToTxnTransaction
) -> list[AddPartitionsToTxnTopicResult]:
    is_single = call.api_version < _BATCHED_SINCE
    if is_single and not may(
        call,
        Operation.WRITE,
        ResourceType.TRANSACTIONAL_ID,
        wanted.transactional_id,
    ):
        code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        return _results(wanted.topics, {}, code)
    refused = _refused(call, wanted.topics)
    if refused:
        # Kafka adds all or none: the partitions that could be are not attempted.
        return _results(wanted.topics, refused, ErrorCode.OPERATION_NOT_ATTEMPTED)
    claim = Claim(wanted.transactional_id, wanted.producer_id, wanted.producer_epoch)
    partitions = [
        TopicPartition(topic.name, index)
        for topic in wanted.topics
        for index in topic.partitions
    ]
    transactions = call.node.broker.transactions
    try:
        check_coordinator(call, wanted.transactional_id)
        if not wanted.verify_only:
            transactions.add_partitions(claim, partitions)
            return _results(wanted.topics, {}, ErrorCode.NONE)
        missing = {
            found: ErrorCode.TRANSACTION_ABORTABLE
            for found in partitions
            if not transactions.includes(claim, found)
        }
        return _results(wanted.topics, missing, ErrorCode.NONE)
    except ApiError as error:
        code = told(error, call.api_version, _FENCED_SINCE)
        return _results(wanted.topics, {}, code)


def _refused(
    call: Call, topics: list[AddPartitionsToTxnTopic]
) -> dict[TopicPartition, ErrorCode]:
    """Why partitions cannot be added. Brokers, who alone send batches, have been asked
    who they are; anybody else has to be allowed to write."""
    is_single = call.api_version < _BATCHED_SINCE
    refused: dict[TopicPartition, ErrorCode] = {}
    for topic in topics:
        count = call.node.broker.catalog.partition_count(topic.name)
        allowed = not is_single or may_topic(call, Operation.WRITE, topic.name)
        for index in topic.partitions:
            name = TopicPartition(topic.name, index)
            if not allowed:
                refused[name] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            elif count is None or not 0 <= index < count:
                refused[name] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return refused


def _results(
    topics: list[AddPartitionsToTxnTopic],
    special: dict[TopicPartition, ErrorCode],
    others: ErrorCode,
) -> list[AddPartitionsToTxnTopicResult]:
    return [
        AddPartitionsToTxnTopicResult(
            name=topic.name,
            results_by_partition=[
                AddPartitionsToTxnPartitionResult(
                    partition_index=index,
                    partition_error_code=special.get(
                        TopicPartition(topic.name, index), others
                    ),
                )
                for index in topic.partitions
            ],
        )
        for topic in topics
    ]


def _fail_all(results: list[AddPartitionsToTxnResult], error: ErrorCode) -> None:
    for result in results:
        for topic in result.topic_results:
            for part in topic.results_by_partition:
                part.partition_error_code = part.partition_error_code or error
