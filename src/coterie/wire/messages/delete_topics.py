"""DeleteTopics, key 20: versions 1-6, flexible from 4.

v1: the oldest version of Kafka 4: throttle time.
v2: throttled responses are sent at once; the client delays (KIP-219).
v3: may return TOPIC_DELETION_DISABLED (KIP-322).
v4: flexible (KIP-482).
v5: error messages; may return THROTTLING_QUOTA_EXCEEDED (KIP-599).
v6: topics by name or by id (KIP-516).
"""

from __future__ import annotations

from coterie.wire.schema import Message, Struct, array, int16, int32, string, uuid


class DeleteTopicState(Struct):
    name: str | None = string("6+", nullable="6+", default=None)
    topic_id: bytes = uuid("6+")


class DeleteTopicsRequest(Message, key=20, versions="1-6", flexible="4+"):
    topics: list[DeleteTopicState] = array(DeleteTopicState, "6+")
    topic_names: list[str] = array("string", "0-5")
    timeout_ms: int = int32()


class DeletableTopicResult(Struct):
    name: str | None = string(nullable="6+")
    topic_id: bytes = uuid("6+")
    error_code: int = int16()
    error_message: str | None = string("5+", nullable="5+", default=None)


class DeleteTopicsResponse(Message, key=20, versions="1-6", flexible="4+"):
    throttle_time_ms: int = int32("1+")
    responses: list[DeletableTopicResult] = array(DeletableTopicResult)
