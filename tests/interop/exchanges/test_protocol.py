"""The protocol around requests: headers, unknown versions, order, tagged fields."""

from __future__ import annotations

import struct

import pytest

from coterie.wire import messages as m
from coterie.wire.codec import decode, encode
from tests.broker.server.harness import WireClient

from .conftest import Connect
from .members import describe_classic, join_consumer

API_VERSIONS, LIST_GROUPS, HEARTBEAT = 18, 16, 12
UNKNOWN_MEMBER_ID = 25
UNSUPPORTED_VERSION = 35
INVALID_REQUEST = 42
REBOOTSTRAP_REQUIRED = 129


def send(wire: WireClient, key: int, version: int, rest: bytes) -> None:
    """Send a request with the correlation id 7 and the client id "c"."""
    frame = struct.pack(">hhih", key, version, 7, 1) + b"c" + rest
    wire.socket.sendall(struct.pack(">i", len(frame)) + frame)


@pytest.mark.fact("G1-01a", "G1-01b")
def test_headers_have_tags_from_the_first_flexible_version_on(wire: WireClient) -> None:
    send(wire, LIST_GROUPS, 2, b"")
    assert wire.receive_frame()[:4] == struct.pack(">i", 7)
    # The client id is never compact; the tags of the header follow it.
    send(wire, LIST_GROUPS, 3, b"\0" + b"\0")
    frame = wire.receive_frame()
    correlation_id, tags, throttle_ms, error = struct.unpack(">ibih", frame[:11])
    assert (correlation_id, tags, throttle_ms, error) == (7, 0, 0, 0)


@pytest.mark.fact("G1-02")
def test_an_api_versions_response_has_no_tags_in_its_header(wire: WireClient) -> None:
    body = encode(
        m.ApiVersionsRequest(client_software_name="c", client_software_version="1"), 3
    )
    send(wire, API_VERSIONS, 3, b"\0" + body)
    frame = wire.receive_frame()
    assert frame[:4] == struct.pack(">i", 7)
    response, end = decode(m.ApiVersionsResponse, 3, frame, 4)
    assert (response.error_code, end) == (0, len(frame))


@pytest.mark.fact("G1-03")
def test_an_unknown_version_of_api_versions_gets_its_range_in_version_0(
    wire: WireClient,
) -> None:
    send(wire, API_VERSIONS, 99, b"\0" + b"anything")
    frame = wire.receive_frame()
    assert frame[:4] == struct.pack(">i", 7)
    response, end = decode(m.ApiVersionsResponse, 0, frame, 4)
    assert (response.error_code, end) == (UNSUPPORTED_VERSION, len(frame))
    [only] = response.api_keys
    assert (only.api_key, only.min_version, only.max_version) == (API_VERSIONS, 0, 5)
    assert wire.call(m.ApiVersionsRequest(), 0).error_code == 0


def test_a_client_that_means_another_node_has_to_start_again(wire: WireClient) -> None:
    [cluster_id] = {wire.call(m.MetadataRequest(topics=[]), 13).cluster_id}
    [node] = wire.call(m.DescribeClusterRequest(), 2).brokers[:1]

    def code(cluster_id: str | None, node_id: int) -> int:
        request = m.ApiVersionsRequest(
            client_software_name="c",
            client_software_version="1",
            cluster_id=cluster_id,
            node_id=node_id,
        )
        response = wire.call(request, 5)
        assert bool(response.api_keys) == (response.error_code == 0)
        return int(response.error_code)

    assert code(None, -1) == code(cluster_id, node.broker_id) == 0
    assert code(cluster_id, -1) == code(None, node.broker_id) == INVALID_REQUEST
    assert code("other", node.broker_id) == REBOOTSTRAP_REQUIRED
    assert code(cluster_id, node.broker_id + 1) == REBOOTSTRAP_REQUIRED


@pytest.mark.fact("G1-04")
@pytest.mark.parametrize(("key", "version"), [(LIST_GROUPS, 99), (9_999, 0)])
def test_an_unknown_version_or_key_closes_the_connection(
    wire: WireClient, key: int, version: int
) -> None:
    send(wire, key, version, b"\0")
    assert wire.is_closed()


@pytest.mark.fact("G1-05")
def test_pipelined_requests_are_answered_in_order(wire: WireClient, group: str) -> None:
    for i in range(20):
        if i % 2:
            wire.send(m.FindCoordinatorRequest(coordinator_keys=[f"{group}-{i}"]), 4)
        else:
            wire.send(m.ListGroupsRequest(), 4)
    for i in range(20):
        answer = wire.receive()  # fails on another correlation id
        assert not i % 2 or answer.coordinators[0].key == f"{group}-{i}"


@pytest.mark.fact("G1-07b")
def test_compact_lengths_are_one_more(wire: WireClient) -> None:
    # The states and the types of groups: one state of five bytes, and no types.
    body = b"\x02" + b"\x06Empty" + b"\x01" + b"\0"
    send(wire, LIST_GROUPS, 5, b"\0" + body)
    frame = wire.receive_frame()
    assert struct.unpack_from(">ibih", frame) == (7, 0, 0, 0)
    assert wire.call(m.ListGroupsRequest(states_filter=["Empty"]), 5).error_code == 0


@pytest.mark.fact("G1-07a")
def test_unknown_tagged_fields_are_skipped(wire: WireClient, group: str) -> None:
    request = m.HeartbeatRequest(group_id=group, generation_id=1, member_id="m")
    body = encode(request, 4)
    assert body[-1:] == b"\0"
    tags = b"\x02" + b"\x05\x01x" + b"\x85\x4e\x02yz"
    send(wire, HEARTBEAT, 4, b"\0" + body[:-1] + tags)
    frame = wire.receive_frame()
    assert struct.unpack(">ibihb", frame) == (7, 0, 0, UNKNOWN_MEMBER_ID, 0)


@pytest.mark.fact("G1-07c")
def test_an_absent_assignment_is_a_negative_byte(
    wire: WireClient, group: str, topic: str
) -> None:
    member = join_consumer(wire, group, topic)
    request = m.ConsumerGroupHeartbeatRequest(
        group_id=group, member_id=member.id, member_epoch=member.epoch
    )
    wire.send(request, 0)
    frame = wire.receive_frame()
    # The assignment is null; after it are the tags of the response.
    assert frame[-2:] == b"\xff\0"
    rejoin = m.ConsumerGroupHeartbeatRequest(
        group_id=group,
        member_id=member.id,
        member_epoch=0,
        rebalance_timeout_ms=30_000,
        subscribed_topic_names=[topic],
        topic_partitions=[],
    )
    wire.send(rejoin, 0)
    name = bytes([len(member.id) + 1]) + member.id.encode()
    after_the_id = wire.receive_frame().partition(name)[2]
    assert after_the_id[8:9] == b"\x01"  # after the epoch and the interval


@pytest.mark.fact("G1-08")
@pytest.mark.parametrize("version", [4, 5])
@pytest.mark.parametrize("group_id", ["\N{GREEK SMALL LETTER ALPHA} \n/", "x" * 32_000])
def test_any_string_is_a_group_id(
    wire: WireClient, group_id: str, version: int
) -> None:
    assert describe_classic(wire, group_id, version=version).group_id == group_id


@pytest.mark.fact("G1-11a", "G1-11b")
@pytest.mark.parametrize("name", ["", "a b", "-a", "a-", "a/b"])
def test_a_client_software_name_of_other_characters_is_invalid(
    connect: Connect, name: str
) -> None:
    request = m.ApiVersionsRequest(
        client_software_name=name, client_software_version="1"
    )
    assert connect().call(request, 3).error_code == INVALID_REQUEST
    swapped = m.ApiVersionsRequest(
        client_software_name="a.b-c", client_software_version=name
    )
    assert connect().call(swapped, 3).error_code == INVALID_REQUEST
    good = m.ApiVersionsRequest(
        client_software_name="a.B-9", client_software_version="1.0-x"
    )
    assert connect().call(good, 3).error_code == 0
