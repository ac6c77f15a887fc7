"""TxnOffsetCommit, key 28: versions 0-6, flexible from 3.

v0: offsets that become visible when the transaction commits (KIP-98).
v1: throttled responses are sent at once; the client delays (KIP-219).
v2: leader epochs (KIP-320).
v3: flexible (KIP-482); member, generation and instance id (KIP-447).
v4: may return TRANSACTION_ABORTABLE (KIP-890).
v5: adds the group to the transaction implicitly (KIP-890, part 2).
v6: topic ids instead of names (KIP-1319); not served.
"""

from __future__ import annotations

from coterie.wire.messages.offset_commit import OffsetCommitResponsePartition
from coterie.wire.schema import (
    Message,
    Struct,
    array,
    int16,
    int32,
    int64,
    string,
    uuid,
)


class TxnOffsetCommitRequestPartition(Struct):
    partition_index: int = int32()
    committed_offset: int = int64()
    committed_leader_epoch: int = int32("2+", default=-1)
    committed_metadata: str | None = string(nullable="0+")


class TxnOffsetCommitRequestTopic(Struct):
    name: str = string("0-5")
    topic_id: bytes = uuid("6+")
    partitions: list[TxnOffsetCommitRequestPartition] = array(
        TxnOffsetCommitRequestPartition
    )


class TxnOffsetCommitRequest(Message, key=28, versions="0-6", flexible="3+"):
    transactional_id: str = string()
    group_id: str = string()
    producer_id: int = int64()
    producer_epoch: int = int16()
    generation_id_or_member_epoch: int = int32("3+", default=-1)
    member_id: str = string("3+")
    group_instance_id: str | None = string("3+", nullable="3+", default=None)
    topics: list[TxnOffsetCommitRequestTopic] = array(TxnOffsetCommitRequestTopic)


class TxnOffsetCommitResponseTopic(Struct):
    name: str = string("0-5")
    topic_id: bytes = uuid("6+")
    partitions: list[OffsetCommitResponsePartition] = array(
        OffsetCommitResponsePartition
    )


class TxnOffsetCommitResponse(Message, key=28, versions="0-6", flexible="3+"):
    throttle_time_ms: int = int32()
    topics: list[TxnOffsetCommitResponseTopic] = array(TxnOffsetCommitResponseTopic)
