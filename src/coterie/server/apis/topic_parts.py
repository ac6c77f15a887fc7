"""Requests about a group and some topics: the topics that the caller may not touch are
refused here, the rest goes to the group's shard, and the answer has all in order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from coterie.auth.authorizer import Operation
from coterie.server.apis.groups import ask, may_group, refuse
from coterie.server.apis.support import may_topic
from coterie.server.call import Call
from coterie.wire.api import ApiKey, api_of
from coterie.wire.error_codes import ErrorCode

RefuseTopic = Callable[[Any, ErrorCode], Any]
"""Makes a response's topic out of a request's, with an error for each partition."""


def pass_on_topics(
    call: Call, group_operation: Operation, refuse_topic: RefuseTopic
) -> None:
    """Have the group's shard answer for the topics that the caller may read (E27)."""
    request = call.request
    if not may_group(call, group_operation, request.group_id):
        refuse(call, ErrorCode.GROUP_AUTHORIZATION_FAILED)
        return
    topics: Sequence[Any] = request.topics
    refused = [topic for topic in topics if not may_topic_of(call, topic)]
    if not refused:
        ask(call, request.group_id, request, call.answer)
        return
    no = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    response_type = api_of(ApiKey(request.API_KEY)).response
    if len(refused) == len(topics) and "error_code" not in response_type.FIELDS:
        # Nothing is left to ask the group for, and it has nothing else to say.
        call.answer(response_type(topics=[refuse_topic(each, no) for each in topics]))
        return

    def merge(response: Any) -> None:
        if not getattr(response, "error_code", ErrorCode.NONE):
            answered = iter(response.topics)
            response.topics = [
                refuse_topic(topic, no) if topic in refused else next(answered)
                for topic in topics
            ]
        call.answer(response)

    request.topics = [topic for topic in topics if topic not in refused]
    ask(call, request.group_id, request, merge)


def may_topic_of(call: Call, topic: Any, operation: Operation = Operation.READ) -> bool:
    """Whether the caller may do this to a topic that is named, or given by an id. An id
    that no topic has is let through: nothing is there to be hidden."""
    name = topic.name
    if not name and getattr(topic, "topic_id", None) is not None:
        name = call.node.broker.catalog.topic_name(topic.topic_id)
        if name is None:
            return True
    return may_topic(call, operation, name)
