"""Versions of Metadata and ListGroups that upstream does not have."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pytest

from coterie.gateway.path.metadata_versions import SERVED, translate
from coterie.gateway.upstream.catalog_feed import derived_topic_id
from coterie.types import TopicId, TopicName
from coterie.wire import messages as m
from coterie.wire.api import ApiKey
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
from tests.broker.server.harness import WireClient
from tests.gateway.path.fake_upstream import FakeUpstream, UpstreamConnection
from tests.gateway.path.gateway import ThreadGateway

CORRELATION_ID: Final = 7
CLUSTER: Final = "cluster"
OLD: Final = (4, 5, 7, 9, 10, 11)
"""The newest version of Kafka 0.11, 1.1, 2.1, 2.4 and 2.8; and version 10."""
IDS_SINCE: Final = 10
OWN_ID: Final = bytes(range(16))
UNKNOWN_ID: Final = b"\7" * 16


def known_id(upstream: int, name: TopicName = "t") -> TopicId:
    """Return the id of a topic in the catalog."""
    return OWN_ID if upstream >= IDS_SINCE else derived_topic_id(CLUSTER, name)


def response(upstream: int, *topics: m.MetadataResponseTopic) -> m.MetadataResponse:
    broker = m.MetadataResponseBroker(node_id=1, host="up", port=9092)
    for topic in topics:
        if upstream >= IDS_SINCE and not topic.error_code:
            topic.topic_id = OWN_ID
    return m.MetadataResponse(
        brokers=[broker], cluster_id=CLUSTER, controller_id=1, topics=list(topics)
    )


def topic(name: TopicName = "t") -> m.MetadataResponseTopic:
    partition = m.MetadataResponsePartition(
        partition_index=0, leader_id=1, replica_nodes=[1], isr_nodes=[1]
    )
    return m.MetadataResponseTopic(name=name, partitions=[partition])


def exchanged(
    request: m.MetadataRequest, upstream: int, answer: m.MetadataResponse
) -> tuple[m.MetadataRequest, m.MetadataResponse]:
    """Return the request that upstream reads, and the response that the client reads
    in version 12."""
    header = RequestHeaderV0(ApiKey.METADATA, SERVED, CORRELATION_ID)
    frame = write_request(header, "app", encode(request, SERVED), flexible=True)
    known = {known_id(upstream): "t"}
    translated = translate(frame, upstream, known.get)
    payload = translated.request[SIZE_BYTES:]
    assert read_header_v0(payload) == (ApiKey.METADATA, upstream, CORRELATION_ID)
    tagged = upstream in m.MetadataRequest.FLEXIBLE
    client_id, at = read_client_id(payload, flexible=tagged)
    assert client_id == "app"
    asked, at = decode(m.MetadataRequest, upstream, payload, at)
    assert at == len(payload)
    raw = write_response(CORRELATION_ID, encode(answer, upstream), tagged=tagged)
    payload = translated.answer(raw)[SIZE_BYTES:]
    correlation_id, at = read_response(payload, tagged=True)
    assert correlation_id == CORRELATION_ID
    read, at = decode(m.MetadataResponse, SERVED, payload, at)
    assert at == len(payload)
    return asked, read


@pytest.mark.parametrize("upstream", OLD)
def test_all_topics_have_ids(upstream: int) -> None:
    request = m.MetadataRequest(topics=None, include_topic_authorized_operations=True)

    asked, read = exchanged(request, upstream, response(upstream, topic()))

    assert asked.topics is None
    assert asked.allow_auto_topic_creation
    [found] = read.topics
    assert (found.name, found.topic_id) == ("t", known_id(upstream))
    assert [each.leader_id for each in found.partitions] == [1]
    assert read.cluster_id == CLUSTER


@pytest.mark.parametrize("upstream", OLD)
def test_a_topic_is_asked_for_by_its_id(upstream: int) -> None:
    wanted = m.MetadataRequestTopic(topic_id=known_id(upstream), name=None)

    asked, read = exchanged(
        m.MetadataRequest(topics=[wanted]), upstream, response(upstream, topic())
    )

    assert asked.topics is not None
    assert [each.name for each in asked.topics] == ["t"]
    assert not asked.allow_auto_topic_creation
    [found] = read.topics
    assert (found.error_code, found.topic_id) == (0, known_id(upstream))


@pytest.mark.parametrize("upstream", OLD)
def test_an_unknown_id_has_its_error(upstream: int) -> None:
    wanted = m.MetadataRequestTopic(topic_id=UNKNOWN_ID, name=None)

    asked, read = exchanged(
        m.MetadataRequest(topics=[wanted]), upstream, response(upstream)
    )

    assert asked.topics == []  # no topic, and not all
    [found] = read.topics
    assert found.error_code == ErrorCode.UNKNOWN_TOPIC_ID
    assert (found.name, found.topic_id) == (None, UNKNOWN_ID)


def test_the_id_of_a_deleted_topic_is_unknown() -> None:
    gone = m.MetadataResponseTopic(
        error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, name="t"
    )
    wanted = m.MetadataRequestTopic(topic_id=known_id(9), name=None)

    _, read = exchanged(m.MetadataRequest(topics=[wanted]), 9, response(9, gone))

    assert read.topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID
    assert read.topics[0].topic_id == known_id(9)


def test_an_id_of_a_topic_that_was_created_again_is_unknown() -> None:
    again = m.MetadataResponse(
        cluster_id=CLUSTER,
        topics=[m.MetadataResponseTopic(name="t", topic_id=b"2" * 16)],
    )
    wanted = m.MetadataRequestTopic(topic_id=OWN_ID, name=None)

    _, read = exchanged(m.MetadataRequest(topics=[wanted]), 11, again)

    assert read.topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID
    assert read.topics[0].partitions == []


def test_another_error_of_a_topic_is_kept() -> None:
    refused = m.MetadataResponseTopic(
        error_code=ErrorCode.LEADER_NOT_AVAILABLE, name="t"
    )
    wanted = m.MetadataRequestTopic(topic_id=known_id(9), name=None)

    _, read = exchanged(m.MetadataRequest(topics=[wanted]), 9, response(9, refused))

    assert read.topics[0].error_code == ErrorCode.LEADER_NOT_AVAILABLE
    assert read.topics[0].topic_id == known_id(9)


def test_a_topic_that_is_asked_for_by_name_may_be_unknown() -> None:
    gone = m.MetadataResponseTopic(
        error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, name="no"
    )
    wanted = m.MetadataRequestTopic(topic_id=ZERO_UUID, name="no")

    asked, read = exchanged(m.MetadataRequest(topics=[wanted]), 9, response(9, gone))

    assert asked.allow_auto_topic_creation
    assert read.topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert (read.topics[0].name, read.topics[0].topic_id) == ("no", ZERO_UUID)


# Through a node.


@pytest.fixture
def upstream() -> Iterator[FakeUpstream]:
    with FakeUpstream() as running:
        yield running


def learn_versions(
    client: WireClient,
    accepted: UpstreamConnection,
    newest: int,
    *others: m.ApiVersion,
) -> dict[int, int]:
    """Return the newest version of each API that a client of the gateway reads."""
    client.send(m.ApiVersionsRequest(), 3)
    received = accepted.receive()
    metadata = m.ApiVersion(api_key=ApiKey.METADATA, min_version=0, max_version=newest)
    answer = m.ApiVersionsResponse(api_keys=[metadata, *others])
    accepted.answer(received.correlation_id, encode(answer, 3))
    read = client.receive()
    return {each.api_key: each.max_version for each in read.api_keys}


@pytest.mark.parametrize("newest", [5, 11])
def test_members_of_the_consumer_protocol_get_the_metadata_that_they_need(
    upstream: FakeUpstream, newest: int
) -> None:
    with (
        ThreadGateway([upstream.broker], has_topics=False) as gateway,
        gateway.client(0) as client,
    ):
        accepted = upstream.accept()
        versions = learn_versions(client, accepted, newest)
        assert ApiKey.CONSUMER_GROUP_HEARTBEAT in versions
        assert versions[ApiKey.METADATA] == SERVED

        client.send(m.MetadataRequest(topics=None), SERVED)
        client.send(m.MetadataRequest(topics=None), newest)
        for _ in range(2):
            received = accepted.receive()
            assert (received.key, received.version) == (ApiKey.METADATA, newest)
            body = encode(response(newest, topic()), newest)
            tags = b"\0" if newest in m.MetadataResponse.FLEXIBLE else b""
            accepted.answer(received.correlation_id, tags + body)
        read = client.receive()
        assert [each.topic_id for each in read.topics] == [known_id(newest)]
        assert read.brokers[0].port == gateway.port + 1
        assert client.receive().topics[0].name == "t"


def test_a_newer_upstream_gets_the_request_as_it_is(upstream: FakeUpstream) -> None:
    with (
        ThreadGateway([upstream.broker], has_topics=False) as gateway,
        gateway.client(0) as client,
    ):
        accepted = upstream.accept()
        assert learn_versions(client, accepted, 13)[ApiKey.METADATA] == 13
        client.send(m.MetadataRequest(topics=None), 12)
        assert accepted.receive().version == 12


def test_no_group_is_listed_on_the_port_of_an_old_broker(
    upstream: FakeUpstream,
) -> None:
    with (
        ThreadGateway([upstream.broker], has_topics=False) as gateway,
        gateway.client(0) as client,
    ):
        accepted = upstream.accept()
        old = m.ApiVersion(api_key=ApiKey.LIST_GROUPS, min_version=0, max_version=4)
        assert learn_versions(client, accepted, 9, old)[ApiKey.LIST_GROUPS] == 5
        client.send(m.ListGroupsRequest(types_filter=["consumer"]), 5)
        client.send(m.MetadataRequest(topics=None), 9)
        assert accepted.receive().key == ApiKey.METADATA
        assert client.receive() == m.ListGroupsResponse()
