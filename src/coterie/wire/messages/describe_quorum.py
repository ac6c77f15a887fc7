"""DescribeQuorum, key 55: versions 0-2, flexible from 0.

v0: the leader, voters and observers of the metadata quorum (KIP-595).
v1: times of fetches (KIP-836).
v2: messages, directories of replicas, and listeners of voters (KIP-853).
"""

from __future__ import annotations

from coterie.wire.schema import (
    Message,
    Struct,
    array,
    int16,
    int32,
    int64,
    string,
    uint16,
    uuid,
)


class QuorumPartitionRequest(Struct):
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
