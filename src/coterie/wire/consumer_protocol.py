"""The embedded consumer protocol: what classic members say to each other."""

from __future__ import annotations

from coterie.wire.schema import Message, Struct, array, binary, int32, string


class TopicPartitions(Struct):
    topic: str = string()
    partitions: list[int] = array("int32")


class ConsumerProtocolSubscription(Message, versions="0-3"):
    topics: list[str] = array("string")
    user_data: bytes | None = binary(nullable="0+", default=None)
    owned_partitions: list[TopicPartitions] = array(TopicPartitions, "1+")
    generation_id: int = int32("2+", default=-1)
    rack_id: str | None = string("3+", nullable="3+", default=None)


class ConsumerProtocolAssignment(Message, versions="0-3"):
    assigned_partitions: list[TopicPartitions] = array(TopicPartitions)
    user_data: bytes | None = binary(nullable="0+", default=None)
