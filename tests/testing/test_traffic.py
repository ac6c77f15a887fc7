"""The record of every API's requests, without a server."""

from __future__ import annotations

from random import Random
from struct import pack
from types import SimpleNamespace
from typing import Any

import pytest

from coterie.broker.runtime.fetch_sessions import FetchSessions
from coterie.broker.server.call import Call
from coterie.testing.traffic import Traffic
from coterie.wire import messages as m
from coterie.wire.api import ApiKey
from coterie.wire.commit import as_received
from coterie.wire.error_codes import ErrorCode
from coterie.wire.primitives import EncodedArray
from tests.testing.test_error_responses import FAMILIES, full_request

ID = bytes(range(16))


class FakePeer:
    """A connection that keeps the responses."""

    client_host = "/10.0.0.1"
    principal = "User:a"

    def __init__(self) -> None:
        catalog = SimpleNamespace(topic_name={ID: "t"}.get)
        broker = SimpleNamespace(
            catalog=catalog,
            clock=lambda: 7,
            fetch_sessions=FetchSessions(0, 0, lambda: 1),
        )
        self.node = SimpleNamespace(broker=broker, node_id=1)
        self.responses: list[Any] = []

    def send_response(self, token: Any, response: Any) -> None:
        self.responses.append(response)


def record(request: Any, version: int, response: Any = None) -> Any:
    """Pass a request through `Traffic`; return what it recorded."""
    traffic, peer = Traffic(), FakePeer()
    key = request.API_KEY
    handlers = traffic.wrap({key: lambda call: call.respond(response)})
    fake: Any = peer
    handlers[key](Call(request, version, "c", fake, token=None))
    assert peer.responses == [response]
    (recorded,) = traffic.requests
    return recorded


@pytest.mark.parametrize(("api", "version"), FAMILIES)
def test_every_request_is_recorded(api: Any, version: int) -> None:
    recorded = record(full_request(api.request, version, Random(version)), version)

    assert (recorded.api, recorded.version) == (api.key.title, version)
    assert recorded.is_done
    for names in (recorded.groups, recorded.members, recorded.topics):
        assert all(isinstance(name, str) for name in names)


def test_the_members_of_a_leave_request_are_recorded() -> None:
    members = [
        m.MemberIdentity(member_id="m"),
        m.MemberIdentity(group_instance_id="i"),
    ]

    recorded = record(m.LeaveGroupRequest(group_id="g", members=members), 5)

    assert (recorded.groups, recorded.members) == (("g",), ("m", "i"))


@pytest.mark.parametrize(
    ("request_", "version"),
    [
        (m.FindCoordinatorRequest(key_type=1, coordinator_keys=["x"]), 4),
        (m.FindCoordinatorRequest(key_type=1, key="x"), 3),
        (m.AddPartitionsToTxnRequest(v3_and_below_transactional_id="x"), 3),
        (
            m.AddPartitionsToTxnRequest(
                transactions=[m.AddPartitionsToTxnTransaction(transactional_id="x")]
            ),
            4,
        ),
    ],
)
def test_transactional_ids_are_recorded(request_: Any, version: int) -> None:
    assert record(request_, version).transactional_id == "x"


def test_topics_of_configurations_are_recorded() -> None:
    resources = [
        m.IncrementalAlterConfigsResource(resource_type=2, resource_name="t"),
        m.IncrementalAlterConfigsResource(resource_type=32, resource_name="g"),
    ]

    recorded = record(m.IncrementalAlterConfigsRequest(resources=resources), 1)

    assert recorded.topics == ("t",)


def test_records_of_a_fetch_are_counted_and_not_kept() -> None:
    request = m.FetchRequest(
        topics=[m.FetchTopic(topic_id=ID, partitions=[m.FetchPartition()])]
    )
    part = m.PartitionData(records=b"12345", error_code=ErrorCode.OFFSET_OUT_OF_RANGE)
    response = m.FetchResponse(
        responses=[m.FetchableTopicResponse(topic_id=ID, partitions=[part])]
    )

    recorded = record(request, 13, response)

    assert (recorded.topics, recorded.record_bytes) == (("t",), 5)
    assert recorded.response.responses[0].partitions[0].records is None
    assert recorded.errors == ("OFFSET_OUT_OF_RANGE",)
    assert part.records == b"12345"


def test_a_commit_is_recorded_as_a_message_and_handled_as_rows() -> None:
    row = m.OffsetCommitRequestPartition(partition_index=3, committed_offset=7)
    topic = m.OffsetCommitRequestTopic(name="t", partitions=[row])
    sent = m.OffsetCommitRequest(group_id="g", member_id="m", topics=[topic])
    commit = as_received(sent, 9)
    handled: list[Any] = []
    traffic, peer = Traffic(), FakePeer()
    fake: Any = peer
    call = Call(commit, 9, "c", fake, token=None)
    key = ApiKey.OFFSET_COMMIT
    wrapped = traffic.wrap({key: lambda call: handled.append(call.request)})
    wrapped[key](call)

    assert handled == [commit]
    (recorded,) = traffic.requests
    assert recorded.request == sent
    assert (recorded.groups, recorded.members) == (("g",), ("m",))
    assert recorded.topics == ("t",)


def test_encoded_rows_of_a_response_are_decoded() -> None:
    topic = m.OffsetFetchResponseTopics(name="t")
    code = ErrorCode.UNSTABLE_OFFSET_COMMIT
    # Partition, offset, leader epoch, metadata "", error code, no tags.
    row = pack(">iqi", 1, -1, -1) + b"\1" + pack(">h", code) + b"\0"
    topic.partitions = EncodedArray(1, row)  # type: ignore[assignment]
    group = m.OffsetFetchResponseGroup(group_id="g", topics=[topic])

    recorded = record(m.OffsetFetchRequest(), 8, m.OffsetFetchResponse(groups=[group]))

    assert recorded.errors == ("UNSTABLE_OFFSET_COMMIT",)
    (partition,) = recorded.response.groups[0].topics[0].partitions
    assert partition.error_code == code
