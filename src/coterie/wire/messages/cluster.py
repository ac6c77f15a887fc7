"""The cluster: versions, brokers, metadata of topics, the controllers, features."""

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
    string,
    struct,
    uint16,
    uuid,
)


class ApiVersionsRequest(Message, key=18, versions="0-5", flexible="3+"):
    """ApiVersions, key 18: versions 0-5, flexible from 3.

    v1: throttle time.
    v2: throttled responses are sent at once; the client delays (KIP-219).
    v3: flexible (KIP-482); the client's name and version (KIP-511), the broker's features.
    v4: the minimum version of a feature may be 0 (KAFKA-17011).
    v5: cluster id and node id that the client expects (KIP-1242).
    """

    client_software_name: str = string("3+")
    client_software_version: str = string("3+")
    cluster_id: str | None = string("5+", nullable="5+", default=None)
    node_id: int = int32("5+", default=-1)


class ApiVersion(Struct):
    api_key: int = int16()
    min_version: int = int16()
    max_version: int = int16()


class SupportedFeatureKey(Struct):
    name: str = string("3+")
    min_version: int = int16("3+")
    max_version: int = int16("3+")


class FinalizedFeatureKey(Struct):
    name: str = string("3+")
    max_version_level: int = int16("3+")
    min_version_level: int = int16("3+")


class ApiVersionsResponse(Message, key=18, versions="0-5", flexible="3+"):
    error_code: int = int16()
    api_keys: list[ApiVersion] = array(ApiVersion)
    throttle_time_ms: int = int32("1+")
    supported_features: list[SupportedFeatureKey] = array(
        SupportedFeatureKey, "3+", tag=0, tagged="3+"
    )
    finalized_features_epoch: int = int64("3+", default=-1, tag=1, tagged="3+")
    finalized_features: list[FinalizedFeatureKey] = array(
        FinalizedFeatureKey, "3+", tag=2, tagged="3+"
    )
    zk_migration_ready: bool = boolean("3+", tag=3, tagged="3+")


class MetadataRequestTopic(Struct):
    topic_id: bytes = uuid("10+")
    name: str | None = string(nullable="10+")


class MetadataRequest(Message, key=3, versions="0-13", flexible="9+"):
    """Metadata, key 3: versions 0-13, flexible from 9.

    v0: an empty list of topics means all topics.
    v1: null means all topics, an empty list none; racks, controller, internal topics.
    v2: cluster id (KIP-78).
    v3: throttle time.
    v4: the client allows or disallows automatic topic creation.
    v5: offline replicas (KIP-112).
    v6: throttled responses are sent at once; the client delays (KIP-219).
    v7: leader epochs (KIP-320).
    v8: authorized operations, if requested (KIP-430).
    v9: flexible (KIP-482).
    v10: topic ids in responses (KIP-516).
    v11: the cluster's authorized operations move to DescribeCluster (KIP-700).
    v12: topics may be requested by id (KIP-516).
    v13: a top-level error code (KIP-1102).
    """

    topics: list[MetadataRequestTopic] | None = array(
        MetadataRequestTopic, nullable="1+"
    )
    allow_auto_topic_creation: bool = boolean("4+", default=True)
    include_cluster_authorized_operations: bool = boolean("8-10")
    include_topic_authorized_operations: bool = boolean("8+")


class MetadataResponseBroker(Struct):
    node_id: int = int32()
    host: str = string()
    port: int = int32()
    rack: str | None = string("1+", nullable="1+", default=None)


class MetadataResponsePartition(Struct):
    error_code: int = int16()
    partition_index: int = int32()
    leader_id: int = int32()
    leader_epoch: int = int32("7+", default=-1)
    replica_nodes: list[int] = array("int32")
    isr_nodes: list[int] = array("int32")
    offline_replicas: list[int] = array("int32", "5+")


class MetadataResponseTopic(Struct):
    error_code: int = int16()
    name: str | None = string(nullable="12+")
    topic_id: bytes = uuid("10+")
    is_internal: bool = boolean("1+")
    partitions: list[MetadataResponsePartition] = array(MetadataResponsePartition)
    topic_authorized_operations: int = int32("8+", default=-2147483648)


class MetadataResponse(Message, key=3, versions="0-13", flexible="9+"):
    throttle_time_ms: int = int32("3+")
    brokers: list[MetadataResponseBroker] = array(MetadataResponseBroker)
    cluster_id: str | None = string("2+", nullable="2+", default=None)
    controller_id: int = int32("1+", default=-1)
    topics: list[MetadataResponseTopic] = array(MetadataResponseTopic)
    cluster_authorized_operations: int = int32("8-10", default=-2147483648)
    error_code: int = int16("13+")


class DescribeClusterRequest(Message, key=60, versions="0-2", flexible="0+"):
    """DescribeCluster, key 60: versions 0-2, flexible from 0.

    v0: brokers, controller and cluster id, without topics (KIP-700).
    v1: endpoint type: brokers or controllers (KIP-919).
    v2: fenced brokers, if requested (KIP-1073).
    """

    include_cluster_authorized_operations: bool = boolean()
    endpoint_type: int = int8("1+", default=1)
    include_fenced_brokers: bool = boolean("2+")


class DescribeClusterBroker(Struct):
    broker_id: int = int32()
    host: str = string()
    port: int = int32()
    rack: str | None = string(nullable="0+", default=None)
    is_fenced: bool = boolean("2+")


class DescribeClusterResponse(Message, key=60, versions="0-2", flexible="0+"):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    endpoint_type: int = int8("1+", default=1)
    cluster_id: str = string()
    controller_id: int = int32(default=-1)
    brokers: list[DescribeClusterBroker] = array(DescribeClusterBroker)
    cluster_authorized_operations: int = int32(default=-2147483648)


class TopicRequest(Struct):
    """DescribeTopicPartitions, key 75: versions 0, flexible from 0.

    v0: topics in pages, with eligible leader replicas (KIP-966).
    """

    name: str = string()


class Cursor(Struct):
    topic_name: str = string()
    partition_index: int = int32()


class DescribeTopicPartitionsRequest(Message, key=75, versions="0", flexible="0+"):
    topics: list[TopicRequest] = array(TopicRequest)
    response_partition_limit: int = int32(default=2000)
    cursor: Cursor | None = struct(Cursor, nullable="0+", default=None)


class DescribeTopicPartitionsResponsePartition(Struct):
    error_code: int = int16()
    partition_index: int = int32()
    leader_id: int = int32()
    leader_epoch: int = int32(default=-1)
    replica_nodes: list[int] = array("int32")
    isr_nodes: list[int] = array("int32")
    eligible_leader_replicas: list[int] | None = array(
        "int32", nullable="0+", default=None
    )
    last_known_elr: list[int] | None = array("int32", nullable="0+", default=None)
    offline_replicas: list[int] = array("int32")


class DescribeTopicPartitionsResponseTopic(Struct):
    error_code: int = int16()
    name: str | None = string(nullable="0+")
    topic_id: bytes = uuid()
    is_internal: bool = boolean()
    partitions: list[DescribeTopicPartitionsResponsePartition] = array(
        DescribeTopicPartitionsResponsePartition
    )
    topic_authorized_operations: int = int32(default=-2147483648)


class DescribeTopicPartitionsResponse(Message, key=75, versions="0", flexible="0+"):
    throttle_time_ms: int = int32()
    topics: list[DescribeTopicPartitionsResponseTopic] = array(
        DescribeTopicPartitionsResponseTopic
    )
    next_cursor: Cursor | None = struct(Cursor, nullable="0+", default=None)


class QuorumPartitionRequest(Struct):
    """DescribeQuorum, key 55: versions 0-2, flexible from 0.

    v0: the leader, voters and observers of the metadata quorum (KIP-595).
    v1: times of fetches (KIP-836).
    v2: messages, directories of replicas, and listeners of voters (KIP-853).
    """

    partition_index: int = int32()


class QuorumTopicRequest(Struct):
    topic_name: str = string()
    partitions: list[QuorumPartitionRequest] = array(QuorumPartitionRequest)


class DescribeQuorumRequest(Message, key=55, versions="0-2", flexible="0+"):
    topics: list[QuorumTopicRequest] = array(QuorumTopicRequest)


class QuorumReplica(Struct):
    replica_id: int = int32()
    replica_directory_id: bytes = uuid("2+")
    log_end_offset: int = int64()
    last_fetch_timestamp: int = int64("1+", default=-1)
    last_caught_up_timestamp: int = int64("1+", default=-1)


class QuorumPartition(Struct):
    partition_index: int = int32()
    error_code: int = int16()
    error_message: str | None = string("2+", nullable="2+", default=None)
    leader_id: int = int32()
    leader_epoch: int = int32()
    high_watermark: int = int64()
    current_voters: list[QuorumReplica] = array(QuorumReplica)
    observers: list[QuorumReplica] = array(QuorumReplica)


class QuorumTopic(Struct):
    topic_name: str = string()
    partitions: list[QuorumPartition] = array(QuorumPartition)


class QuorumListener(Struct):
    name: str = string()
    host: str = string()
    port: int = uint16()


class QuorumNode(Struct):
    node_id: int = int32()
    listeners: list[QuorumListener] = array(QuorumListener)


class DescribeQuorumResponse(Message, key=55, versions="0-2", flexible="0+"):
    error_code: int = int16()
    error_message: str | None = string("2+", nullable="2+", default=None)
    topics: list[QuorumTopic] = array(QuorumTopic)
    nodes: list[QuorumNode] = array(QuorumNode, "2+")
