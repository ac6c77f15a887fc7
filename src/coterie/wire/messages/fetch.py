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

from __future__ import annotations

from coterie.wire.messages.produce import LeaderIdAndEpoch, NodeEndpoint
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
