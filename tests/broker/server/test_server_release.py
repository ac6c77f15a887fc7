"""A server that acts as an earlier Kafka release."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import pytest

from coterie.wire import messages as m
from coterie.wire.api import ADVERTISED, ApiKey
from coterie.wire.codec import decode
from coterie.wire.error_codes import ErrorCode
from coterie.wire.releases import load_release
from tests.broker.server.harness import ThreadServer, WireClient

pytestmark = pytest.mark.slow

OLD, NEW = "1.1", "3.9"


@pytest.fixture(scope="module")
def old() -> Iterator[ThreadServer]:
    with ThreadServer(act_as=OLD) as server:
        yield server


@pytest.fixture(scope="module")
def new() -> Iterator[ThreadServer]:
    with ThreadServer(act_as=NEW) as server:
        yield server


def connect(server: ThreadServer) -> WireClient:
    return WireClient(*server.addresses[0])


def versions_request() -> m.ApiVersionsRequest:
    return m.ApiVersionsRequest(
        client_software_name="test", client_software_version="1"
    )


def listed(response: m.ApiVersionsResponse) -> dict[int, tuple[int, int]]:
    return {
        each.api_key: (each.min_version, each.max_version) for each in response.api_keys
    }


@pytest.mark.parametrize("version", [0, 1])
def test_api_versions_lists_those_of_an_old_release(
    old: ThreadServer, version: int
) -> None:
    with connect(old) as client:
        response = client.call(versions_request(), version)
    assert listed(response) == load_release(OLD).versions
    assert ApiKey.CONSUMER_GROUP_HEARTBEAT not in listed(response)


@pytest.mark.parametrize("version", [0, 3, 4])
def test_api_versions_lists_those_of_a_newer_release_without_features(
    new: ThreadServer, version: int
) -> None:
    with connect(new) as client:
        response = client.call(versions_request(), version)
    assert listed(response) == load_release(NEW).versions
    assert response.supported_features == []
    assert response.finalized_features == []
    assert response.finalized_features_epoch == -1


def test_release_with_features_lists_them() -> None:
    with ThreadServer(act_as="4.0") as server, connect(server) as client:
        response = client.call(versions_request(), 4)
    levels = {each.name: each.max_version_level for each in response.finalized_features}
    assert levels == {"group.version": 1, "transaction.version": 2}
    assert listed(response)[ApiKey.CONSUMER_GROUP_HEARTBEAT] == (0, 1)


def refusal(server: ThreadServer, version: int) -> m.ApiVersionsResponse:
    """Return the response to an ApiVersions request of an unknown version."""
    with connect(server) as client:
        client.socket.sendall(struct.pack(">ihhih", 10, 18, version, 7, -1))
        frame = client.receive_frame()
        assert frame[:4] == struct.pack(">i", 7)
        response, _ = decode(m.ApiVersionsResponse, 0, frame, 4)
        assert response.error_code == ErrorCode.UNSUPPORTED_VERSION
        # The connection stays open for a request of a known version.
        client.call(versions_request(), 0)
        return response


def test_refused_api_versions_has_the_range_since_2_4(new: ThreadServer) -> None:
    assert listed(refusal(new, 9)) == {ApiKey.API_VERSIONS: (0, 4)}


def test_refused_api_versions_has_no_range_before_2_4(old: ThreadServer) -> None:
    assert listed(refusal(old, 3)) == {}


def test_newest_version_of_the_release_is_accepted(old: ThreadServer) -> None:
    high = load_release(OLD).versions[ApiKey.METADATA].high
    with connect(old) as client:
        assert client.call(m.MetadataRequest(topics=[]), high).topics == []


def test_version_after_the_release_closes_the_connection(old: ThreadServer) -> None:
    high = load_release(OLD).versions[ApiKey.METADATA].high
    with connect(old) as client:
        client.send(m.MetadataRequest(topics=[]), high + 1)
        assert client.is_closed()


def test_versions_of_a_release_do_not_depend_on_other_servers(
    old: ThreadServer,
) -> None:
    high = ADVERTISED[ApiKey.METADATA].high
    with ThreadServer() as server, connect(server) as client:
        client.call(m.MetadataRequest(topics=[]), high)
    with connect(old) as client:
        client.send(m.MetadataRequest(topics=[]), high)
        assert client.is_closed()


def test_fast_paths_do_not_serve_later_versions(old: ThreadServer) -> None:
    many = m.OffsetFetchRequest(groups=[m.OffsetFetchRequestGroup(group_id="billing")])
    beat = m.HeartbeatRequest(group_id="billing", generation_id=1, member_id="m")
    for request, version in ((many, 9), (beat, 4)):
        with connect(old) as client:
            client.send(request, version)
            assert client.is_closed()


def test_consumer_protocol_is_unknown_before_3_7(old: ThreadServer) -> None:
    with connect(old) as client:
        client.send(m.ConsumerGroupHeartbeatRequest(group_id="billing"), 0)
        assert client.is_closed()


def test_consumer_protocol_is_off_by_default_in_3_9(new: ThreadServer) -> None:
    # KafkaApis of 3.9 answers so without the new coordinator.
    with connect(new) as client:
        response = client.call(
            m.ConsumerGroupHeartbeatRequest(
                group_id="billing",
                member_id="",
                member_epoch=0,
                rebalance_timeout_ms=1000,
                subscribed_topic_names=["orders"],
                topic_partitions=[],
            ),
            0,
        )
    assert response.error_code == ErrorCode.UNSUPPORTED_VERSION


def test_client_assignors_have_no_api_in_a_release() -> None:
    with (
        ThreadServer(
            act_as="4.4", group_consumer_client_assignors_enable=True
        ) as server,
        connect(server) as client,
    ):
        response = client.call(versions_request(), 4)
    assert ApiKey.CONSUMER_GROUP_PREPARE_ASSIGNMENT not in listed(response)
