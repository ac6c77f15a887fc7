"""Rewritten responses, decoded by kio as a client's library would."""

from __future__ import annotations

from typing import Any, Final

import pytest

from coterie.broker.server.connections import Connections
from coterie.broker.server.security import Security
from coterie.errors import MalformedFrame
from coterie.gateway.path.addresses import Addresses, UpstreamBroker
from coterie.gateway.path.group_apis import group_handlers
from coterie.gateway.path.rewriting import (
    CAPS,
    FIRST_UNKNOWN_ID,
    KEYS_MAX,
    REFUSED,
    Rewrite,
    Rewriting,
)
from coterie.gateway.view import FORMER_MS, FormerNode, NodeInfo, View, node_id_of
from coterie.settings import Settings
from coterie.types import SecurityProtocol
from coterie.wire import messages as m
from coterie.wire.api import ADVERTISED, ApiKey, api_of
from coterie.wire.codec import encode
from coterie.wire.error_codes import ErrorCode
from coterie.wire.framing import (
    SIZE_BYTES,
    RequestHeaderV0,
    read_response,
    write_request,
    write_response,
)
from coterie.wire.schema import Message
from tests.wire.judges import KioJudge

A: Final = NodeInfo(name="a", host="gw-a", port=9000, broker_port=9001)
B: Final = NodeInfo(name="b", host="gw-b", port=9100, broker_port=9101)
TOPIC: Final = "__coterie_test"
CORRELATION_ID: Final = 77
KIO_METADATA_MAX: Final = 12


def make_rewriting(
    *,
    nodes: tuple[NodeInfo, ...] = (A, B),
    is_coordination: bool = True,
    addresses: Addresses | None = None,
) -> Rewriting:
    view = View(nodes, (), 1)
    addresses = addresses or Addresses(lambda: view, A)
    settings = Settings()
    security = Security(
        SecurityProtocol.PLAINTEXT, settings, lambda *_: None, lambda *_: None
    )
    connections = Connections(settings, group_handlers(lambda: view), security)
    return Rewriting(
        addresses,
        connections,
        topic=TOPIC,
        is_coordination=is_coordination,
    )


def frame_of_find_coordinator(version: int, request: m.FindCoordinatorRequest) -> bytes:
    return write_request(
        RequestHeaderV0(ApiKey.FIND_COORDINATOR, version, 1),
        "client",
        encode(request, version),
        flexible=version in m.FindCoordinatorRequest.FLEXIBLE,
    )


def rewrite_of(
    rewriting: Rewriting,
    key: int,
    version: int,
    request: m.FindCoordinatorRequest | None = None,
) -> Rewrite:
    """Return the function for a response; `request` is the one of FindCoordinator."""
    if key == ApiKey.FIND_COORDINATOR:
        request = request or m.FindCoordinatorRequest(key="t", key_type=1)
        found = frame_of_find_coordinator(version, request)
        rewrite = rewriting.of_coordinators(found)
    else:
        rewrite = rewriting.of(key, version)
    assert rewrite is not None
    return rewrite


def rewritten(
    response: Message,
    version: int,
    rewriting: Rewriting | None = None,
    request: m.FindCoordinatorRequest | None = None,
) -> dict[str, Any]:
    """Return what a client reads after the response was rewritten."""
    key = ApiKey(response.API_KEY)
    tagged = key != ApiKey.API_VERSIONS and version in response.FLEXIBLE
    frame = write_response(CORRELATION_ID, encode(response, version), tagged=tagged)
    rewrite = rewrite_of(rewriting or make_rewriting(), key, version, request)
    answer = rewrite(frame)
    assert int.from_bytes(answer[:SIZE_BYTES]) == len(answer) - SIZE_BYTES
    payload = answer[SIZE_BYTES:]
    correlation_id, at = read_response(payload, tagged=tagged)
    assert correlation_id == CORRELATION_ID
    judge = KioJudge(type(response), version)
    read: dict[str, Any] = judge.plain(judge.read(payload[at:]))
    return read


def metadata() -> m.MetadataResponse:
    partition = m.MetadataResponsePartition(
        partition_index=0, leader_id=3, replica_nodes=[3, 1], isr_nodes=[3]
    )
    return m.MetadataResponse(
        brokers=[
            m.MetadataResponseBroker(node_id=3, host="up-3", port=3333, rack="r"),
            m.MetadataResponseBroker(node_id=1, host="up-1", port=1111),
        ],
        cluster_id="cluster",
        controller_id=3,
        topics=[
            m.MetadataResponseTopic(
                name=name, topic_id=bytes(range(16)), partitions=[partition]
            )
            for name in ("first", TOPIC, "x" * len(TOPIC))
        ],
    )


@pytest.mark.parametrize("version", range(KIO_METADATA_MAX + 1))
def test_metadata_has_the_gateways_addresses(version: int) -> None:
    read = rewritten(metadata(), version)

    addresses = {
        each["nodeid"]: (each["host"], each["port"]) for each in read["brokers"]
    }
    assert addresses == {
        1: ("gw-a", 9001),
        3: ("gw-b", 9102),
        A.node_id: ("gw-a", 9000),
        B.node_id: ("gw-b", 9100),
    }
    names = [topic["name"] for topic in read["topics"]]
    assert names == ["first", TOPIC, "x" * len(TOPIC)]
    assert read["topics"][0]["partitions"][0]["leaderid"] == 3
    if version >= 1:
        assert read["controllerid"] == 3
        internal = [topic["isinternal"] for topic in read["topics"]]
        assert internal == [False, True, False]


def test_a_broker_keeps_its_port_while_it_is_down() -> None:
    rewriting = make_rewriting(nodes=(A,))
    rewritten(metadata(), 9, rewriting)
    without = metadata()
    del without.brokers[1]

    read = rewritten(without, 9, rewriting)

    ports = {each["nodeid"]: each["port"] for each in read["brokers"]}
    assert ports == {3: 9002, A.node_id: 9000}


def test_nodes_that_have_left_are_listed_for_a_while() -> None:
    seconds = [100.0]
    former = (
        FormerNode(name=B.name, age_ms=0),
        FormerNode(name="old", age_ms=FORMER_MS - 1),
    )
    view = View((A,), (), 1, former)
    addresses = Addresses(lambda: view, A, lambda: seconds[0])
    rewriting = make_rewriting(addresses=addresses)

    def listed() -> dict[int, tuple[str, int]]:
        brokers = rewritten(metadata(), 9, rewriting)["brokers"]
        return {each["nodeid"]: (each["host"], each["port"]) for each in brokers}

    alive = {3: ("gw-a", 9002), 1: ("gw-a", 9001), A.node_id: ("gw-a", 9000)}
    found = listed()
    assert found.items() >= alive.items()
    left = {B.node_id, node_id_of("old")}
    assert found.keys() - alive.keys() == left
    assert {found[each] for each in left} <= {alive[3], alive[1]}, "not the groups'"
    seconds[0] += 1
    assert listed().keys() - alive.keys() == {B.node_id}
    seconds[0] += FORMER_MS / 1_000
    assert listed() == alive


def test_brokers_move_to_the_nodes_that_are_alive() -> None:
    read = rewritten(metadata(), 9, make_rewriting(nodes=(B,)))

    hosts = {each["nodeid"]: each["host"] for each in read["brokers"]}
    assert hosts == {1: "gw-b", 3: "gw-b", B.node_id: "gw-b"}


def test_node_ids_do_not_depend_on_other_nodes() -> None:
    assert A.node_id != B.node_id
    assert NodeInfo(name="a", host="elsewhere").node_id == A.node_id
    assert all(0 < each.node_id < 2**31 for each in (A, B))


@pytest.mark.parametrize("version", range(3))
def test_describe_cluster_has_the_gateways_addresses(version: int) -> None:
    response = m.DescribeClusterResponse(
        cluster_id="cluster",
        controller_id=1,
        brokers=[m.DescribeClusterBroker(broker_id=1, host="up-1", port=1111)],
    )

    brokers = rewritten(response, version)["brokers"]

    ports = {each["brokerid"]: each["port"] for each in brokers}
    assert ports == {1: 9001, A.node_id: 9000, B.node_id: 9100}


def test_describe_topic_partitions_marks_the_gateways_topic_as_internal() -> None:
    topics = [
        m.DescribeTopicPartitionsResponseTopic(name=name, topic_id=bytes(range(16)))
        for name in ("first", TOPIC)
    ]

    read = rewritten(m.DescribeTopicPartitionsResponse(topics=topics), 0)

    assert [topic["isinternal"] for topic in read["topics"]] == [False, True]


def test_the_cursor_at_the_gateways_topic_stays() -> None:
    # `rewritten` refuses bytes after the response.
    cursor = m.Cursor(topic_name=TOPIC, partition_index=7)

    read = rewritten(m.DescribeTopicPartitionsResponse(next_cursor=cursor), 0)

    assert read["nextcursor"] == {"topicname": TOPIC, "partitionindex": 7}


def test_a_request_for_too_many_coordinators_is_invalid() -> None:
    def read(count: int) -> object:
        keys = [""] * count
        request = m.FindCoordinatorRequest(key_type=1, coordinator_keys=keys)
        header = RequestHeaderV0(request.API_KEY, 4, CORRELATION_ID)
        body = encode(request, 4)
        frame = write_request(header, "c", body, flexible=True)
        return make_rewriting().of_coordinators(frame)

    assert read(KEYS_MAX) is not None
    with pytest.raises(MalformedFrame):
        read(KEYS_MAX + 1)


def test_a_broker_with_a_negative_id_is_no_valid_response() -> None:
    with pytest.raises(MalformedFrame, match="-2"):
        rewritten(m.FindCoordinatorResponse(node_id=-2, host="up", port=1), 3)


@pytest.mark.parametrize("version", range(1, 4))
def test_find_coordinator_has_the_address_of_the_brokers_port(version: int) -> None:
    response = m.FindCoordinatorResponse(node_id=5, host="up-5", port=5555)
    read = rewritten(response, version)

    assert (read["nodeid"], read["host"], read["port"]) == (5, "gw-a", 9001)


@pytest.mark.parametrize("version", range(4, 7))
def test_find_coordinator_of_many_keeps_errors(version: int) -> None:
    error = ErrorCode.COORDINATOR_NOT_AVAILABLE
    response = m.FindCoordinatorResponse(
        coordinators=[
            m.Coordinator(key="t", node_id=5, host="up-5", port=5555, error_message=""),
            m.Coordinator(
                key="u", node_id=-1, port=-1, error_code=error, error_message=""
            ),
        ]
    )

    found, missing = rewritten(response, version)["coordinators"]

    assert (found["nodeid"], found["host"], found["port"]) == (5, "gw-a", 9001)
    assert (missing["nodeid"], missing["host"]) == (-1, "")


@pytest.mark.parametrize(("version", "key_type"), [(2, 1), (4, 1), (6, 2)])
def test_every_second_lookup_of_a_moved_coordinator_has_an_unknown_id(
    version: int, key_type: int
) -> None:
    """librdkafka keeps the address of a coordinator whose id stays the same."""
    nodes: tuple[NodeInfo, ...] = (A, B)
    addresses = Addresses(lambda: View(nodes, (), 1), A, lambda: 0.0)
    addresses.learn([UpstreamBroker(4, "up-4", 4444), UpstreamBroker(5, "up-5", 5555)])
    rewriting = make_rewriting(addresses=addresses)

    def look_up(key: str) -> tuple[int, str, int]:
        response = m.FindCoordinatorResponse(
            node_id=5,
            host="up-5",
            port=5555,
            coordinators=[
                m.Coordinator(
                    key=key, node_id=5, host="up-5", port=5555, error_message=""
                )
            ],
        )
        request = m.FindCoordinatorRequest(
            key=key, key_type=key_type, coordinator_keys=[key]
        )
        read = rewritten(response, version, rewriting, request)
        found = read["coordinators"][0] if version >= 4 else read
        return found["nodeid"], found["host"], found["port"]

    assert [look_up("t") for _ in range(2)] == [(5, "gw-b", 9102)] * 2
    nodes = (A,)
    looked_up = [look_up(key) for key in ("t", "u", "t", "u", "t")]

    unknown = FIRST_UNKNOWN_ID + 5 if key_type == 1 else 5
    ids = [unknown, unknown, 5, 5, unknown]
    assert looked_up == [(node_id, "gw-a", 9002) for node_id in ids]


@pytest.mark.parametrize("version", [10, 11, 12])
def test_produce_directs_to_the_new_leaders_port(version: int) -> None:
    partition = m.PartitionProduceResponse(
        index=0, error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER, base_offset=-1
    )
    partition.current_leader.leader_id = 2
    response = m.ProduceResponse(
        responses=[m.TopicProduceResponse(name="t", partition_responses=[partition])],
        node_endpoints=[m.NodeEndpoint(node_id=2, host="up-2", port=2222)],
    )

    read = rewritten(response, version)

    assert [(each["host"], each["port"]) for each in read["nodeendpoints"]] == [
        ("gw-a", 9001)
    ]
    assert read["responses"][0]["partitionresponses"][0]["currentleader"] == {
        "leaderid": 2,
        "leaderepoch": -1,
    }


def test_a_produce_response_without_addresses_is_the_same_object() -> None:
    rewrite = make_rewriting().of(ApiKey.PRODUCE, 12)
    frame = write_response(1, encode(m.ProduceResponse(), 12), tagged=True)

    assert rewrite is not None
    assert rewrite(frame) is frame
    assert make_rewriting().of(ApiKey.PRODUCE, 9) is None


@pytest.mark.parametrize("version", range(6))
def test_a_broker_lists_only_groups_that_it_coordinates(version: int) -> None:
    groups = [
        m.ListedGroup(group_id=kind, protocol_type=kind)
        for kind in ("consumer", "share", "", "streams", "connect")
    ]

    read = rewritten(
        m.ListGroupsResponse(groups=groups),
        version,
        make_rewriting(is_coordination=False),
    )

    assert [each["groupid"] for each in read["groups"]] == ["share", "streams"]


# ApiVersions.


def upstream_versions() -> m.ApiVersionsResponse:
    """Return the response of a broker without the consumer protocol, that has newer
    versions of other APIs, and share groups."""
    ranges = {
        ApiKey.PRODUCE: (0, 20),
        ApiKey.FETCH: (4, 18),
        ApiKey.METADATA: (0, 12),
        ApiKey.API_VERSIONS: (0, 6),
        ApiKey.FIND_COORDINATOR: (0, 3),
        ApiKey.LIST_GROUPS: (0, 3),
        ApiKey.OFFSET_COMMIT: (0, 7),
        71: (0, 0),
    } | dict.fromkeys(REFUSED, (0, 1))
    return m.ApiVersionsResponse(
        api_keys=[
            m.ApiVersion(api_key=key, min_version=low, max_version=high)
            for key, (low, high) in ranges.items()
        ],
        supported_features=[
            m.SupportedFeatureKey(
                name="transaction.version", min_version=1, max_version=2
            ),
            m.SupportedFeatureKey(name="share.version", min_version=1, max_version=1),
            m.SupportedFeatureKey(name="group.version", min_version=0, max_version=9),
        ],
        finalized_features=[
            m.FinalizedFeatureKey(
                name="group.version", max_version_level=9, min_version_level=9
            ),
            m.FinalizedFeatureKey(
                name="transaction.version", max_version_level=2, min_version_level=2
            ),
        ],
    )


def ranges_of(read: dict[str, Any]) -> dict[int, tuple[int, int]]:
    return {
        each["apikey"]: (each["minversion"], each["maxversion"])
        for each in read["apikeys"]
    }


@pytest.mark.parametrize("version", range(5))
@pytest.mark.parametrize("is_coordination", [True, False])
def test_api_versions_joins_both_servers(version: int, is_coordination: bool) -> None:
    rewriting = make_rewriting(is_coordination=is_coordination)

    read = rewritten(upstream_versions(), version, rewriting)

    found = ranges_of(read)
    assert len(read["apikeys"]) == len(found), "each API once"
    assert found[ApiKey.PRODUCE] == (0, 13)
    assert found[ApiKey.FETCH] == (4, 18)
    assert found[ApiKey.METADATA] == (0, 12)
    assert found[ApiKey.API_VERSIONS] == (0, 4)
    assert found[ApiKey.FIND_COORDINATOR] == (0, 3)
    assert found[71] == (0, 0)
    assert found[ApiKey.LIST_GROUPS] == (0, 5)
    for key in (ApiKey.CONSUMER_GROUP_HEARTBEAT, ApiKey.OFFSET_COMMIT):
        assert found[key] == ADVERTISED[key]
    assert not found.keys() & REFUSED
    assert ApiKey.CONSUMER_GROUP_PREPARE_ASSIGNMENT not in found


@pytest.mark.parametrize("version", [3, 4])
def test_api_versions_has_the_gateways_group_version(version: int) -> None:
    read = rewritten(upstream_versions(), version)

    supported = sorted(each["name"] for each in read["supportedfeatures"])
    finalized = sorted(
        (each["name"], each["maxversionlevel"]) for each in read["finalizedfeatures"]
    )
    assert finalized == [("group.version", 1), ("transaction.version", 2)]
    expected = ["group.version"] * (version > 3) + ["transaction.version"]
    assert supported == expected
    assert read["finalizedfeaturesepoch"] == 0


@pytest.mark.parametrize("version", range(5))
def test_upstreams_refusal_of_a_version_stays_a_refusal(version: int) -> None:
    refusal = upstream_versions()
    refusal.error_code = ErrorCode.UNSUPPORTED_VERSION
    frame = write_response(CORRELATION_ID, encode(refusal, 0), tagged=False)
    rewrite = make_rewriting().of(ApiKey.API_VERSIONS, version)
    assert rewrite is not None

    judge = KioJudge(m.ApiVersionsResponse, 0)
    read = judge.plain(judge.read(rewrite(frame)[SIZE_BYTES + 4 :]))

    assert read["errorcode"] == ErrorCode.UNSUPPORTED_VERSION
    assert ranges_of(read) == {ApiKey.API_VERSIONS: (0, 4)}


@pytest.mark.parametrize("version", [5, 6, 100, -1])
def test_an_unknown_version_of_api_versions_is_refused_in_version_0(
    version: int,
) -> None:
    refusal = make_rewriting().own_response(
        ApiKey.API_VERSIONS, version, CORRELATION_ID
    )
    assert refusal is not None

    judge = KioJudge(m.ApiVersionsResponse, 0)
    read = judge.plain(judge.read(refusal[SIZE_BYTES + 4 :]))

    assert read["errorcode"] == ErrorCode.UNSUPPORTED_VERSION
    assert ranges_of(read) == {ApiKey.API_VERSIONS: (0, 4)}


# What is not rewritten.


@pytest.mark.parametrize("key", CAPS)
def test_versions_that_cannot_be_rewritten_are_not_served(key: int) -> None:
    rewriting = make_rewriting()

    with pytest.raises(MalformedFrame, match="is not served"):
        rewriting.of(key, CAPS[key].high + 1)


@pytest.mark.parametrize("key", REFUSED)
def test_share_and_streams_groups_are_not_served(key: int) -> None:
    with pytest.raises(MalformedFrame, match="is not served"):
        make_rewriting().of(key, 0)


@pytest.mark.parametrize("key", CAPS)
def test_truncated_responses_are_refused(key: int) -> None:
    response = api_of(ApiKey(key)).response
    version = CAPS[key].high
    rewrite = rewrite_of(make_rewriting(), key, version)
    whole = encode(metadata() if key == ApiKey.METADATA else response(), version)
    tagged = key != ApiKey.API_VERSIONS and version in response.FLEXIBLE
    if key == ApiKey.DESCRIBE_TOPIC_PARTITIONS:
        return  # not decoded

    with pytest.raises(MalformedFrame):
        rewrite(write_response(1, whole[:5], tagged=tagged))


@pytest.mark.parametrize("version", range(7))
def test_coordinators_of_groups_are_not_those_of_upstream(version: int) -> None:
    def frame(key_type: int) -> bytes:
        return frame_of_find_coordinator(
            version, m.FindCoordinatorRequest(key="k", key_type=key_type)
        )

    rewriting = make_rewriting()

    assert rewriting.of_coordinators(frame(0)) is None
    assert (rewriting.of_coordinators(frame(1)) is None) == (version == 0)


def test_a_leader_learned_from_upstream_gets_a_port() -> None:
    view = View((A,), (), 1)
    addresses = Addresses(lambda: view, A)
    news: list[int] = []
    addresses.on_new = lambda: news.append(len(addresses.ids))

    addresses.learn([UpstreamBroker(7, "up", 1), UpstreamBroker(2, "up", 2)])
    addresses.learn([UpstreamBroker(7, "moved", 3)])

    assert news == [2]
    assert addresses.ids == (2, 7)
    assert addresses.brokers[7] == ("moved", 3)
    assert addresses.advertised(7) == ("gw-a", 9002)


def test_nodes_order_the_brokers_that_any_of_them_knows() -> None:
    b = NodeInfo(name="b", host="gw-b", port=9100, broker_port=9101, brokers=[1, 2])
    view = View((A, b), (), 1)
    addresses = Addresses(lambda: view, A)

    addresses.learn([UpstreamBroker(2, "up", 2), UpstreamBroker(3, "up", 3)])

    assert addresses.ids == (1, 2, 3)
    assert addresses.advertised(3) == ("gw-a", 9003)
    b.brokers = [0, 1, 2]
    view = View((A, b), (), 2)
    assert addresses.advertised(3) == ("gw-b", 9104)
    assert len(addresses.ids) == 4
