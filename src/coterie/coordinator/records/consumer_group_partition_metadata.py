"""Record type 4: the topics a consumer group saw. Only tombstones since Kafka 4.1."""

from __future__ import annotations

from coterie.wire.schema import Message, Struct, array, int32, string, uuid


class ConsumerGroupPartitionMetadataKey(Message, versions="0"):
    group_id: str = string()


class PartitionMetadata(Struct):
    partition: int = int32()
    racks: list[str] = array("string")


class TopicMetadata(Struct):
    topic_id: bytes = uuid()
    topic_name: str = string()
    num_partitions: int = int32()
    partition_metadata: list[PartitionMetadata] = array(PartitionMetadata)


class ConsumerGroupPartitionMetadataValue(Message, versions="0", flexible="0+"):
    topics: list[TopicMetadata] = array(TopicMetadata)
