"""ListOffsets, key 2: versions 1-11 (2: isolation level; 7: max timestamp, KIP-734)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final

from coterie.auth.authorizer import Operation
from coterie.errors import ApiError, LogError
from coterie.runtime.offset_lookup import NOTHING, SpecialTime, find_offset
from coterie.server.apis.support import (
    LEADER_EPOCH,
    check_leader,
    may_topic,
    unknown_partition,
)
from coterie.server.call import Call
from coterie.types import TopicName
from coterie.wire.error_codes import ErrorCode
from coterie.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)

READ_COMMITTED: Final = 1
_SINCE: Final[Mapping[int, int]] = {
    SpecialTime.MAX_TIMESTAMP: 7,
    SpecialTime.EARLIEST_LOCAL: 8,
    SpecialTime.LATEST_TIERED: 9,
    SpecialTime.EARLIEST_PENDING_UPLOAD: 11,
}


def handle(call: Call) -> None:
    """Look every partition up."""
    request: ListOffsetsRequest = call.request
    named = Counter(
        (topic.name, part.partition_index)
        for topic in request.topics
        for part in topic.partitions
    )
    response = ListOffsetsResponse()
    for topic in request.topics:
        answer = ListOffsetsTopicResponse(name=topic.name)
        for part in topic.partitions:
            is_twice = named[topic.name, part.partition_index] > 1
            found = _answer(call, topic.name, part, is_twice=is_twice)
            answer.partitions.append(found)
        response.topics.append(answer)
    call.answer(response)


def _answer(
    call: Call, topic: TopicName, part: ListOffsetsPartition, *, is_twice: bool
) -> ListOffsetsPartitionResponse:
    answer = ListOffsetsPartitionResponse(partition_index=part.partition_index)
    try:
        if not may_topic(call, Operation.DESCRIBE, topic):
            raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        if is_twice:
            raise ApiError(ErrorCode.INVALID_REQUEST)
        _look_up(call, topic, part, answer)
    except ApiError as error:
        answer.error_code = error.code
    except LogError:
        answer.error_code = ErrorCode.KAFKA_STORAGE_ERROR
    return answer


def _look_up(
    call: Call,
    topic: TopicName,
    part: ListOffsetsPartition,
    answer: ListOffsetsPartitionResponse,
) -> None:
    data = call.node.broker.data
    partition = data.partition(topic, part.partition_index)
    if partition is None:
        raise unknown_partition()
    check_leader(call, part.partition_index, part.current_leader_epoch)
    if call.api_version < _SINCE.get(part.timestamp, 0):
        raise ApiError(ErrorCode.UNSUPPORTED_VERSION)
    committed = call.request.isolation_level == READ_COMMITTED
    found = find_offset(data.log, partition, part.timestamp, committed=committed)
    answer.offset, answer.timestamp = found
    if found != NOTHING:
        answer.leader_epoch = LEADER_EPOCH
