"""Produce, key 0: versions 3-13 (13: topic ids, KIP-516; 12: transactions v2, KIP-890).

Versions 0-2 are advertised for librdkafka (G4-13) and not served. An answer leaves once
all batches of the request are durable; with acks 0 there is none (G1-06).
"""

from __future__ import annotations

from typing import Final

from coterie.auth.authorizer import Operation, ResourceType
from coterie.catalog.incoming import IncomingBatch, InvalidRecords, read_batch
from coterie.catalog.topics import Topic
from coterie.catalog.transactions import Claim
from coterie.errors import ApiError, LogError
from coterie.runtime.data import Appended
from coterie.runtime.partitions import Partition
from coterie.server.apis.support import (
    LEADER_EPOCH,
    check_leader,
    leader_of,
    may,
    may_topic,
    unknown_partition,
)
from coterie.server.call import Call
from coterie.wire.error_codes import ErrorCode
from coterie.wire.messages.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)

_TOPIC_IDS_SINCE: Final = 13
_ADDS_PARTITIONS_SINCE: Final = 12
_ABORTABLE_SINCE: Final = 11
_LEADER_HINTS_SINCE: Final = 10
_ATTRIBUTES_LOW_AT: Final = 22
_TRANSACTIONAL_BIT: Final = 0x10


def handle(call: Call) -> None:
    """Append every batch, and answer when all are durable."""
    request: ProduceRequest = call.request
    produce = _Produce(call, request)
    answers = [produce.topic(topic) for topic in request.topic_data]
    response = ProduceResponse(
        responses=answers, node_endpoints=list(produce.endpoints.values())
    )
    data = call.node.broker.data
    if request.acks == 0:
        data.settle(produce.appended, _nobody)
        if produce.has_failed:
            call.close()  # the only way to tell: the client then looks up leaders
        call.answer(None)
        return

    def durable(error: ErrorCode) -> None:
        if error is not ErrorCode.NONE:
            _fail_all(response, error)
        call.answer(response)

    data.settle(produce.appended, durable)


class _Produce:
    """One request on its way through its partitions."""

    def __init__(self, call: Call, request: ProduceRequest) -> None:
        self._call = call
        self._request = request
        self._data = call.node.broker.data
        self._refusal = self._check_request()
        self.appended: list[Appended] = []
        self.endpoints: dict[int, NodeEndpoint] = {}
        self.has_failed = False

    def topic(self, topic: TopicProduceData) -> TopicProduceResponse:
        """Append a topic's batches."""
        answer = TopicProduceResponse(name=topic.name, topic_id=topic.topic_id)
        try:
            found = self._find(topic)
        except ApiError as error:
            answer.partition_responses = [
                self._refuse(part.index, error) for part in topic.partition_data
            ]
        else:
            answer.partition_responses = [
                self._partition(found, part) for part in topic.partition_data
            ]
        return answer

    def _check_request(self) -> ApiError | None:
        request = self._request
        transactional_id = request.transactional_id
        if request.acks not in {-1, 0, 1}:
            return ApiError(ErrorCode.INVALID_REQUIRED_ACKS)
        if (
            transactional_id is not None
            and _has_transactional(request)
            and not may(
                self._call,
                Operation.WRITE,
                ResourceType.TRANSACTIONAL_ID,
                transactional_id,
            )
        ):
            return ApiError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        return None

    def _find(self, topic: TopicProduceData) -> Topic:
        if self._refusal is not None:
            raise self._refusal
        catalog = self._data.catalog
        name: str | None = topic.name
        if self._call.api_version >= _TOPIC_IDS_SINCE:
            name = catalog.topic_name(topic.topic_id)
            if name is None:
                raise ApiError(ErrorCode.UNKNOWN_TOPIC_ID)
        assert name is not None
        if not may_topic(self._call, Operation.WRITE, name):
            raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        found = catalog.topics.get(name)
        if found is None:
            raise unknown_partition()
        if found.is_internal:
            raise ApiError(
                ErrorCode.INVALID_TOPIC_EXCEPTION,
                f"Cannot append to internal topic {name}",
            )
        return found

    def _partition(
        self, topic: Topic, part: PartitionProduceData
    ) -> PartitionProduceResponse:
        try:
            appended = self._append(topic, part)
        except ApiError as error:
            return self._refuse(part.index, error)
        except LogError as error:
            no = ApiError(ErrorCode.KAFKA_STORAGE_ERROR, str(error))
            return self._refuse(part.index, no)
        self.appended.append(appended)
        return PartitionProduceResponse(
            index=part.index,
            base_offset=appended.base_offset,
            log_append_time_ms=appended.append_time_ms,
            log_start_offset=appended.log_start_offset,
        )

    def _append(self, topic: Topic, part: PartitionProduceData) -> Appended:
        partition = self._data.partition_of(topic, part.index)
        if partition is None:
            raise unknown_partition()
        check_leader(self._call, part.index)
        batch = read_batch(part.records, self._call.api_version)
        if batch.header.is_transactional:
            self._check_transaction(partition, batch)
        return self._data.append(partition, batch)

    def _check_transaction(self, partition: Partition, batch: IncomingBatch) -> None:
        """The batch's transaction must include the partition, or comes to (KIP-890)."""
        header = batch.header
        if self._request.transactional_id is None:
            raise ApiError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        claim = Claim(
            self._request.transactional_id, header.producer_id, header.producer_epoch
        )
        transactions = self._call.node.broker.transactions
        version = self._call.api_version
        try:
            if version >= _ADDS_PARTITIONS_SINCE:
                transactions.add_partitions(claim, [partition.name])
            elif not transactions.includes(claim, partition.name):
                raise ApiError(
                    ErrorCode.TRANSACTION_ABORTABLE
                    if version >= _ABORTABLE_SINCE
                    else ErrorCode.INVALID_TXN_STATE
                )
        except ApiError as error:
            if error.code is ErrorCode.PRODUCER_FENCED:
                # Kafka since 2.7: a produce is told 47, on which a client can abort.
                raise ApiError(ErrorCode.INVALID_PRODUCER_EPOCH) from None
            raise

    def _refuse(self, index: int, error: ApiError) -> PartitionProduceResponse:
        self.has_failed = True
        answer = PartitionProduceResponse(
            index=index,
            error_code=error.code,
            base_offset=-1,
            error_message=error.message,
        )
        if isinstance(error, InvalidRecords):
            answer.record_errors = [
                BatchIndexAndErrorMessage(
                    batch_index=at, batch_index_error_message=error.message
                )
                for at in error.indexes
            ]
        is_elsewhere = error.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
        if is_elsewhere and self._call.api_version >= _LEADER_HINTS_SINCE:
            leader = leader_of(self._call, index)
            answer.current_leader = LeaderIdAndEpoch(
                leader_id=leader.node_id, leader_epoch=LEADER_EPOCH
            )
            self.endpoints[leader.node_id] = NodeEndpoint(
                node_id=leader.node_id, host=leader.host, port=leader.port
            )
        return answer


def _has_transactional(request: ProduceRequest) -> bool:
    """Whether a batch belongs to a transaction, as far as its attributes say."""
    return any(
        len(part.records or b"") > _ATTRIBUTES_LOW_AT
        and (part.records or b"")[_ATTRIBUTES_LOW_AT] & _TRANSACTIONAL_BIT
        for topic in request.topic_data
        for part in topic.partition_data
    )


def _fail_all(response: ProduceResponse, error: ErrorCode) -> None:
    """The flush failed: what looked appended is not."""
    for topic in response.responses:
        for part in topic.partition_responses:
            if part.error_code == ErrorCode.NONE:
                part.error_code = error
                part.base_offset = part.log_append_time_ms = part.log_start_offset = -1


def _nobody(_: ErrorCode) -> None:
    """With acks 0 nobody waits."""
