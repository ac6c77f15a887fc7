"""OffsetCommit, key 8: versions 2-10 (KIP-211, KIP-345, KIP-848; 10: topic ids)."""

from __future__ import annotations

from coterie.auth.authorizer import Operation
from coterie.server.apis.topic_parts import pass_on_topics
from coterie.server.call import Call
from coterie.wire.error_codes import ErrorCode
from coterie.wire.messages.offset_commit import (
    OffsetCommitRequestTopic,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)


def handle(call: Call) -> None:
    """Commit for the topics that may be read (READ on the group, E27)."""
    pass_on_topics(call, Operation.READ, _refuse_topic)


def _refuse_topic(
    topic: OffsetCommitRequestTopic, code: ErrorCode
) -> OffsetCommitResponseTopic:
    return OffsetCommitResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        partitions=[
            OffsetCommitResponsePartition(
                partition_index=partition.partition_index, error_code=code
            )
            for partition in topic.partitions
        ],
    )
