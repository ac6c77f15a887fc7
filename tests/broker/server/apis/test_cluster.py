"""FindCoordinator, ApiVersions, and disabled protocols."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from coterie.auth.acl import Operation, ResourceType
from coterie.broker.server.apis.cluster import METADATA_TOPIC
from coterie.settings import Settings
from coterie.wire import messages as m
from coterie.wire.api import ADVERTISED, IMPLEMENTED
from coterie.wire.error_codes import ErrorCode
from tests.broker.server.apis.in_process_server import InProcessServer

GROUP, TRANSACTION, SHARE = 0, 1, 2


@pytest.fixture(scope="module")
def server() -> Iterator[InProcessServer]:
    with InProcessServer() as opened:
        yield opened


@pytest.fixture(scope="module")
def three() -> Iterator[InProcessServer]:
    with InProcessServer(node_count=3) as opened:
        yield opened


def find(
    server: InProcessServer, keys: list[str], kind: int = GROUP, version: int = 6
) -> Any:
    request = m.FindCoordinatorRequest(key_type=kind, coordinator_keys=keys)
    return server.call(request, version).coordinators


# DescribeQuorum.


def quorum(server: InProcessServer, topic: str, *indexes: int, version: int = 2) -> Any:
    partitions = [m.QuorumPartitionRequest(partition_index=index) for index in indexes]
    request = m.DescribeQuorumRequest(
        topics=[m.QuorumTopicRequest(topic_name=topic, partitions=partitions)]
    )
    response = server.call(request, version)
    assert response.error_code == 0
    return response


@pytest.mark.parametrize("version", range(3))
def test_the_controller_is_the_one_voter_of_the_quorum(
    three: InProcessServer, version: int
) -> None:
    response = quorum(three, METADATA_TOPIC, 0, version=version)
    [part] = response.topics[0].partitions
    assert (part.error_code, part.leader_id, part.leader_epoch) == (0, 1, 0)
    assert [voter.replica_id for voter in part.current_voters] == [1]
    assert part.observers == []
    assert [node.node_id for node in response.nodes] == [1] * (version == 2)


@pytest.mark.parametrize("indexes", [(), (1,), (0, 1)])
def test_other_partitions_of_the_quorum_are_unknown(
    server: InProcessServer, indexes: tuple[int, ...]
) -> None:
    response = quorum(server, METADATA_TOPIC, *indexes)
    codes = [part.error_code for part in response.topics[0].partitions]
    assert codes == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * len(indexes)
    assert response.nodes == []


# FindCoordinator.


@pytest.mark.fact("B-01a")
@pytest.mark.parametrize("version", range(4))
def test_find_coordinator_before_version_4_has_the_coordinator_at_the_top_level(
    server: InProcessServer, version: int
) -> None:
    found = server.call(m.FindCoordinatorRequest(key="g"), version)
    assert (found.error_code, found.node_id) == (0, 1)
    assert (found.host, found.port) == ("localhost", 9093)


@pytest.mark.fact("B-02", "B-04", "B-10", "B-18")
@pytest.mark.parametrize("version", [4, 5, 6])
def test_each_key_has_a_result_in_request_order_even_if_it_is_repeated(
    three: InProcessServer, version: int
) -> None:
    keys = ["a", "b", "a", "", "\N{GRINNING FACE}"]
    found = find(three, keys, version=version)
    assert [each.key for each in found] == keys
    assert found[0] == found[2]
    assert {each.error_code for each in found} == {0}


@pytest.mark.fact("B-16a")
def test_the_coordinator_is_the_leader_of_the_groups_partition(
    three: InProcessServer,
) -> None:
    keys = [three.group_in(shard) for shard in range(5)]
    nodes = [each.node_id for each in find(three, keys)]
    assert nodes == [1, 2, 3, 1, 2]


@pytest.mark.fact("B-17")
def test_a_missing_group_has_a_coordinator(server: InProcessServer) -> None:
    assert find(server, ["never heard of"])[0].error_code == 0


def test_a_transactional_id_has_a_coordinator(server: InProcessServer) -> None:
    assert find(server, ["x"], TRANSACTION)[0].error_code == 0


@pytest.mark.fact("B-14a", "B-14b")
@pytest.mark.parametrize(("kind", "version"), [(9, 6), (-1, 4), (SHARE, 5)])
def test_a_key_of_an_unknown_type_is_an_invalid_request(
    server: InProcessServer, kind: int, version: int
) -> None:
    [found] = find(server, ["k"], kind, version)
    assert found.error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.fact("B-11", "B-12a", "B-12b", "B-12c")
def test_a_find_coordinator_error_has_no_node_and_kafkas_message(
    server: InProcessServer,
) -> None:
    [found] = find(server, ["k"], 9)
    assert (found.node_id, found.host, found.port) == (-1, "", -1)
    old = server.call(m.FindCoordinatorRequest(key="k", key_type=9), 3)
    assert (old.node_id, old.host, old.port) == (-1, "", -1)
    assert old.error_message == found.error_message
    assert old.error_message.startswith("This most likely occurs because of a request")
    [share] = find(server, ["g:t:0"], SHARE)
    assert (share.error_code, share.error_message) == (ErrorCode.INVALID_REQUEST, "")


@pytest.mark.fact("B-10", "B-13a")
def test_finding_a_group_coordinator_needs_describe_on_the_group() -> None:
    denied = (Operation.DESCRIBE, ResourceType.GROUP, "no")
    with InProcessServer(denied) as server:
        codes = [each.error_code for each in find(server, ["no", "yes"])]
    assert codes == [ErrorCode.GROUP_AUTHORIZATION_FAILED, 0]


@pytest.mark.fact("B-13b")
def test_finding_a_transaction_coordinator_needs_describe_on_the_id() -> None:
    denied = (Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, "no")
    with InProcessServer(denied) as server:
        [found] = find(server, ["no"], TRANSACTION)
    assert found.error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


@pytest.mark.fact("B-13c", "B-12c")
def test_finding_a_share_coordinator_needs_cluster_action() -> None:
    denied = (Operation.CLUSTER_ACTION, ResourceType.CLUSTER, "kafka-cluster")
    with InProcessServer(denied) as server:
        [found] = find(server, ["g:t:0"], SHARE)
    assert found.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert found.error_message == "Cluster authorization failed."


@pytest.mark.fact("B-15a")
def test_without_an_offsets_topic_no_coordinator_is_available(
    server: InProcessServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server.broker.runtime, "shards", [])
    [found] = find(server, ["g"])
    assert found.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE


# Groups of another node.


def test_a_node_that_does_not_coordinate_a_group_responds_not_coordinator(
    three: InProcessServer,
) -> None:
    group_id = three.group_in(1)
    request = m.HeartbeatRequest(group_id=group_id, generation_id=1, member_id="m")
    codes = [three.call(request, 4, node).error_code for node in range(3)]
    no = ErrorCode.NOT_COORDINATOR
    assert codes == [no, ErrorCode.UNKNOWN_MEMBER_ID, no]


# ApiVersions.


@pytest.mark.fact("G4-13")
def test_api_versions_lists_every_advertised_api(server: InProcessServer) -> None:
    answer = server.call(m.ApiVersionsRequest(), 0)
    listed = {
        each.api_key: (each.min_version, each.max_version) for each in answer.api_keys
    }
    assert listed == {int(key): tuple(ADVERTISED[key]) for key in ADVERTISED}
    for key in (10, 11, 12, 13, 14, 3, 0):
        assert listed[key][0] == 0


@pytest.mark.fact("E30-03")
def test_the_consumer_protocol_is_advertised_when_disabled(
    server: InProcessServer,
) -> None:
    keys = {each.api_key for each in server.call(m.ApiVersionsRequest(), 0).api_keys}
    assert {68, 69} <= keys


@pytest.mark.fact("G1-11a")
@pytest.mark.parametrize(
    ("name", "software_version", "code"),
    [
        ("apache-kafka-java", "4.3.0", 0),
        ("librdkafka", "2.11.1-RC1", 0),
        ("a", "1", 0),
        ("", "1", ErrorCode.INVALID_REQUEST),
        ("a", "", ErrorCode.INVALID_REQUEST),
        ("-a", "1", ErrorCode.INVALID_REQUEST),
        ("a-", "1", ErrorCode.INVALID_REQUEST),
        ("a b", "1", ErrorCode.INVALID_REQUEST),
        ("a", "1\n", ErrorCode.INVALID_REQUEST),
    ],
)
def test_an_invalid_client_software_name_is_refused(
    server: InProcessServer, name: str, software_version: str, code: int
) -> None:
    request = m.ApiVersionsRequest(
        client_software_name=name, client_software_version=software_version
    )
    assert server.call(request, 3).error_code == code


@pytest.mark.fact("G1-11b")
def test_api_versions_before_version_3_has_no_client_software_name(
    server: InProcessServer,
) -> None:
    assert server.call(m.ApiVersionsRequest(), 2).error_code == 0


@pytest.mark.fact("E30-02")
def test_group_version_is_0_when_the_consumer_protocol_is_disabled() -> None:
    named = m.ApiVersionsRequest(client_software_name="a", client_software_version="1")
    settings = Settings(group_coordinator_rebalance_protocols=("classic",))
    with InProcessServer(settings=settings) as server:
        finalized = server.call(named, 4).finalized_features
    names = [each.name for each in finalized]
    assert names == ["share.version", "transaction.version"]


@pytest.mark.fact("E30-02")
def test_features_are_listed_from_version_3_on(server: InProcessServer) -> None:
    named = m.ApiVersionsRequest(client_software_name="a", client_software_version="1")
    newest = server.call(named, 4)
    supported = {
        each.name: (each.min_version, each.max_version)
        for each in newest.supported_features
    }
    assert supported == {
        "group.version": (0, 1),
        "share.version": (0, 1),
        "transaction.version": (0, 2),
    }
    finalized = {
        each.name: each.max_version_level for each in newest.finalized_features
    }
    assert finalized == {
        "group.version": 1,
        "share.version": 1,
        "transaction.version": 2,
    }
    assert server.call(named, 3).supported_features == []
    assert server.call(m.ApiVersionsRequest(), 2).finalized_features == []


@pytest.mark.fact("E13-40a")
def test_private_apis_are_listed_when_enabled() -> None:
    settings = Settings(group_consumer_client_assignors_enable=True)
    with InProcessServer(settings=settings) as server:
        answer = server.call(m.ApiVersionsRequest(), 2)
    advertised = {each.api_key for each in answer.api_keys}
    assert advertised == {int(key) for key in IMPLEMENTED}


# Disabled protocols.


def test_sasl_requests_on_a_listener_without_sasl_are_illegal(
    server: InProcessServer,
) -> None:
    handshake = server.call(m.SaslHandshakeRequest(mechanism="PLAIN"), 1)
    assert handshake.error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert handshake.mechanisms == []
    token = server.call(m.SaslAuthenticateRequest(auth_bytes=b"\0me\0pass"), 2)
    assert token.error_code == ErrorCode.ILLEGAL_SASL_STATE


@pytest.mark.fact("E30-03", "H-11a", "H-11b", "E7-01")
def test_a_disabled_consumer_protocol_responds_unsupported_version() -> None:
    settings = Settings(group_coordinator_rebalance_protocols=("classic",))
    with InProcessServer(settings=settings) as server:
        heartbeat = server.call(m.ConsumerGroupHeartbeatRequest(group_id="g"), 1)
        assert heartbeat.error_code == ErrorCode.UNSUPPORTED_VERSION
        described = server.call(m.ConsumerGroupDescribeRequest(group_ids=["g", "h"]), 1)
    answers = [(each.group_id, each.error_code) for each in described.groups]
    assert answers == [("g", 35), ("h", 35)]
