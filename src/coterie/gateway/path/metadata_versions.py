"""Metadata in a version that upstream does not have.

Members of the consumer protocol resolve the topic ids of their assignments with
Metadata. librdkafka needs version 12 for that and ends the process without it; Kafka
has it since 3.1. So the gateway serves it for older upstreams: a request gets names for
its ids and upstream's version, and the response gets the ids. Brokers before 2.8 have
no topic ids; theirs are derived, as in the catalog.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, NamedTuple, TypeAlias

from coterie.gateway.upstream.catalog_feed import derived_topic_id
from coterie.types import TopicId, TopicName
from coterie.wire import messages as m
from coterie.wire.codec import decode, encode
from coterie.wire.error_codes import ErrorCode
from coterie.wire.framing import (
    SIZE_BYTES,
    RequestHeaderV0,
    read_client_id,
    read_header_v0,
    read_response,
    write_request,
    write_response,
)
from coterie.wire.schema import ZERO_UUID

SERVED: Final = 12
"""The version that is served when upstream has an older one: it has requests by id."""
_SAME_BYTES_SINCE: Final = 11
"""From this version on, responses have the bytes of version 12."""

TopicNames: TypeAlias = Callable[[TopicId], TopicName | None]
"""A function that returns the name of a topic, or None for an id that is not known."""


class Translated(NamedTuple):
    """A request for upstream, and the function that turns the frame of its response
    into one of the client's version. Both frames have their sizes."""

    request: bytes
    answer: Callable[[bytes], bytes]


class _Asked(NamedTuple):
    """What a request asks for by id: the known topics, and the unknown ids."""

    by_name: Mapping[TopicName, TopicId]
    unknown: tuple[TopicId, ...]


def translate(frame: bytes, upstream: int, name_of: TopicNames) -> Translated:
    """Translate a Metadata request, with its size, into version `upstream`.

    Raises MalformedFrame.
    """
    payload = frame[SIZE_BYTES:]
    key, version, correlation_id = read_header_v0(payload)
    client_id, at = read_client_id(
        payload, flexible=version in m.MetadataRequest.FLEXIBLE
    )
    request, _ = decode(m.MetadataRequest, version, payload, at)
    asked = _use_names(request, name_of)
    translated = write_request(
        RequestHeaderV0(key, upstream, correlation_id),
        client_id,
        encode(request, upstream),
        flexible=upstream in m.MetadataRequest.FLEXIBLE,
    )
    return Translated(translated, partial(_translate_back, upstream, version, asked))


def _use_names(request: m.MetadataRequest, name_of: TopicNames) -> _Asked:
    """Replace the ids in a request with names. Such a request creates no topics."""
    by_name: dict[TopicName, TopicId] = {}
    unknown: list[TopicId] = []
    named: list[m.MetadataRequestTopic] = []
    for topic in request.topics or ():
        if topic.topic_id == ZERO_UUID:
            named.append(topic)
        elif (name := name_of(topic.topic_id)) is None:
            unknown.append(topic.topic_id)
        else:
            by_name[name] = topic.topic_id
    if by_name or unknown:
        named += [m.MetadataRequestTopic(topic_id=ZERO_UUID, name=n) for n in by_name]
        request.topics = named
        request.allow_auto_topic_creation = False
    return _Asked(by_name, tuple(unknown))


def _translate_back(upstream: int, version: int, asked: _Asked, frame: bytes) -> bytes:
    if upstream >= _SAME_BYTES_SINCE and not asked.by_name and not asked.unknown:
        return frame
    payload = frame[SIZE_BYTES:]
    correlation_id, at = read_response(
        payload, tagged=upstream in m.MetadataResponse.FLEXIBLE
    )
    response, _ = decode(m.MetadataResponse, upstream, payload, at)
    cluster_id = response.cluster_id or ""
    for topic in response.topics:
        assert topic.name is not None
        if topic.topic_id == ZERO_UUID and not topic.error_code:
            topic.topic_id = derived_topic_id(cluster_id, topic.name)
    response.topics = [
        _with_id(topic, asked.by_name.get(topic.name or ""))
        for topic in response.topics
    ] + [_unknown(topic_id) for topic_id in asked.unknown]
    return write_response(
        correlation_id,
        encode(response, version),
        tagged=version in m.MetadataResponse.FLEXIBLE,
    )


def _with_id(
    topic: m.MetadataResponseTopic, asked: TopicId | None
) -> m.MetadataResponseTopic:
    """Return the topic, or that it is unknown when it was asked for by an id that it
    does not have any more."""
    if asked is None or topic.topic_id == asked:
        return topic
    if topic.error_code not in (0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
        topic.topic_id = asked
        return topic
    return _unknown(asked)


def _unknown(topic_id: TopicId) -> m.MetadataResponseTopic:
    return m.MetadataResponseTopic(
        error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=topic_id
    )
