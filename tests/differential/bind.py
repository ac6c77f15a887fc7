"""Keep what a response tells an actor: its member id, epoch, assignment, producer."""

from __future__ import annotations

from typing import Any, Final

from coterie.wire import messages as m
from coterie.wire.api import ApiKey
from coterie.wire.error_codes import ErrorCode
from tests.differential.steps import GROUP, Bindings

_MEMBER_ID: Final = {ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED}


def bind(
    bindings: Bindings, actor: str, request: Any, response: Any, play: str
) -> None:
    """Keep the values of a response to the actor's request."""
    match ApiKey(request.API_KEY):
        case ApiKey.JOIN_GROUP:
            _bind_join(bindings, actor, response)
        case ApiKey.CONSUMER_GROUP_HEARTBEAT:
            if response.error_code == ErrorCode.NONE:
                _bind_heartbeat(bindings, actor, response)
        case ApiKey.SHARE_GROUP_HEARTBEAT:
            if response.error_code == ErrorCode.NONE:
                bindings.bind("epoch", actor, max(response.member_epoch, 0))
        case ApiKey.INIT_PRODUCER_ID | ApiKey.END_TXN:
            if response.error_code == ErrorCode.NONE and response.producer_id >= 0:
                bindings.bind("producer", actor, response.producer_id)
                bindings.bind("producer_epoch", actor, response.producer_epoch)
        case ApiKey.CREATE_TOPICS:
            _bind_topics(bindings, response, play)


def _bind_join(bindings: Bindings, actor: str, response: Any) -> None:
    if response.error_code in _MEMBER_ID and response.member_id:
        bindings.bind("member", actor, response.member_id)
    if response.error_code == ErrorCode.NONE:
        bindings.bind("epoch", actor, response.generation_id)


def _bind_topics(bindings: Bindings, response: Any, play: str) -> None:
    for topic in response.topics:
        if topic.error_code == ErrorCode.NONE and any(topic.topic_id):
            name = topic.name.replace(play, GROUP, 1)
            bindings.bind("topic", name, topic.topic_id)


def _bind_heartbeat(bindings: Bindings, actor: str, response: Any) -> None:
    if response.member_id:
        bindings.bind("member", actor, response.member_id)
    bindings.bind("epoch", actor, max(response.member_epoch, 0))
    if response.assignment is not None:
        owned = [
            m.TopicPartitions(
                topic_id=each.topic_id, partitions=sorted(each.partitions)
            )
            for each in response.assignment.topic_partitions
        ]
        bindings.bind("assigned", actor, owned)
    elif response.member_epoch <= 0:
        bindings.bind("assigned", actor, [])
