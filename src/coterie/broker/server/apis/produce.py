"""Produce, key 0: versions 3-13 (13: topic ids, KIP-516; 12: transactions v2, KIP-890).

Versions 0-2 are advertised for librdkafka and not served. The response is sent
once all batches of the request are durable; with acks=0 there is none.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple

from coterie.auth.acl import Operation, ResourceType
from coterie.broker.catalog.batch_validation import (
    DecompressedTooLarge,
    IncomingBatch,
    InvalidRecords,
    UnexpectedBatch,
    read_batch,
)
from coterie.broker.catalog.topics import Topic
from coterie.broker.catalog.transactions import Claim
from coterie.broker.runtime.data import Appended
from coterie.broker.runtime.decoding import LoopBudget, Outcome
from coterie.broker.runtime.partitions import Partition
from coterie.broker.server.apis.routing import (
    LEADER_EPOCH,
    check_leader,
    leader_of,
    unknown_partition,
)
from coterie.broker.server.call import Call
from coterie.errors import ApiError, LogError
from coterie.types import TopicPartition
from coterie.wire import messages as m
from coterie.wire.error_codes import ErrorCode

_TOPIC_IDS_SINCE: Final = 13
_ADDS_PARTITIONS_SINCE: Final = 12
_ABORTABLE_SINCE: Final = 11
_LEADER_HINTS_SINCE: Final = 10
_ATTRIBUTES_LOW_AT: Final = 22
_TRANSACTIONAL_BIT: Final = 0x10
_WITHOUT_LOG_START: Final = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.MESSAGE_TOO_LARGE,
    ErrorCode.CORRUPT_MESSAGE,
    ErrorCode.KAFKA_STORAGE_ERROR,
}
"""The errors of a partition that Kafka sends without the log start offset; the others
have it (ReplicaManager.appendRecordsToLeader)."""


def produce(call: Call) -> None:
    """Append every batch; respond once all are durable. Requires WRITE on each
    topic."""
    request: m.ProduceRequest = call.request
    appender = _Appender(call, request)
    topics = appender.append_all()
    if appender.is_delayed:
        call.peer.hold_requests()  # or a later append could be earlier in the log
    appender.when_complete(lambda: _respond(call, appender, topics))


def _respond(
    call: Call, appender: _Appender, topics: list[m.TopicProduceResponse]
) -> None:
    """Respond once all appended batches are durable."""
    response = m.ProduceResponse(
        responses=topics, node_endpoints=list(appender.endpoints.values())
    )
    data = call.node.broker.data
    if call.request.acks == 0:
        data.settle(appender.appended, lambda _: None)
        if appender.has_failed:
            call.close()  # makes the client refresh its metadata
        call.respond(None)
        return

    def durable(error: ErrorCode) -> None:
        if error is not ErrorCode.NONE:
            # The flush failed: the batches were not appended.
            for topic in response.responses:
                for part in topic.partition_responses:
                    if part.error_code == ErrorCode.NONE:
                        part.error_code = error
                        part.base_offset = part.log_append_time_ms = -1
                        part.log_start_offset = -1
        call.respond(response)

    data.settle(appender.appended, durable)


class _LargeBatch(NamedTuple):
    """A batch that is validated in the worker, and its part of the response."""

    partition: Partition
    validate: Callable[[], IncomingBatch]
    responses: list[m.PartitionProduceResponse]
    position: int


class _Appender:
    """The appends of one request's batches, with the collected results."""

    def __init__(self, call: Call, request: m.ProduceRequest) -> None:
        self._call = call
        self._request = request
        self._data = call.node.broker.data
        self._request_error = self._check_request()
        self._budget = LoopBudget()
        self._responses: list[m.PartitionProduceResponse] = []
        """The responses of the partitions of the current topic."""
        self._large: deque[_LargeBatch] = deque()
        self.appended: list[Appended] = []
        self.endpoints: dict[int, m.NodeEndpoint] = {}
        self.has_failed = False
        self._joining: frozenset[TopicPartition] = frozenset()
        """The partitions that the request adds to its transaction. Each addition writes
        the whole transaction, so all are added with the first batch, as in Kafka."""

    def append_all(self) -> list[m.TopicProduceResponse]:
        """Append the batches of all topics; return their parts of the response."""
        found = [(topic, self._find_topic(topic)) for topic in self._request.topic_data]
        if self._request.transactional_id is not None:
            self._joining = frozenset(
                TopicPartition(existing.name, part.index)
                for topic, existing in found
                if isinstance(existing, Topic)
                for part in topic.partition_data
                if _is_transactional(part)
                and 0 <= part.index < existing.partition_count
                and leader_of(self._call, part.index) is self._call.node
            )
        return [self._append_topic(topic, existing) for topic, existing in found]

    def _append_topic(
        self, topic: m.TopicProduceData, existing: Topic | ApiError
    ) -> m.TopicProduceResponse:
        result = m.TopicProduceResponse(name=topic.name, topic_id=topic.topic_id)
        if isinstance(existing, ApiError):
            result.partition_responses = [
                self._error(part.index, existing) for part in topic.partition_data
            ]
        else:
            self._responses = result.partition_responses
            for part in topic.partition_data:
                response = self._append_partition(existing, part)
                self._responses.append(response)
        return result

    def _check_request(self) -> ApiError | None:
        request = self._request
        transactional_id = request.transactional_id
        if (
            transactional_id is not None
            and _has_transactional(request)
            and not self._call.authorize(
                Operation.WRITE,
                ResourceType.TRANSACTIONAL_ID,
                transactional_id,
            )
        ):
            return ApiError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        return None

    def _find_topic(self, topic: m.TopicProduceData) -> Topic | ApiError:
        """Return the topic, or the error that all its partitions get."""
        if self._request_error is not None:
            return self._request_error
        catalog = self._data.catalog
        name: str | None = topic.name
        if self._call.api_version >= _TOPIC_IDS_SINCE:
            name = catalog.topic_name(topic.topic_id)
            if name is None:
                return ApiError(ErrorCode.UNKNOWN_TOPIC_ID)
        assert name is not None
        if not self._call.authorize_topic(Operation.WRITE, name):
            return ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        existing = catalog.topics.get(name)
        if existing is None:
            return unknown_partition()
        if existing.is_internal:
            return ApiError(
                ErrorCode.INVALID_TOPIC_EXCEPTION,
                f"Cannot append to internal topic {name}",
            )
        return existing

    def _append_partition(
        self, topic: Topic, part: m.PartitionProduceData
    ) -> m.PartitionProduceResponse:
        try:
            partition = self._data.partition_of(topic, part.index)
            if partition is None:
                raise unknown_partition()
            if self._request.acks not in {-1, 0, 1}:
                raise ApiError(ErrorCode.INVALID_REQUIRED_ACKS)
            check_leader(self._call, part.index)
            try:
                batch = read_batch(part.records, self._call.api_version)
            except UnexpectedBatch as error:
                return self._refusal(partition, error)
            if batch.header.is_transactional:
                self._check_transaction(partition, batch)
        except ApiError as error:
            return self._error(part.index, error)
        if not self._budget.fits(batch.header):
            return self._postpone(partition, batch)
        try:
            valid = self._data.validation(partition, batch, in_loop=True)()
            return self._append(partition, valid)
        except DecompressedTooLarge:
            return self._postpone(partition, batch)
        except (ApiError, LogError) as failure:
            return self._refusal(partition, failure)

    def _append(
        self, partition: Partition, batch: IncomingBatch
    ) -> m.PartitionProduceResponse:
        appended = self._data.append(partition, batch)
        self.appended.append(appended)
        return m.PartitionProduceResponse(
            index=partition.name.partition,
            base_offset=appended.base_offset,
            log_append_time_ms=appended.append_time_ms,
            log_start_offset=appended.log_start_offset,
        )

    def _postpone(
        self, partition: Partition, batch: IncomingBatch
    ) -> m.PartitionProduceResponse:
        validate = self._data.validation(partition, batch, in_loop=False)
        self._large.append(
            _LargeBatch(partition, validate, self._responses, len(self._responses))
        )
        return m.PartitionProduceResponse(index=partition.name.partition)

    @property
    def is_delayed(self) -> bool:
        """Whether batches are validated in the worker, and appended then."""
        return bool(self._large)

    def when_complete(self, done: Callable[[], None]) -> None:
        """Validate large batches in the worker and append them, then call `done`."""
        if not self._large:
            done()
            return
        large = self._large.popleft()

        def validated(outcome: Outcome) -> None:
            large.responses[large.position] = self._append_large(large, outcome)
            self.when_complete(done)

        self._data.run_in_worker(large.validate, validated)

    def _append_large(
        self, large: _LargeBatch, outcome: Outcome
    ) -> m.PartitionProduceResponse:
        name = large.partition.name
        try:
            valid = outcome()
            if self._data.partition(*name) is not large.partition:
                raise unknown_partition()  # the topic was deleted meanwhile
            return self._append(large.partition, valid)
        except (ApiError, LogError) as failure:
            return self._refusal(large.partition, failure)

    def _check_transaction(self, partition: Partition, batch: IncomingBatch) -> None:
        """Check that the transaction includes the partition, or add it (KIP-890)."""
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
                transactions.add_partitions(claim, self._joining or {partition.name})
                self._joining = frozenset()
            elif not transactions.includes(claim, partition.name):
                raise ApiError(
                    ErrorCode.TRANSACTION_ABORTABLE
                    if version >= _ABORTABLE_SINCE
                    else ErrorCode.INVALID_TXN_STATE
                )
        except ApiError as error:
            if error.code is ErrorCode.PRODUCER_FENCED:
                # Since Kafka 2.7 Produce has error 47, on which a client can abort.
                raise ApiError(ErrorCode.INVALID_PRODUCER_EPOCH) from None
            raise

    def _refusal(
        self, partition: Partition, failure: ApiError | LogError
    ) -> m.PartitionProduceResponse:
        """Return the response for a batch that was not appended to its partition."""
        error = failure
        if isinstance(error, LogError):
            error = ApiError(ErrorCode.KAFKA_STORAGE_ERROR, str(failure))
        result = self._error(partition.name.partition, error)
        if error.code not in _WITHOUT_LOG_START:
            result.log_start_offset = partition.bounds().log_start_offset
        return result

    def _error(self, index: int, error: ApiError) -> m.PartitionProduceResponse:
        self.has_failed = True
        result = m.PartitionProduceResponse(
            index=index,
            error_code=error.code,
            base_offset=-1,
            error_message=error.message,
        )
        if isinstance(error, InvalidRecords):
            result.record_errors = [
                m.BatchIndexAndErrorMessage(
                    batch_index=at, batch_index_error_message=error.message
                )
                for at in error.indexes
            ]
        is_elsewhere = error.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
        if is_elsewhere and self._call.api_version >= _LEADER_HINTS_SINCE:
            leader = leader_of(self._call, index)
            result.current_leader = m.LeaderIdAndEpoch(
                leader_id=leader.node_id, leader_epoch=LEADER_EPOCH
            )
            self.endpoints[leader.node_id] = m.NodeEndpoint(
                node_id=leader.node_id, host=leader.host, port=leader.port
            )
        return result


def _has_transactional(request: m.ProduceRequest) -> bool:
    """Return whether any batch is transactional by its attributes."""
    return any(
        _is_transactional(part)
        for topic in request.topic_data
        for part in topic.partition_data
    )


def _is_transactional(part: m.PartitionProduceData) -> bool:
    records = part.records or b""
    return (
        len(records) > _ATTRIBUTES_LOW_AT
        and records[_ATTRIBUTES_LOW_AT] & _TRANSACTIONAL_BIT != 0
    )
