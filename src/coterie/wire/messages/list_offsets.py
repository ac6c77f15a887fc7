"""ListOffsets, key 2: versions 1-11, flexible from 6.

v1: the oldest that Kafka 4 speaks: one offset and its timestamp (KIP-79).
v2: isolation level (KIP-98); throttle time.
v3: a throttled answer leaves at once and the client keeps quiet (KIP-219).
v4: leader epochs (KIP-320).
v5: may answer OFFSET_NOT_AVAILABLE (KIP-207).
v6: flexible (KIP-482).
v7: the offset of the largest timestamp, -3 (KIP-734).
v8: the start of the local log, -4 (KIP-405).
v9: the last tiered offset, -5 (KIP-1005).
v10: a time-out for answers from remote storage (KIP-1075).
v11: the first offset not yet uploaded, -6 (KIP-1023).
"""

from __future__ import annotations

from coterie.wire.schema import (
    Message,
    Struct,
    array,
    int8,
    int16,
    int32,
    int64,
    string,
)


class ListOffsetsPartition(Struct):
    partition_index: int = int32()
    current_leader_epoch: int = int32("4+", default=-1)
    timestamp: int = int64()


class ListOffsetsTopic(Struct):
    name: str = string()
    partitions: list[ListOffsetsPartition] = array(ListOffsetsPartition)


class ListOffsetsRequest(Message, key=2, versions="1-11", flexible="6+"):
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
