"""The versions that real clients need are advertised, and old ones are served."""

from __future__ import annotations

from typing import Any

import pytest

from coterie.wire import messages as m
from coterie.wire.api import ApiKey
from tests.broker.server.harness import WireClient

from .members import describe_classic, join_classic, join_request
from .test_offset_delete import request_of as offset_delete

INVALID_GROUP_ID = 24

LIBRDKAFKA_GROUPS = {
    ApiKey.FIND_COORDINATOR: [0],
    ApiKey.OFFSET_COMMIT: [2],
    ApiKey.OFFSET_FETCH: [1],
    ApiKey.JOIN_GROUP: [0],
    ApiKey.SYNC_GROUP: [0],
    ApiKey.HEARTBEAT: [0],
    ApiKey.LEAVE_GROUP: [0],
}
JAVA = {
    ApiKey.PRODUCE: [3],
    ApiKey.FETCH: [4],
    ApiKey.LIST_OFFSETS: [1],
    ApiKey.OFFSET_COMMIT: [2],
    ApiKey.OFFSET_FETCH: [1],
    ApiKey.CONSUMER_GROUP_HEARTBEAT: [0],
    ApiKey.CONSUMER_GROUP_DESCRIBE: [0],
}
LIBRDKAFKA_FEATURES = {
    ApiKey.PRODUCE: [0, 2, 3, 7],
    ApiKey.FETCH: [4, 10],
    ApiKey.FIND_COORDINATOR: [0],
    ApiKey.SASL_HANDSHAKE: [0, 1],
    ApiKey.SASL_AUTHENTICATE: [0, 1],
    ApiKey.INIT_PRODUCER_ID: [0],
    ApiKey.LIST_OFFSETS: [1],
}
KAFKA_PYTHON = {
    ApiKey.JOIN_GROUP: [7],
    ApiKey.SYNC_GROUP: [5],
    ApiKey.OFFSET_COMMIT: [8],
    ApiKey.OFFSET_FETCH: [8],
    ApiKey.PRODUCE: [9],
    ApiKey.FETCH: [12],
    ApiKey.TXN_OFFSET_COMMIT: [3],
    ApiKey.LIST_GROUPS: [4, 5],
    ApiKey.LEAVE_GROUP: [3],
}
AIOKAFKA = {
    ApiKey.API_VERSIONS: [0],
    ApiKey.FIND_COORDINATOR: [0, 1],
    ApiKey.JOIN_GROUP: [0, 1, 2, 5],
    ApiKey.SYNC_GROUP: [0, 1, 3],
    ApiKey.HEARTBEAT: [0, 1],
    ApiKey.LEAVE_GROUP: [0, 1],
    ApiKey.OFFSET_COMMIT: [2, 3],
    ApiKey.OFFSET_FETCH: [1, 2, 3],
    ApiKey.PRODUCE: [7],
    ApiKey.FETCH: [11],
    ApiKey.LIST_OFFSETS: [3],
    ApiKey.METADATA: [5],
    ApiKey.INIT_PRODUCER_ID: [0],
    ApiKey.DESCRIBE_GROUPS: [0, 1, 2, 3],
    ApiKey.LIST_GROUPS: [0, 1, 2],
    ApiKey.DELETE_GROUPS: [0, 1],
}
FRANZ_GO = {ApiKey.CONSUMER_GROUP_HEARTBEAT: [1], ApiKey.OFFSET_FETCH: [7]}
SARAMA = {ApiKey.JOIN_GROUP: [2, 3, 4, 5, 6, 7, 8]}


@pytest.fixture
def advertised(wire: WireClient) -> dict[int, tuple[int, int]]:
    """The lowest and the highest version of each key."""
    found = wire.call(m.ApiVersionsRequest(), 0).api_keys
    return {each.api_key: (each.min_version, each.max_version) for each in found}


@pytest.mark.parametrize(
    "needed",
    [
        pytest.param(JAVA, marks=pytest.mark.fact("G4-01"), id="java"),
        pytest.param(
            {ApiKey.API_VERSIONS: [3]}, marks=pytest.mark.fact("G4-02"), id="first"
        ),
        pytest.param(
            LIBRDKAFKA_GROUPS, marks=pytest.mark.fact("G4-03"), id="librdkafka"
        ),
        pytest.param(
            {ApiKey.JOIN_GROUP: [0]}, marks=pytest.mark.fact("G4-04"), id="gssapi"
        ),
        pytest.param(
            LIBRDKAFKA_FEATURES, marks=pytest.mark.fact("G4-05"), id="features"
        ),
        pytest.param(KAFKA_PYTHON, marks=pytest.mark.fact("G4-08"), id="kafka-python"),
        pytest.param(AIOKAFKA, marks=pytest.mark.fact("G4-09"), id="aiokafka"),
        pytest.param(FRANZ_GO, marks=pytest.mark.fact("G4-10"), id="franz-go"),
        pytest.param(SARAMA, marks=pytest.mark.fact("G4-11"), id="sarama"),
    ],
)
def test_the_versions_that_a_client_needs_are_advertised(
    advertised: dict[int, tuple[int, int]], needed: dict[ApiKey, list[int]]
) -> None:
    missing = {
        (key.name, version)
        for key, versions in needed.items()
        for version in versions
        if not advertised[key][0] <= version <= advertised[key][1]
    }
    assert missing == set()


@pytest.mark.fact("G4-13", "F6-08")
def test_the_lowest_versions_are_those_of_old_clients(
    advertised: dict[int, tuple[int, int]],
) -> None:
    lowest = {0: 0, 1: 4, 2: 1, 3: 0, 8: 2, 9: 1}
    lowest |= dict.fromkeys(range(10, 15), 0)
    assert {key: advertised[key][0] for key in lowest} == lowest


@pytest.mark.fact("A-16", "B-05a", "C-10e", "D-50a")
def test_the_ranges_of_the_apis_of_groups(
    advertised: dict[int, tuple[int, int]],
) -> None:
    assert advertised[ApiKey.OFFSET_FETCH] == (1, 10)
    assert advertised[ApiKey.FIND_COORDINATOR] == (0, 6)
    assert advertised[ApiKey.DESCRIBE_GROUPS] == (0, 6)
    assert advertised[ApiKey.OFFSET_DELETE] == (0, 0)


@pytest.mark.fact("G4-06")
@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_member_leaves_by_an_old_leave_group(
    wire: WireClient, group: str, topic: str, version: int
) -> None:
    member = join_classic(wire, group, topic)
    leave = m.LeaveGroupRequest(group_id=group, member_id=member.id)
    assert wire.call(leave, version).error_code == 0
    assert describe_classic(wire, group).group_state == "Empty"


@pytest.mark.fact("G4-12")
@pytest.mark.parametrize("version", [0, 1])
def test_a_member_joins_by_an_old_join_group(
    wire: WireClient, group: str, topic: str, version: int
) -> None:
    joined = wire.call(join_request(group, topic), version)
    assert (joined.error_code, joined.leader) == (0, joined.member_id)
    found = describe_classic(wire, group)
    assert found.group_state == "CompletingRebalance"


@pytest.mark.fact("A-43b")
def test_the_empty_group_id_is_invalid_for_members(wire: WireClient) -> None:
    def errors(response: Any) -> list[int]:
        groups = getattr(response, "groups", None) or [response]
        return [each.error_code for each in groups]

    protocols = [m.JoinGroupRequestProtocol(name="range", metadata=b"")]
    join = m.JoinGroupRequest(
        group_id="",
        session_timeout_ms=10_000,
        member_id="",
        protocol_type="consumer",
        protocols=protocols,
    )
    sync = m.SyncGroupRequest(
        group_id="",
        generation_id=1,
        member_id="m",
        protocol_type="consumer",
        protocol_name="range",
    )
    leave = m.LeaveGroupRequest(group_id="", members=[m.MemberIdentity(member_id="m")])
    beat = m.HeartbeatRequest(group_id="", generation_id=1, member_id="m")
    describe = m.ConsumerGroupDescribeRequest(group_ids=[""])
    found = [
        errors(wire.call(join, 9)),
        errors(wire.call(sync, 5)),
        errors(wire.call(beat, 4)),
        errors(wire.call(leave, 5)),
        errors(wire.call(offset_delete("", [("t", 0)]), 0)),
        errors(wire.call(describe, 1)),
    ]
    assert found == [[INVALID_GROUP_ID]] * 6
