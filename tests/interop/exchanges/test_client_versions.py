"""The versions and fields that particular clients insist on."""

from __future__ import annotations

import base64
import secrets
from typing import Any

import pytest

from coterie.wire import messages as m
from coterie.wire.api import ApiKey
from coterie.wire.codec import encode
from tests.broker.server.harness import WireClient

from .members import commit, heartbeat, join_request, leave_consumer, topic_id

TOPIC = 2
FENCED_OR_UNKNOWN = 25


@pytest.mark.fact("G4-04")
def test_librdkafka_before_2_11_needs_version_0_of_the_group_apis(
    wire: WireClient, group: str, topic: str
) -> None:
    versions = wire.call(m.ApiVersionsRequest(), 0)
    lowest = {each.api_key: each.min_version for each in versions.api_keys}
    apis = ("FIND_COORDINATOR", "JOIN_GROUP", "SYNC_GROUP", "HEARTBEAT", "LEAVE_GROUP")
    assert {lowest[ApiKey[name]] for name in apis} == {0}
    assert wire.call(m.FindCoordinatorRequest(key=group), 0).error_code == 0
    joined = wire.call(join_request(group, topic), 0)
    assert (joined.error_code, joined.leader) == (0, joined.member_id)
    share = bytes(2) + encode(m.ConsumerProtocolAssignment(), 0)
    given = m.SyncGroupRequestAssignment(member_id=joined.member_id, assignment=share)
    member: dict[str, Any] = {"group_id": group, "member_id": joined.member_id}
    generation = {"generation_id": joined.generation_id}
    synced = wire.call(
        m.SyncGroupRequest(**member, **generation, assignments=[given]), 0
    )
    assert (synced.error_code, synced.assignment) == (0, share)
    assert wire.call(m.HeartbeatRequest(**member, **generation), 0).error_code == 0
    assert wire.call(m.LeaveGroupRequest(**member), 0).error_code == 0
    after = wire.call(m.HeartbeatRequest(**member, **generation), 0)
    assert after.error_code == FENCED_OR_UNKNOWN


@pytest.mark.fact("G4-10")
def test_franz_go_makes_its_member_id_and_requires_stable_offsets(
    wire: WireClient, group: str, topic: str
) -> None:
    member_id = base64.urlsafe_b64encode(secrets.token_bytes(16)).decode()
    assert (len(member_id), member_id[-2:]) == (24, "==")
    joined = heartbeat(
        wire,
        group,
        member_id,
        0,
        rebalance_timeout_ms=30_000,
        subscribed_topic_names=[topic],
        topic_partitions=[],
    )
    assert (joined.error_code, joined.member_id) == (0, member_id)
    requested = m.OffsetFetchRequestGroup(
        group_id=group,
        member_id=member_id,
        member_epoch=joined.member_epoch,
        topics=None,
    )
    stable = m.OffsetFetchRequest(groups=[requested], require_stable=True)
    [empty] = wire.call(stable, 9).groups
    assert (empty.error_code, empty.topics) == (0, [])
    # An error of the group would end the join: the first commit has its own group.
    commit(wire, f"{group}-other", {(topic, 0): 5})
    [fetched] = wire.call(
        m.OffsetFetchRequest(
            groups=[m.OffsetFetchRequestGroup(group_id=f"{group}-other", topics=None)],
            require_stable=True,
        ),
        9,
    ).groups
    assert fetched.error_code == 0
    assert fetched.topics[0].partitions[0].committed_offset == 5
    assert leave_consumer(wire, group, member_id).error_code == 0
    assert topic_id(wire, topic) != bytes(16)


@pytest.mark.fact("H-122")
def test_the_offsets_topic_has_its_configuration(wire: WireClient, ready: str) -> None:
    names = ["cleanup.policy", "compression.type", "segment.bytes"]
    resource = m.DescribeConfigsResource(
        resource_type=TOPIC,
        resource_name="__consumer_offsets",
        configuration_keys=names,
    )
    [result] = wire.call(m.DescribeConfigsRequest(resources=[resource]), 4).results
    assert result.error_code == 0
    assert {each.name: each.value for each in result.configs} == {
        "cleanup.policy": "compact",
        "compression.type": "producer",
        "segment.bytes": "104857600",
    }
    # 5 is the default: all three are set on the topic itself.
    assert {each.config_source for each in result.configs} == {1}
