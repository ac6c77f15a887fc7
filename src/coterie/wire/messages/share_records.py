"""Share groups (KIP-932): acquisition and acknowledgement of records."""

from __future__ import annotations

from coterie.wire.schema import (
    Message,
    Struct,
    array,
    boolean,
    int8,
    int16,
    int32,
    int64,
    records,
    string,
    struct,
    uuid,
)


class ShareAcknowledgementBatch(Struct):
    first_offset: int = int64()
    last_offset: int = int64()
    acknowledge_types: list[int] = array("int8")


class ShareFetchPartition(Struct):
    partition_index: int = int32()
    acknowledgement_batches: list[ShareAcknowledgementBatch] = array(
        ShareAcknowledgementBatch
    )


class ShareFetchTopic(Struct):
    topic_id: bytes = uuid()
    partitions: list[ShareFetchPartition] = array(ShareFetchPartition)


class ShareForgottenTopic(Struct):
    topic_id: bytes = uuid()
    partitions: list[int] = array("int32")


class ShareFetchRequest(Message, key=78, versions="1-2", flexible="0+"):
    """ShareFetch, key 78: versions 1-2, flexible.

    v0: early access of Kafka 4.0, which no later release serves.
    v1: acquire records of share partitions, and acknowledge earlier ones (KIP-932).
    v2: renewal of acquisition locks (KIP-1222), acquire mode (KIP-1206).
    """

    group_id: str | None = string(nullable="0+", default=None)
    member_id: str | None = string(nullable="0+")
    share_session_epoch: int = int32()
    max_wait_ms: int = int32()
    min_bytes: int = int32()
    max_bytes: int = int32(default=0x7FFFFFFF)
    max_records: int = int32()
    batch_size: int = int32()
    share_acquire_mode: int = int8("2+")
    is_renew_ack: bool = boolean("2+")
    topics: list[ShareFetchTopic] = array(ShareFetchTopic)
    forgotten_topics_data: list[ShareForgottenTopic] = array(ShareForgottenTopic)


class ShareLeader(Struct):
    leader_id: int = int32()
    leader_epoch: int = int32()


class ShareNodeEndpoint(Struct):
    node_id: int = int32()
    host: str = string()
    port: int = int32()
    rack: str | None = string(nullable="0+", default=None)


class AcquiredRecords(Struct):
    first_offset: int = int64()
    last_offset: int = int64()
    delivery_count: int = int16()


class ShareFetchedPartition(Struct):
    partition_index: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    acknowledge_error_code: int = int16()
    acknowledge_error_message: str | None = string(nullable="0+", default=None)
    current_leader: ShareLeader = struct(ShareLeader)
    records: bytes = records(default=b"")
    acquired_records: list[AcquiredRecords] = array(AcquiredRecords)


class ShareFetchedTopic(Struct):
    topic_id: bytes = uuid()
    partitions: list[ShareFetchedPartition] = array(ShareFetchedPartition)


class ShareFetchResponse(Message, key=78, versions="1-2", flexible="0+"):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    acquisition_lock_timeout_ms: int = int32()
    responses: list[ShareFetchedTopic] = array(ShareFetchedTopic)
    node_endpoints: list[ShareNodeEndpoint] = array(ShareNodeEndpoint)


class ShareAcknowledgePartition(Struct):
    partition_index: int = int32()
    acknowledgement_batches: list[ShareAcknowledgementBatch] = array(
        ShareAcknowledgementBatch
    )


class ShareAcknowledgeTopic(Struct):
    topic_id: bytes = uuid()
    partitions: list[ShareAcknowledgePartition] = array(ShareAcknowledgePartition)


class ShareAcknowledgeRequest(Message, key=79, versions="1-2", flexible="0+"):
    """ShareAcknowledge, key 79: versions 1-2, flexible.

    v0: early access of Kafka 4.0, which no later release serves.
    v1: acknowledge records of share partitions (KIP-932).
    v2: renewal of acquisition locks (KIP-1222).
    """

    group_id: str | None = string(nullable="0+", default=None)
    member_id: str | None = string(nullable="0+")
    share_session_epoch: int = int32()
    is_renew_ack: bool = boolean("2+")
    topics: list[ShareAcknowledgeTopic] = array(ShareAcknowledgeTopic)


class ShareAcknowledgedPartition(Struct):
    partition_index: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    current_leader: ShareLeader = struct(ShareLeader)


class ShareAcknowledgedTopic(Struct):
    topic_id: bytes = uuid()
    partitions: list[ShareAcknowledgedPartition] = array(ShareAcknowledgedPartition)


class ShareAcknowledgeResponse(Message, key=79, versions="1-2", flexible="0+"):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    acquisition_lock_timeout_ms: int = int32("2+")
    responses: list[ShareAcknowledgedTopic] = array(ShareAcknowledgedTopic)
    node_endpoints: list[ShareNodeEndpoint] = array(ShareNodeEndpoint)
