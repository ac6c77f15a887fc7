"""The embedded consumer protocol: subscriptions and assignments of classic members.

v1: owned partitions (KIP-429).
v2: generation of the owned partitions (KIP-792).
v3: rack (KIP-881).
"""

from __future__ import annotations

from coterie.wire.schema import Message, Struct, array, binary, int32, string


class ConsumerProtocolTopicPartitions(Struct):
    topic: str = string()
    partitions: list[int] = array("int32")


class ConsumerProtocolSubscription(Message, versions="0-3"):
    topics: list[str] = array("string")
    user_data: bytes | None = binary(nullable="0+", default=None)
    owned_partitions: list[ConsumerProtocolTopicPartitions] = array(
        ConsumerProtocolTopicPartitions, "1+"
    )
    generation_id: int = int32("2+", default=-1)
    rack_id: str | None = string("3+", nullable="3+", default=None)


class ConsumerProtocolAssignment(Message, versions="0-3"):
    assigned_partitions: list[ConsumerProtocolTopicPartitions] = array(
        ConsumerProtocolTopicPartitions
    )
    user_data: bytes | None = binary(nullable="0+", default=None)
