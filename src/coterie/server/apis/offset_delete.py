"""OffsetDelete, key 47: version 0 (KIP-496)."""

from __future__ import annotations

from coterie.auth.authorizer import Operation
from coterie.server.apis.topic_parts import pass_on_topics
from coterie.server.call import Call
from coterie.wire.error_codes import ErrorCode
from coterie.wire.messages.offset_delete import (
    OffsetDeleteRequestTopic,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)


def handle(call: Call) -> None:
    """Delete for the topics that may be read (DELETE on the group, E27)."""
    pass_on_topics(call, Operation.DELETE, _refuse_topic)


def _refuse_topic(
    topic: OffsetDeleteRequestTopic, code: ErrorCode
) -> OffsetDeleteResponseTopic:
    return OffsetDeleteResponseTopic(
        name=topic.name,
        partitions=[
            OffsetDeleteResponsePartition(
                partition_index=partition.partition_index, error_code=code
            )
            for partition in topic.partitions
        ],
    )
