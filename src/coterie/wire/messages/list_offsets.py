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
