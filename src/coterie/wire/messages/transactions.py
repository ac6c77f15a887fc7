"""Transactions and producer ids."""

from __future__ import annotations

from coterie.wire.messages.offsets import OffsetCommitResponsePartition
from coterie.wire.schema import (
    Message,
    Struct,
    array,
    boolean,
    int8,
    int16,
    int32,
    int64,
    string,
    uuid,
)


class InitProducerIdRequest(Message, key=22, versions="0-6", flexible="2+"):
    """InitProducerId, key 22: versions 0-6, flexible from 2.

    v0: a producer id, for idempotence or for a transactional id (KIP-98).
    v1: throttled responses are sent at once; the client delays (KIP-219).
    v2: flexible (KIP-482).
    v3: a producer may send its current id and epoch to keep the id (KIP-360).
    v4: PRODUCER_FENCED instead of INVALID_PRODUCER_EPOCH (KIP-588).
    v5: may return TRANSACTION_ABORTABLE (KIP-890).
    v6: two-phase commit (KIP-939); not served.
    """

    transactional_id: str | None = string(nullable="0+")
    transaction_timeout_ms: int = int32()
    producer_id: int = int64("3+", default=-1)
    producer_epoch: int = int16("3+", default=-1)
    enable2_pc: bool = boolean("6+")
    keep_prepared_txn: bool = boolean("6+")


class InitProducerIdResponse(Message, key=22, versions="0-6", flexible="2+"):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    producer_id: int = int64(default=-1)
    producer_epoch: int = int16()
    ongoing_txn_producer_id: int = int64("6+", default=-1)
    ongoing_txn_producer_epoch: int = int16("6+", default=-1)


class AddPartitionsToTxnTopic(Struct):
    name: str = string()
    partitions: list[int] = array("int32")


class AddPartitionsToTxnTransaction(Struct):
    transactional_id: str = string("4+")
    producer_id: int = int64("4+")
    producer_epoch: int = int16("4+")
    verify_only: bool = boolean("4+")
    topics: list[AddPartitionsToTxnTopic] = array(AddPartitionsToTxnTopic, "4+")


class AddPartitionsToTxnRequest(Message, key=24, versions="0-5", flexible="3+"):
    """AddPartitionsToTxn, key 24: versions 0-5, flexible from 3.

    v1: throttled responses are sent at once; the client delays (KIP-219).
    v2: PRODUCER_FENCED instead of INVALID_PRODUCER_EPOCH (KIP-588).
    v3: flexible (KIP-482); the last version that clients send.
    v4: several transactions, and verification without adding; sent between brokers.
    v5: may return TRANSACTION_ABORTABLE (KIP-890).
    """

    transactions: list[AddPartitionsToTxnTransaction] = array(
        AddPartitionsToTxnTransaction, "4+"
    )
    v3_and_below_transactional_id: str = string("0-3")
    v3_and_below_producer_id: int = int64("0-3")
    v3_and_below_producer_epoch: int = int16("0-3")
    v3_and_below_topics: list[AddPartitionsToTxnTopic] = array(
        AddPartitionsToTxnTopic, "0-3"
    )


class AddPartitionsToTxnPartitionResult(Struct):
    partition_index: int = int32()
    partition_error_code: int = int16()


class AddPartitionsToTxnTopicResult(Struct):
    name: str = string()
    results_by_partition: list[AddPartitionsToTxnPartitionResult] = array(
        AddPartitionsToTxnPartitionResult
    )


class AddPartitionsToTxnResult(Struct):
    transactional_id: str = string("4+")
    topic_results: list[AddPartitionsToTxnTopicResult] = array(
        AddPartitionsToTxnTopicResult, "4+"
    )


class AddPartitionsToTxnResponse(Message, key=24, versions="0-5", flexible="3+"):
    throttle_time_ms: int = int32()
    error_code: int = int16("4+")
    results_by_transaction: list[AddPartitionsToTxnResult] = array(
        AddPartitionsToTxnResult, "4+"
    )
    results_by_topic_v3_and_below: list[AddPartitionsToTxnTopicResult] = array(
        AddPartitionsToTxnTopicResult, "0-3"
    )


class AddOffsetsToTxnRequest(Message, key=25, versions="0-4", flexible="3+"):
    """AddOffsetsToTxn, key 25: versions 0-4, flexible from 3.

    v1: throttled responses are sent at once; the client delays (KIP-219).
    v2: PRODUCER_FENCED instead of INVALID_PRODUCER_EPOCH (KIP-588).
    v3: flexible (KIP-482).
    v4: may return TRANSACTION_ABORTABLE (KIP-890).
    """

    transactional_id: str = string()
    producer_id: int = int64()
    producer_epoch: int = int16()
    group_id: str = string()


class AddOffsetsToTxnResponse(Message, key=25, versions="0-4", flexible="3+"):
    throttle_time_ms: int = int32()
    error_code: int = int16()


class TxnOffsetCommitRequestPartition(Struct):
    partition_index: int = int32()
    committed_offset: int = int64()
    committed_leader_epoch: int = int32("2+", default=-1)
    committed_metadata: str | None = string(nullable="0+")


class TxnOffsetCommitRequestTopic(Struct):
    name: str = string("0-5")
    topic_id: bytes = uuid("6+")
    partitions: list[TxnOffsetCommitRequestPartition] = array(
        TxnOffsetCommitRequestPartition
    )


class TxnOffsetCommitRequest(Message, key=28, versions="0-6", flexible="3+"):
    """TxnOffsetCommit, key 28: versions 0-6, flexible from 3.

    v0: offsets that become visible when the transaction commits (KIP-98).
    v1: throttled responses are sent at once; the client delays (KIP-219).
    v2: leader epochs (KIP-320).
    v3: flexible (KIP-482); member, generation and instance id (KIP-447).
    v4: may return TRANSACTION_ABORTABLE (KIP-890).
    v5: adds the group to the transaction implicitly (KIP-890, part 2).
    v6: topic ids instead of names (KIP-1319).
    """

    transactional_id: str = string()
    group_id: str = string()
    producer_id: int = int64()
    producer_epoch: int = int16()
    generation_id_or_member_epoch: int = int32("3+", default=-1)
    member_id: str = string("3+")
    group_instance_id: str | None = string("3+", nullable="3+", default=None)
    topics: list[TxnOffsetCommitRequestTopic] = array(TxnOffsetCommitRequestTopic)


class TxnOffsetCommitResponseTopic(Struct):
    name: str = string("0-5")
    topic_id: bytes = uuid("6+")
    partitions: list[OffsetCommitResponsePartition] = array(
        OffsetCommitResponsePartition
    )


class TxnOffsetCommitResponse(Message, key=28, versions="0-6", flexible="3+"):
    throttle_time_ms: int = int32()
    topics: list[TxnOffsetCommitResponseTopic] = array(TxnOffsetCommitResponseTopic)


class EndTxnRequest(Message, key=26, versions="0-5", flexible="3+"):
    """EndTxn, key 26: versions 0-5, flexible from 3.

    v1: throttled responses are sent at once; the client delays (KIP-219).
    v2: PRODUCER_FENCED instead of INVALID_PRODUCER_EPOCH (KIP-588).
    v3: flexible (KIP-482).
    v4: may return TRANSACTION_ABORTABLE (KIP-890).
    v5: each transaction bumps the producer epoch, which is returned (KIP-890, part 2).
    """

    transactional_id: str = string()
    producer_id: int = int64()
    producer_epoch: int = int16()
    committed: bool = boolean()


class EndTxnResponse(Message, key=26, versions="0-5", flexible="3+"):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    producer_id: int = int64("5+", default=-1)
    producer_epoch: int = int16("5+", default=-1)


class WritableTxnMarkerTopic(Struct):
    name: str = string()
    partition_indexes: list[int] = array("int32")


class WritableTxnMarker(Struct):
    producer_id: int = int64()
    producer_epoch: int = int16()
    transaction_result: bool = boolean()
    topics: list[WritableTxnMarkerTopic] = array(WritableTxnMarkerTopic)
    coordinator_epoch: int = int32()
    transaction_version: int = int8("2+", default=0)


class WriteTxnMarkersRequest(Message, key=27, versions="1-2", flexible="1+"):
    """WriteTxnMarkers, key 27: versions 1-2, flexible.

    v1: markers that end transactions (KIP-98), flexible.
    v2: the transaction version of a marker (KIP-1228).

    The admin client sends it to abort hanging transactions (KIP-664). Version 0 is not
    declared: brokers that serve only it (before 2.8) cannot describe producers.
    """

    markers: list[WritableTxnMarker] = array(WritableTxnMarker)


class WritableTxnMarkerPartitionResult(Struct):
    partition_index: int = int32()
    error_code: int = int16()


class WritableTxnMarkerTopicResult(Struct):
    name: str = string()
    partitions: list[WritableTxnMarkerPartitionResult] = array(
        WritableTxnMarkerPartitionResult
    )


class WritableTxnMarkerResult(Struct):
    producer_id: int = int64()
    topics: list[WritableTxnMarkerTopicResult] = array(WritableTxnMarkerTopicResult)


class WriteTxnMarkersResponse(Message, key=27, versions="1-2", flexible="1+"):
    markers: list[WritableTxnMarkerResult] = array(WritableTxnMarkerResult)


class ProducersTopicRequest(Struct):
    """DescribeProducers, key 61: versions 0, flexible from 0.

    v0: the producers of partitions, to find hanging transactions (KIP-664).
    """

    name: str = string()
    partition_indexes: list[int] = array("int32")


class DescribeProducersRequest(Message, key=61, versions="0", flexible="0+"):
    topics: list[ProducersTopicRequest] = array(ProducersTopicRequest)


class DescribedProducer(Struct):
    producer_id: int = int64()
    producer_epoch: int = int32()
    last_sequence: int = int32(default=-1)
    last_timestamp: int = int64(default=-1)
    coordinator_epoch: int = int32()
    current_txn_start_offset: int = int64(default=-1)


class ProducersPartition(Struct):
    partition_index: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    active_producers: list[DescribedProducer] = array(DescribedProducer)


class ProducersTopic(Struct):
    name: str = string()
    partitions: list[ProducersPartition] = array(ProducersPartition)


class DescribeProducersResponse(Message, key=61, versions="0", flexible="0+"):
    throttle_time_ms: int = int32()
    topics: list[ProducersTopic] = array(ProducersTopic)


class DescribeTransactionsRequest(Message, key=65, versions="0", flexible="0+"):
    """DescribeTransactions, key 65: versions 0, flexible from 0.

    v0: transactions by transactional id (KIP-664).
    """

    transactional_ids: list[str] = array("string")


class TransactionTopic(Struct):
    topic: str = string()
    partitions: list[int] = array("int32")


class DescribedTransaction(Struct):
    error_code: int = int16()
    transactional_id: str = string()
    transaction_state: str = string()
    transaction_timeout_ms: int = int32()
    transaction_start_time_ms: int = int64()
    producer_id: int = int64()
    producer_epoch: int = int16()
    topics: list[TransactionTopic] = array(TransactionTopic)


class DescribeTransactionsResponse(Message, key=65, versions="0", flexible="0+"):
    throttle_time_ms: int = int32()
    transaction_states: list[DescribedTransaction] = array(DescribedTransaction)


class ListTransactionsRequest(Message, key=66, versions="0-2", flexible="0+"):
    """ListTransactions, key 66: versions 0-2, flexible from 0.

    v0: transactions, filtered by state and producer id (KIP-664).
    v1: filtered by duration (KIP-994).
    v2: filtered by a regular expression of transactional ids (KIP-1152).
    """

    state_filters: list[str] = array("string")
    producer_id_filters: list[int] = array("int64")
    duration_filter: int = int64("1+", default=-1)
    transactional_id_pattern: str | None = string("2+", nullable="2+", default=None)


class ListedTransaction(Struct):
    transactional_id: str = string()
    producer_id: int = int64()
    transaction_state: str = string()


class ListTransactionsResponse(Message, key=66, versions="0-2", flexible="0+"):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    unknown_state_filters: list[str] = array("string")
    transaction_states: list[ListedTransaction] = array(ListedTransaction)
