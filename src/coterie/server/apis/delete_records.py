"""DeleteRecords, key 21: versions 0-2 (KIP-107)."""

from __future__ import annotations

from typing import Final

from coterie.auth.authorizer import Operation
from coterie.errors import ApiError, LogError
from coterie.server.apis.support import check_leader, may_topic, unknown_partition
from coterie.server.call import Call
from coterie.types import TopicName
from coterie.wire.error_codes import ErrorCode
from coterie.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

_NO_LOW_WATERMARK: Final = -1


def handle(call: Call) -> None:
    """Move each log start; answer when that is durable."""
    request: DeleteRecordsRequest = call.request
    response = DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(
                name=topic.name,
                partitions=[
                    _delete(call, topic.name, part) for part in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )

    def durable(error: ErrorCode) -> None:
        if error is not ErrorCode.NONE:
            for topic in response.topics:
                for part in topic.partitions:
                    part.error_code = part.error_code or error
                    part.low_watermark = _NO_LOW_WATERMARK
        call.answer(response)

    call.node.broker.data.when_durable(durable)


def _delete(
    call: Call, topic: TopicName, part: DeleteRecordsPartition
) -> DeleteRecordsPartitionResult:
    data = call.node.broker.data
    answer = DeleteRecordsPartitionResult(
        partition_index=part.partition_index, low_watermark=_NO_LOW_WATERMARK
    )
    try:
        if not may_topic(call, Operation.DELETE, topic):
            raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        partition = data.partition(topic, part.partition_index)
        if partition is None:
            raise unknown_partition()
        check_leader(call, part.partition_index)
        answer.low_watermark = data.delete_records(partition, part.offset)
    except ApiError as error:
        answer.error_code = error.code
    except LogError:
        answer.error_code = ErrorCode.KAFKA_STORAGE_ERROR
    return answer
