"""TxnOffsetCommit, key 28: versions 0-6 (3: members, KIP-447; 5: transactions v2).

The offsets go to the group's shard as a transactional batch and count once the
transaction is committed. From v5 on the transaction comes to include the shard's
partition by that (KIP-890); before, AddOffsetsToTxn must have added it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from coterie.auth.authorizer import Operation, ResourceType
from coterie.catalog.topics import OFFSETS_TOPIC
from coterie.catalog.transactions import Claim
from coterie.errors import ApiError
from coterie.server.apis.support import may, may_topic
from coterie.server.call import Call
from coterie.types import TopicPartition
from coterie.wire.error_codes import ErrorCode
from coterie.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from coterie.wire.schema import Struct

_TOPIC_IDS_SINCE: Final = 6
_ADDS_PARTITIONS_SINCE: Final = 5
_ABORTABLE_SINCE: Final = 4


def handle(call: Call) -> None:
    """Hand the topics that the caller may read to the group's shard."""
    request: TxnOffsetCommitRequest = call.request
    broker = call.node.broker
    shard = broker.shard_of(request.group_id)
    refused: list[TxnOffsetCommitResponseTopic] = []
    try:
        _check_caller(call)
        no = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        asked, request.topics = request.topics, []
        for topic in asked:
            if _may_read(call, topic):
                request.topics.append(topic)
            else:
                refused.append(_refused(topic, no))
        if request.topics:
            _check(call, shard)
    except ApiError as error:
        refused += [_refused(topic, error.code) for topic in request.topics]
        request.topics = []
    if not request.topics:
        call.answer(TxnOffsetCommitResponse(topics=refused))
        return

    def answered(response: Struct) -> None:
        assert isinstance(response, TxnOffsetCommitResponse)
        response.topics += refused
        call.answer(response)

    broker.runtime.submit(shard, request, call, answered)


def _check_caller(call: Call) -> None:
    request: TxnOffsetCommitRequest = call.request
    transactional_id = request.transactional_id
    if not may(call, Operation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id):
        raise ApiError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    if not may(call, Operation.READ, ResourceType.GROUP, request.group_id):
        raise ApiError(ErrorCode.GROUP_AUTHORIZATION_FAILED)


def _check(call: Call, shard: int) -> None:
    request: TxnOffsetCommitRequest = call.request
    if request.group_id == "":
        raise ApiError(ErrorCode.INVALID_GROUP_ID)
    if call.node.broker.shard_node(shard) is not call.node:
        raise ApiError(ErrorCode.NOT_COORDINATOR)
    claim = Claim(request.transactional_id, request.producer_id, request.producer_epoch)
    try:
        _enter_transaction(call, claim, [TopicPartition(OFFSETS_TOPIC, shard)])
    except ApiError as error:
        if error.code is ErrorCode.PRODUCER_FENCED:
            raise ApiError(ErrorCode.INVALID_PRODUCER_EPOCH) from None
        raise


def _enter_transaction(
    call: Call, claim: Claim, partitions: Iterable[TopicPartition]
) -> None:
    transactions = call.node.broker.transactions
    if call.api_version >= _ADDS_PARTITIONS_SINCE:
        transactions.add_partitions(claim, partitions)
        return
    for partition in partitions:
        if not transactions.includes(claim, partition):
            raise ApiError(
                ErrorCode.TRANSACTION_ABORTABLE
                if call.api_version >= _ABORTABLE_SINCE
                else ErrorCode.INVALID_TXN_STATE
            )


def _may_read(call: Call, topic: TxnOffsetCommitRequestTopic) -> bool:
    name: str | None = topic.name
    if call.api_version >= _TOPIC_IDS_SINCE:
        name = call.node.broker.catalog.topic_name(topic.topic_id)
    # An id nobody knows is the shard's to refuse: there is nothing to hide.
    return name is None or may_topic(call, Operation.READ, name)


def _refused(
    topic: TxnOffsetCommitRequestTopic, code: ErrorCode
) -> TxnOffsetCommitResponseTopic:
    return TxnOffsetCommitResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        partitions=[
            TxnOffsetCommitResponsePartition(
                partition_index=part.partition_index, error_code=code
            )
            for part in topic.partitions
        ],
    )
