"""ConsumerGroupInstallAssignment, key 16385: version 0, flexible (KIP-848).

The member that computed its group's assignment sends it with the group epoch that it
computed it for, or an error (KIP-848, Client Side Mode). Apache Kafka assigned no key
to this API; this key is Coterie's own (E13-40).
"""

from __future__ import annotations

from coterie.wire.messages.consumer_group_heartbeat import TopicPartitions
from coterie.wire.schema import (
    Message,
    Struct,
    array,
    binary,
    int8,
    int16,
    int32,
    string,
)


class InstalledMember(Struct):
    member_id: str = string()
    partitions: list[TopicPartitions] = array(TopicPartitions)
    metadata_version: int = int16()
    metadata_bytes: bytes = binary()


class ConsumerGroupInstallAssignmentRequest(
    Message, key=16385, versions="0", flexible="0+"
):
    group_id: str = string()
    member_id: str = string()
    member_epoch: int = int32()
    group_epoch: int = int32()
    error: int = int8()
    members: list[InstalledMember] = array(InstalledMember)


class ConsumerGroupInstallAssignmentResponse(
    Message, key=16385, versions="0", flexible="0+"
):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
