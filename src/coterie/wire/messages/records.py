"""Records of partitions: produce, fetch, positions."""

from __future__ import annotations

from coterie.wire.schema import (
    Message,
    Struct,
    array,
    int8,
    int16,
    int32,
    int64,
    records,
    string,
    struct,
    uuid,
)


class PartitionProduceData(Struct):
    index: int = int32()
    records: bytes | None = records(nullable="0+")


class TopicProduceData(Struct):
    name: str = string("0-12")
    topic_id: bytes = uuid("13+")
    partition_data: list[PartitionProduceData] = array(PartitionProduceData)


class ProduceRequest(Message, key=0, versions="3-13", flexible="9+"):
    """Produce, key 0: versions 3-13, flexible from 9.

    v3: the oldest version served: transactional id, record batches v2 (KIP-98).
    v4: may return KAFKA_STORAGE_ERROR (KIP-112).
    v5: log start offset.
    v6: throttled responses are sent at once; the client delays (KIP-219).
    v7: zstd (KIP-110).
    v8: invalid records of a batch, with error messages (KIP-467).
    v9: flexible (KIP-482).
    v10: the current leader and its endpoint (KIP-951).
    v11: may return TRANSACTION_ABORTABLE (KIP-890).
    v12: adds its partitions to the transaction implicitly (KIP-890, part 2).
    v13: topic ids instead of names (KIP-516).
    """

    transactional_id: str | None = string("3+", nullable="3+", default=None)
    acks: int = int16()
    timeout_ms: int = int32()
    topic_data: list[TopicProduceData] = array(TopicProduceData)


class BatchIndexAndErrorMessage(Struct):
    batch_index: int = int32("8+")
    batch_index_error_message: str | None = string("8+", nullable="8+", default=None)


class LeaderIdAndEpoch(Struct):
    leader_id: int = int32("10+", default=-1)
    leader_epoch: int = int32("10+", default=-1)


class PartitionProduceResponse(Struct):
    index: int = int32()
    error_code: int = int16()
    base_offset: int = int64()
    log_append_time_ms: int = int64("2+", default=-1)
    log_start_offset: int = int64("5+", default=-1)
    record_errors: list[BatchIndexAndErrorMessage] = array(
        BatchIndexAndErrorMessage, "8+"
    )
    error_message: str | None = string("8+", nullable="8+", default=None)
    current_leader: LeaderIdAndEpoch = struct(
        LeaderIdAndEpoch, "10+", tag=0, tagged="10+"
    )


class TopicProduceResponse(Struct):
    name: str = string("0-12")
    topic_id: bytes = uuid("13+")
    partition_responses: list[PartitionProduceResponse] = array(
        PartitionProduceResponse
    )


class NodeEndpoint(Struct):
    node_id: int = int32("10+")
    host: str = string("10+")
    port: int = int32("10+")
    rack: str | None = string("10+", nullable="10+", default=None)


class ProduceResponse(Message, key=0, versions="3-13", flexible="9+"):
    responses: list[TopicProduceResponse] = array(TopicProduceResponse)
    throttle_time_ms: int = int32("1+")
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint, "10+", tag=0, tagged="10+")


class ReplicaState(Struct):
    replica_id: int = int32("15+", default=-1)
    replica_epoch: int = int64("15+", default=-1)


class FetchPartition(Struct):
    partition: int = int32()
    current_leader_epoch: int = int32("9+", default=-1)
    fetch_offset: int = int64()
    last_fetched_epoch: int = int32("12+", default=-1)
    log_start_offset: int = int64("5+", default=-1)
    partition_max_bytes: int = int32()
    replica_directory_id: bytes = uuid("17+", tag=0, tagged="17+")
    high_watermark: int = int64("18+", default=9223372036854775807, tag=1, tagged="18+")


class FetchTopic(Struct):
    topic: str = string("0-12")
    topic_id: bytes = uuid("13+")
    partitions: list[FetchPartition] = array(FetchPartition)


class ForgottenTopic(Struct):
    topic: str = string("7-12")
    topic_id: bytes = uuid("13+")
    partitions: list[int] = array("int32", "7+")


class FetchRequest(Message, key=1, versions="4-18", flexible="12+"):
    """Fetch, key 1: versions 4-18, flexible from 12.

    v4: the oldest version of Kafka 4: record batches v2, read committed (KIP-98).
    v5: log start offsets (KIP-107).
    v6: may return KAFKA_STORAGE_ERROR (KIP-112).
    v7: fetch sessions: incremental requests and responses (KIP-227).
    v8: throttled responses are sent at once; the client delays (KIP-219).
    v9: the client's current leader epoch (KIP-320).
    v10: zstd (KIP-110).
    v11: the consumer's rack, and the preferred read replica (KIP-392).
    v12: flexible (KIP-482); last fetched epoch and diverging epoch (KIP-595).
    v13: topic ids instead of names (KIP-516).
    v14: may return OFFSET_MOVED_TO_TIERED_STORAGE (KIP-405).
    v15: a follower's id and epoch in a tagged field (KIP-903).
    v16: the current leader and its endpoint (KIP-951).
    v17: a follower's directory id (KIP-853).
    v18: a follower's high watermark (KIP-1166).
    """

    cluster_id: str | None = string(
        "12+", nullable="12+", default=None, tag=0, tagged="12+"
    )
    replica_id: int = int32("0-14", default=-1)
    replica_state: ReplicaState = struct(ReplicaState, "15+", tag=1, tagged="15+")
    max_wait_ms: int = int32()
    min_bytes: int = int32()
    max_bytes: int = int32("3+", default=2147483647)
    isolation_level: int = int8("4+")
    session_id: int = int32("7+")
    session_epoch: int = int32("7+", default=-1)
    topics: list[FetchTopic] = array(FetchTopic)
    forgotten_topics_data: list[ForgottenTopic] = array(ForgottenTopic, "7+")
    rack_id: str = string("11+")


class DivergingEpoch(Struct):
    epoch: int = int32("12+", default=-1)
    end_offset: int = int64("12+", default=-1)


class SnapshotId(Struct):
    end_offset: int = int64(default=-1)
    epoch: int = int32(default=-1)


class AbortedTransaction(Struct):
    producer_id: int = int64("4+")
    first_offset: int = int64("4+")


class PartitionData(Struct):
    partition_index: int = int32()
    error_code: int = int16()
    high_watermark: int = int64()
    last_stable_offset: int = int64("4+", default=-1)
    log_start_offset: int = int64("5+", default=-1)
    diverging_epoch: DivergingEpoch = struct(DivergingEpoch, "12+", tag=0, tagged="12+")
    current_leader: LeaderIdAndEpoch = struct(
        LeaderIdAndEpoch, "12+", tag=1, tagged="12+"
    )
    snapshot_id: SnapshotId = struct(SnapshotId, "12+", tag=2, tagged="12+")
    aborted_transactions: list[AbortedTransaction] | None = array(
        AbortedTransaction, "4+", nullable="4+"
    )
    preferred_read_replica: int = int32("11+", default=-1)
    records: bytes | None = records(nullable="0+")


class FetchableTopicResponse(Struct):
    topic: str = string("0-12")
    topic_id: bytes = uuid("13+")
    partitions: list[PartitionData] = array(PartitionData)


class FetchResponse(Message, key=1, versions="4-18", flexible="12+"):
    throttle_time_ms: int = int32("1+")
    error_code: int = int16("7+")
    session_id: int = int32("7+")
    responses: list[FetchableTopicResponse] = array(FetchableTopicResponse)
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint, "16+", tag=0, tagged="16+")


class ListOffsetsPartition(Struct):
    partition_index: int = int32()
    current_leader_epoch: int = int32("4+", default=-1)
    timestamp: int = int64()


class ListOffsetsTopic(Struct):
    name: str = string()
    partitions: list[ListOffsetsPartition] = array(ListOffsetsPartition)


class ListOffsetsRequest(Message, key=2, versions="1-11", flexible="6+"):
    """ListOffsets, key 2: versions 1-11, flexible from 6.

    v1: the oldest version of Kafka 4: one offset and its timestamp (KIP-79).
    v2: isolation level (KIP-98); throttle time.
    v3: throttled responses are sent at once; the client delays (KIP-219).
    v4: leader epochs (KIP-320).
    v5: may return OFFSET_NOT_AVAILABLE (KIP-207).
    v6: flexible (KIP-482).
    v7: timestamp -3: the offset of the largest timestamp (KIP-734).
    v8: timestamp -4: the start of the local log (KIP-405).
    v9: timestamp -5: the last tiered offset (KIP-1005).
    v10: timeout for requests to remote storage (KIP-1075).
    v11: timestamp -6: the first offset that is not tiered yet (KIP-1023).
    """

    replica_id: int = int32()
    isolation_level: int = int8("2+")
    topics: list[ListOffsetsTopic] = array(ListOffsetsTopic)
    timeout_ms: int = int32("10+")


class ListOffsetsPartitionResponse(Struct):
    partition_index: int = int32()
    error_code: int = int16()
    timestamp: int = int64("1+", default=-1)
    offset: int = int64("1+", default=-1)
    leader_epoch: int = int32("4+", default=-1)


class ListOffsetsTopicResponse(Struct):
    name: str = string()
    partitions: list[ListOffsetsPartitionResponse] = array(ListOffsetsPartitionResponse)


class ListOffsetsResponse(Message, key=2, versions="1-11", flexible="6+"):
    throttle_time_ms: int = int32("2+")
    topics: list[ListOffsetsTopicResponse] = array(ListOffsetsTopicResponse)


class OffsetForLeaderPartition(Struct):
    partition: int = int32()
    current_leader_epoch: int = int32("2+", default=-1)
    leader_epoch: int = int32()


class OffsetForLeaderTopic(Struct):
    topic: str = string()
    partitions: list[OffsetForLeaderPartition] = array(OffsetForLeaderPartition)


class OffsetForLeaderEpochRequest(Message, key=23, versions="2-4", flexible="4+"):
    """OffsetForLeaderEpoch, key 23: versions 2-4, flexible from 4.

    v2: the oldest version of Kafka 4: the end offset of a leader epoch (KIP-320).
    v3: replica id; -2 is a debugging consumer (KIP-392).
    v4: flexible (KIP-482).
    """

    replica_id: int = int32("3+", default=-2)
    topics: list[OffsetForLeaderTopic] = array(OffsetForLeaderTopic)


class EpochEndOffset(Struct):
    error_code: int = int16()
    partition: int = int32()
    leader_epoch: int = int32("1+", default=-1)
    end_offset: int = int64(default=-1)


class OffsetForLeaderTopicResult(Struct):
    topic: str = string()
    partitions: list[EpochEndOffset] = array(EpochEndOffset)


class OffsetForLeaderEpochResponse(Message, key=23, versions="2-4", flexible="4+"):
    throttle_time_ms: int = int32("2+")
    topics: list[OffsetForLeaderTopicResult] = array(OffsetForLeaderTopicResult)


class DeleteRecordsPartition(Struct):
    partition_index: int = int32()
    offset: int = int64()


class DeleteRecordsTopic(Struct):
    name: str = string()
    partitions: list[DeleteRecordsPartition] = array(DeleteRecordsPartition)


class DeleteRecordsRequest(Message, key=21, versions="0-2", flexible="2+"):
    """DeleteRecords, key 21: versions 0-2, flexible from 2.

    v0: deletes the records before an offset (KIP-107).
    v1: throttled responses are sent at once; the client delays (KIP-219).
    v2: flexible (KIP-482).
    """

    topics: list[DeleteRecordsTopic] = array(DeleteRecordsTopic)
    timeout_ms: int = int32()


class DeleteRecordsPartitionResult(Struct):
    partition_index: int = int32()
    low_watermark: int = int64()
    error_code: int = int16()


class DeleteRecordsTopicResult(Struct):
    name: str = string()
    partitions: list[DeleteRecordsPartitionResult] = array(DeleteRecordsPartitionResult)


class DeleteRecordsResponse(Message, key=21, versions="0-2", flexible="2+"):
    throttle_time_ms: int = int32()
    topics: list[DeleteRecordsTopicResult] = array(DeleteRecordsTopicResult)
