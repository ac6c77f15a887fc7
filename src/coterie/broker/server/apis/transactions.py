"""The APIs of transactions (KIP-98).

==================  ===  =======================================================
API                 key  versions
==================  ===  =======================================================
InitProducerId      22   0-5 (3: KIP-360; 4: PRODUCER_FENCED)
AddPartitionsToTxn  24   0-5 (2: PRODUCER_FENCED; 4: batches, for brokers only)
AddOffsetsToTxn     25   0-4 (2: PRODUCER_FENCED)
EndTxn              26   0-5 (2: PRODUCER_FENCED; 5: transactions v2, KIP-890)
TxnOffsetCommit     28   0-6 (3: members, KIP-447; 5: KIP-890; 6: topic ids)
==================  ===  =======================================================

A response is sent once the transaction's state is durable. When the flush fails it is
NOT_COORDINATOR, so that the client finds its coordinator and retries.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple

from coterie.auth.acl import Operation, ResourceType
from coterie.broker.catalog.transactions import Claim
from coterie.broker.coordinator.offsets.commit import CommitDivision
from coterie.broker.server.apis.committed_offsets import authorize_topics
from coterie.broker.server.call import Call
from coterie.errors import ApiError
from coterie.types import OFFSETS_TOPIC, TopicPartition
from coterie.wire import messages as m
from coterie.wire.commit import Commit, CommitResponse
from coterie.wire.error_codes import ErrorCode

_FENCED_SINCE: Final = 2
_INIT_FENCED_SINCE: Final = 4
_BATCHED_SINCE: Final = 4
_BUMPS_EPOCH_SINCE: Final = 5
_COMMIT_ADDS_PARTITION_SINCE: Final = 5
_COMMIT_ABORTABLE_SINCE: Final = 4


def _code_for_version(
    error: ApiError, api_version: int, fenced_since: int
) -> ErrorCode:
    """Return an error's code for a client of that version.

    PRODUCER_FENCED is newer than transactions; older versions have
    INVALID_PRODUCER_EPOCH instead (KIP-588).
    """
    if error.code is ErrorCode.PRODUCER_FENCED and api_version < fenced_since:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return error.code


def _check_transactional_id(call: Call, transactional_id: str) -> None:
    if not call.authorize(
        Operation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id
    ):
        raise ApiError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)


def _check_group(call: Call, group_id: str) -> None:
    if not call.authorize_group(Operation.READ, group_id):
        raise ApiError(ErrorCode.GROUP_AUTHORIZATION_FAILED)


def _check_coordinator(call: Call, transactional_id: str) -> None:
    """Raise ApiError NOT_COORDINATOR unless this node coordinates the id."""
    broker = call.node.broker
    if broker.transaction_coordinator(transactional_id) is not call.node:
        raise ApiError(ErrorCode.NOT_COORDINATOR)


def _when_durable(call: Call, done: Callable[[ErrorCode], None]) -> None:
    """Call `done` with NONE once all that is staged is durable, or with
    NOT_COORDINATOR when the flush failed."""

    def durable(error: ErrorCode) -> None:
        failed = error is not ErrorCode.NONE
        done(ErrorCode.NOT_COORDINATOR if failed else ErrorCode.NONE)

    call.node.broker.data.when_durable(durable)


# InitProducerId.


def init_producer_id(call: Call) -> None:
    """Assign a producer id and epoch; respond once they are durable."""
    response = m.InitProducerIdResponse(producer_epoch=-1)
    try:
        _assign_producer_id(call, response)
    except ApiError as error:
        response.error_code = _code_for_version(
            error, call.api_version, _INIT_FENCED_SINCE
        )
        call.respond(response)
        return

    def durable(error: ErrorCode) -> None:
        if error is not ErrorCode.NONE:
            call.respond(m.InitProducerIdResponse(error_code=error, producer_epoch=-1))
        else:
            call.respond(response)

    _when_durable(call, durable)


def _check_claim(request: m.InitProducerIdRequest) -> None:
    if (request.producer_id == -1) != (request.producer_epoch == -1):
        raise ApiError(ErrorCode.INVALID_REQUEST)


def _assign_producer_id(call: Call, response: m.InitProducerIdResponse) -> None:
    request: m.InitProducerIdRequest = call.request
    transactions = call.node.broker.transactions
    transactional_id = request.transactional_id
    if transactional_id is None:
        # KIP-679: WRITE on any topic is enough for an idempotent producer.
        if not (
            call.authorize_cluster(Operation.IDEMPOTENT_WRITE)
            or call.authorize_by_resource_type(Operation.WRITE, ResourceType.TOPIC)
        ):
            raise ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        _check_claim(request)
        response.producer_id = transactions.fresh_producer_id()
        response.producer_epoch = 0
        return
    _check_transactional_id(call, transactional_id)
    _check_claim(request)
    _check_coordinator(call, transactional_id)
    claim = Claim(transactional_id, request.producer_id, request.producer_epoch)
    transaction = transactions.initialise(claim, request.transaction_timeout_ms)
    response.producer_id = transaction.producer_id
    response.producer_epoch = transaction.producer_epoch


# AddPartitionsToTxn.


def add_partitions_to_txn(call: Call) -> None:
    """Add partitions to transactions; respond once that is durable."""
    request: m.AddPartitionsToTxnRequest = call.request
    is_batched = call.api_version >= _BATCHED_SINCE
    if is_batched and not call.authorize_cluster(Operation.CLUSTER_ACTION):
        code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        call.respond(m.AddPartitionsToTxnResponse(error_code=code))
        return
    transactions = request.transactions
    if not is_batched:
        transactions = [
            m.AddPartitionsToTxnTransaction(
                transactional_id=request.v3_and_below_transactional_id,
                producer_id=request.v3_and_below_producer_id,
                producer_epoch=request.v3_and_below_producer_epoch,
                topics=request.v3_and_below_topics,
            )
        ]
    # Each addition writes the whole transaction, so an id may not be repeated; Kafka's
    # brokers do not repeat it.
    counts = Counter(transaction.transactional_id for transaction in transactions)
    results = [
        m.AddPartitionsToTxnResult(
            transactional_id=transaction.transactional_id,
            topic_results=_add_partitions(call, transaction)
            if counts[transaction.transactional_id] == 1
            else _results(transaction.topics, {}, ErrorCode.INVALID_REQUEST),
        )
        for transaction in transactions
    ]

    def durable(error: ErrorCode) -> None:
        if error is not ErrorCode.NONE:
            for result in results:
                for topic in result.topic_results:
                    for part in topic.results_by_partition:
                        part.partition_error_code = part.partition_error_code or error
        response = m.AddPartitionsToTxnResponse()
        if is_batched:
            response.results_by_transaction = results
        else:
            response.results_by_topic_v3_and_below = results[0].topic_results
        call.respond(response)

    _when_durable(call, durable)


def _add_partitions(
    call: Call, transaction: m.AddPartitionsToTxnTransaction
) -> list[m.AddPartitionsToTxnTopicResult]:
    topics = transaction.topics
    partitions = [
        TopicPartition(topic.name, index)
        for topic in topics
        for index in topic.partitions
    ]
    transactional_id = transaction.transactional_id
    plane = call.node.broker.transactions
    try:
        if call.api_version < _BATCHED_SINCE:
            _check_transactional_id(call, transactional_id)
        if errors := _partition_errors(call, topics):
            # Kafka adds all or none: the other partitions are not attempted.
            return _results(topics, errors, ErrorCode.OPERATION_NOT_ATTEMPTED)
        _check_coordinator(call, transactional_id)
        claim = Claim(
            transactional_id, transaction.producer_id, transaction.producer_epoch
        )
        if not transaction.verify_only:
            plane.add_partitions(claim, partitions)
            return _results(topics, {}, ErrorCode.NONE)
        missing = {
            partition: ErrorCode.TRANSACTION_ABORTABLE
            for partition in partitions
            if not plane.includes(claim, partition)
        }
        return _results(topics, missing, ErrorCode.NONE)
    except ApiError as error:
        code = _code_for_version(error, call.api_version, _FENCED_SINCE)
        return _results(topics, {}, code)


def _partition_errors(
    call: Call, topics: list[m.AddPartitionsToTxnTopic]
) -> dict[TopicPartition, ErrorCode]:
    """Return the error of each partition that cannot be added.

    Only brokers send batches, and CLUSTER_ACTION has been checked for them; other
    requests need WRITE on each topic.
    """
    is_single = call.api_version < _BATCHED_SINCE
    errors: dict[TopicPartition, ErrorCode] = {}
    for topic in topics:
        count = call.node.broker.catalog.partition_count(topic.name)
        allowed = not is_single or call.authorize_topic(Operation.WRITE, topic.name)
        for index in topic.partitions:
            partition = TopicPartition(topic.name, index)
            if not allowed:
                errors[partition] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            elif count is None or not 0 <= index < count:
                errors[partition] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return errors


def _results(
    topics: list[m.AddPartitionsToTxnTopic],
    codes: dict[TopicPartition, ErrorCode],
    default: ErrorCode,
) -> list[m.AddPartitionsToTxnTopicResult]:
    return [
        m.AddPartitionsToTxnTopicResult(
            name=topic.name,
            results_by_partition=[
                m.AddPartitionsToTxnPartitionResult(
                    partition_index=index,
                    partition_error_code=codes.get(
                        TopicPartition(topic.name, index), default
                    ),
                )
                for index in topic.partitions
            ],
        )
        for topic in topics
    ]


# AddOffsetsToTxn.


def add_offsets_to_txn(call: Call) -> None:
    """Add a group's partition of `__consumer_offsets` to a transaction; respond once
    that is durable."""
    request: m.AddOffsetsToTxnRequest = call.request
    broker = call.node.broker
    try:
        check_offsets_to_txn(call)
        _check_coordinator(call, request.transactional_id)
        claim = Claim(
            request.transactional_id, request.producer_id, request.producer_epoch
        )
        shard = broker.shard_of(request.group_id)
        partition = TopicPartition(OFFSETS_TOPIC, shard)
        broker.transactions.add_partitions(claim, [partition])
    except ApiError as error:
        refuse_offsets_to_txn(call, error)
        return
    _when_durable(
        call, lambda error: call.respond(m.AddOffsetsToTxnResponse(error_code=error))
    )


def check_offsets_to_txn(call: Call) -> None:
    """Raise ApiError unless the principal may commit offsets of the group in the
    transaction that AddOffsetsToTxn names."""
    request: m.AddOffsetsToTxnRequest = call.request
    _check_transactional_id(call, request.transactional_id)
    _check_group(call, request.group_id)


def refuse_offsets_to_txn(call: Call, error: ApiError) -> None:
    """Respond to AddOffsetsToTxn with an error."""
    code = _code_for_version(error, call.api_version, _FENCED_SINCE)
    call.respond(m.AddOffsetsToTxnResponse(error_code=code))


# EndTxn.


def end_txn(call: Call) -> None:
    """Commit or abort; respond once the state and all markers are durable."""
    request: m.EndTxnRequest = call.request
    try:
        _check_transactional_id(call, request.transactional_id)
        _check_coordinator(call, request.transactional_id)
        claim = Claim(
            request.transactional_id, request.producer_id, request.producer_epoch
        )
        transaction = call.node.broker.transactions.end(
            claim,
            committed=request.committed,
            bumps_epoch=call.api_version >= _BUMPS_EPOCH_SINCE,
        )
        producer_id = transaction.producer_id
        producer_epoch = transaction.producer_epoch
    except ApiError as error:
        code = _code_for_version(error, call.api_version, _FENCED_SINCE)
        call.respond(m.EndTxnResponse(error_code=code))
        return

    def durable(error: ErrorCode) -> None:
        if error is not ErrorCode.NONE:
            call.respond(m.EndTxnResponse(error_code=error))
        else:
            call.respond(
                m.EndTxnResponse(producer_id=producer_id, producer_epoch=producer_epoch)
            )

    _when_durable(call, durable)


# TxnOffsetCommit.


def txn_offset_commit(call: Call) -> None:
    """Append offsets to the shard's log as a transactional batch, which is committed
    with the transaction.

    From v5 on the request also adds the shard's partition to the transaction (KIP-890);
    before, AddOffsetsToTxn must have added it.
    """
    check_commit(call, partial(_commit_in_log, call))


class CheckedCommit(NamedTuple):
    """A TxnOffsetCommit request whose principal was authorized.

    Topics that the principal may not read are refused in `request`. One of the
    functions is called once: `respond` with the shard's response, or `refuse` with an
    error of all other partitions that exist.
    """

    request: Commit
    shard: int
    respond: Callable[[CommitResponse], None]
    refuse: Callable[[ErrorCode], None]

    @property
    def claim(self) -> Claim:
        """The producer of the transaction."""
        request = self.request
        return Claim(
            request.transactional_id, request.producer_id, request.producer_epoch
        )


def check_commit(call: Call, commit: Callable[[CheckedCommit], None]) -> None:
    """Pass what the principal may commit to `commit`.

    Without any partition that exists there is no transaction to join, and the response
    is sent at once.
    """
    request: Commit = call.request
    broker = call.node.broker
    try:
        _check_transactional_id(call, request.transactional_id)
        _check_group(call, request.group_id)
    except ApiError as error:
        request.refuse(error.code)
    authorize_topics(call, request)
    division = CommitDivision(request, broker.catalog)
    if not division.existing:
        call.respond(division.response(()))
        return

    def refuse(code: ErrorCode) -> None:
        call.respond(division.refuse_all(code))

    shard = broker.shard_of(request.group_id)
    commit(CheckedCommit(request, shard, call.respond, refuse))


def _commit_in_log(call: Call, commit: CheckedCommit) -> None:
    try:
        _join_transaction(call, commit)
    except ApiError as error:
        commit.refuse(error.code)
        return
    runtime = call.node.broker.runtime
    runtime.submit(commit.shard, commit.request, call, commit.respond)


def _join_transaction(call: Call, commit: CheckedCommit) -> None:
    """Add the shard's partition to the transaction, or check that it was added."""
    if commit.request.group_id == "":
        raise ApiError(ErrorCode.INVALID_GROUP_ID)
    if call.node.broker.shard_node(commit.shard) is not call.node:
        raise ApiError(ErrorCode.NOT_COORDINATOR)
    claim = commit.claim
    partition = TopicPartition(OFFSETS_TOPIC, commit.shard)
    plane = call.node.broker.transactions
    try:
        if commit_adds_partition(call):
            plane.add_partitions(claim, [partition])
        elif not plane.includes(claim, partition):
            raise ApiError(code_of_missing_partition(call))
    except ApiError as error:
        if error.code is ErrorCode.PRODUCER_FENCED:
            raise ApiError(ErrorCode.INVALID_PRODUCER_EPOCH) from None
        raise


def commit_adds_partition(call: Call) -> bool:
    """Return whether a TxnOffsetCommit also adds the shard's partition to the
    transaction (KIP-890)."""
    return call.api_version >= _COMMIT_ADDS_PARTITION_SINCE


def code_of_missing_partition(call: Call) -> ErrorCode:
    """Return the error of a TxnOffsetCommit when the transaction does not include the
    shard's partition."""
    if call.api_version >= _COMMIT_ABORTABLE_SINCE:
        return ErrorCode.TRANSACTION_ABORTABLE
    return ErrorCode.INVALID_TXN_STATE
