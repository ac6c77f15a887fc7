"""DescribeProducers, key 61: versions 0, flexible from 0.

v0: the producers of partitions, to find hanging transactions (KIP-664).
"""

from __future__ import annotations

from coterie.wire.schema import Message, Struct, array, int16, int32, int64, string


class ProducersTopicRequest(Struct):
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
