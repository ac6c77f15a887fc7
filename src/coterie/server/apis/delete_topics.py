"""DeleteTopics, key 20: versions 1-6 (6: by topic id, KIP-516)."""

from __future__ import annotations

from collections import Counter
from typing import Final

from coterie.auth.authorizer import Operation
from coterie.errors import ApiError
from coterie.server.apis.support import may_topic
from coterie.server.call import Call
from coterie.wire.error_codes import ErrorCode
from coterie.wire.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from coterie.wire.schema import ZERO_UUID

_STATES_SINCE: Final = 6
_DISABLED_SINCE: Final = 3


def handle(call: Call) -> None:
    """Take each topic away, or say why not; answer when that is durable."""
    request: DeleteTopicsRequest = call.request
    wanted = request.topics
    if call.api_version < _STATES_SINCE:
        wanted = [DeleteTopicState(name=name) for name in request.topic_names]
    named = Counter((topic.name, topic.topic_id) for topic in wanted)
    results = []
    for name, topic_id in named:
        answer = DeletableTopicResult(name=name, topic_id=topic_id)
        try:
            if named[name, topic_id] > 1:
                raise ApiError(ErrorCode.INVALID_REQUEST, "Duplicate topic.")
            _delete(call, answer)
        except ApiError as error:
            answer.error_code, answer.error_message = error.code, error.message
        results.append(answer)

    def durable(error: ErrorCode) -> None:
        for result in results:
            result.error_code = result.error_code or error
        call.answer(DeleteTopicsResponse(responses=results))

    call.node.broker.data.when_durable(durable)


def _delete(call: Call, answer: DeletableTopicResult) -> None:
    data = call.node.broker.data
    catalog = data.catalog
    if not catalog.settings.delete_topic_enable:
        if call.api_version < _DISABLED_SINCE:
            raise ApiError(ErrorCode.INVALID_REQUEST)
        raise ApiError(ErrorCode.TOPIC_DELETION_DISABLED)
    name, topic_id = answer.name, answer.topic_id
    if name is not None and topic_id != ZERO_UUID:
        raise ApiError(
            ErrorCode.INVALID_REQUEST, "You may not specify both topic name and id."
        )
    if name is None and topic_id == ZERO_UUID:
        raise ApiError(
            ErrorCode.INVALID_REQUEST, "Neither topic name nor id were specified."
        )
    if name is None:
        name = catalog.topic_name(topic_id)
        if name is None:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_ID)
        if not may_topic(call, Operation.DESCRIBE, name):
            raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        answer.name = name
    if not may_topic(call, Operation.DELETE, name):
        raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    entry = catalog.delete_topic(name)
    if catalog.topics[name].is_internal:
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            f"The internal topic {name} holds the state of all groups.",
        )
    answer.topic_id = catalog.topics[name].topic_id
    data.stage([entry])
