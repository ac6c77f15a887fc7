"""ConsumerGroupInstallAssignment, key 16385: version 0. Not Kafka's, but KIP-848's.

The member that computed its group's assignment hands it in, with the group epoch that
it computed for, or says why it could not (KIP-848, Client Side Mode). Kafka never gave
the API a number, so this key is one of ours (E13-40).
"""

from __future__ import annotations

from coterie.wire.schema import (
    Message,
    Struct,
    array,
    binary,
    int8,
    int16,
    int32,
    string,
    uuid,
)


class InstalledPartitions(Struct):
    topic_id: bytes = uuid()
    partitions: list[int] = array("int32")


class InstalledMember(Struct):
    member_id: str = string()
    partitions: list[InstalledPartitions] = array(InstalledPartitions)
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
