"""OffsetForLeaderEpoch, key 23: versions 2-4 (KIP-320).

Leaders never change, so the only epoch with an end is the one that is going on.
"""

from __future__ import annotations

from typing import Final

from coterie.auth.authorizer import Operation
from coterie.errors import ApiError
from coterie.server.apis.support import (
    LEADER_EPOCH,
    check_leader,
    may_cluster,
    may_topic,
    unknown_partition,
)
from coterie.server.call import Call
from coterie.types import TopicName
from coterie.wire.error_codes import ErrorCode
from coterie.wire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)

_UNDEFINED: Final = -1


def handle(call: Call) -> None:
    """Say where each epoch ends."""
    request: OffsetForLeaderEpochRequest = call.request
    call.answer(
        OffsetForLeaderEpochResponse(
            topics=[
                OffsetForLeaderTopicResult(
                    topic=topic.topic,
                    partitions=[
                        _answer(call, topic.topic, part) for part in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )
    )


def _answer(
    call: Call, topic: TopicName, part: OffsetForLeaderPartition
) -> EpochEndOffset:
    answer = EpochEndOffset(partition=part.partition)
    try:
        if not (
            may_cluster(call, Operation.CLUSTER_ACTION)
            or may_topic(call, Operation.DESCRIBE, topic)
        ):
            raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        partition = call.node.broker.data.partition(topic, part.partition)
        if partition is None:
            raise unknown_partition()
        check_leader(call, part.partition, part.current_leader_epoch)
    except ApiError as error:
        answer.error_code = error.code
        return answer
    if part.leader_epoch == LEADER_EPOCH:
        answer.leader_epoch = LEADER_EPOCH
        answer.end_offset = partition.bounds().flushed_offset
    else:
        answer.leader_epoch = answer.end_offset = _UNDEFINED
    return answer
