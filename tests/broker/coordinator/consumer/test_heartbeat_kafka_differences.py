"""Heartbeats where KIP-848 and Apache Kafka differ (F.5), and details of E7."""

from __future__ import annotations

from dataclasses import replace

import pytest

from coterie.broker.coordinator.admin import (
    DescribeConsumerGroup,
)
from coterie.broker.coordinator.assignors.spec import GroupSpec
from coterie.broker.coordinator.records import (
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
)
from coterie.settings import Settings
from coterie.wire import messages as m
from coterie.wire.error_codes import ErrorCode
from coterie.wire.schema import Struct
from tests.broker.coordinator.consumer.groups import GroupDriver, received_assignment
from tests.broker.coordinator.requests import topic_id

EVERYTHING = {"foo": [0, 1, 2, 3, 4, 5]}


@pytest.fixture
def driver() -> GroupDriver:
    return GroupDriver()


def fields(struct: type[Struct]) -> set[str]:
    return set(struct.__annotations__)


# The heartbeat.


@pytest.mark.fact("E1-02", "E1-04", "E7-20", "F5-03")
def test_one_api_serves_joins_subscriptions_owned_partitions_and_leaves(
    driver: GroupDriver,
) -> None:
    joined = driver.join("m")
    assert received_assignment(joined) == EVERYTHING
    lives = driver.heartbeat("m", 1, owned=EVERYTHING)
    wants = driver.heartbeat("m", 1, subscribed_topic_names=["foo", "bar"])
    leaves = driver.heartbeat("m", -1)
    for sent in (joined, lives, wants, leaves):
        assert sent.response.member_id == "m"


@pytest.mark.fact("E1-01", "E1-03")
def test_a_member_that_keeps_its_partitions_advances_without_revoking(
    driver: GroupDriver,
) -> None:
    driver.join("m")
    driver.join("n")
    driver.settled("m", "n")
    before = dict(driver.member("m").assigned)
    driver.heartbeat("n", -1)
    answer = driver.heartbeat("m", 2)
    assert set(before[topic_id("foo")]) <= set(
        (received_assignment(answer) or {})["foo"]
    )
    assert answer.response.member_epoch == 3


@pytest.mark.fact("E7-54")
def test_an_error_response_has_only_a_code_and_a_message(driver: GroupDriver) -> None:
    refused = driver.heartbeat("m", 5).response
    assert refused == m.ConsumerGroupHeartbeatResponse(
        error_code=ErrorCode.GROUP_ID_NOT_FOUND, error_message=refused.error_message
    )
    assert refused.error_message


@pytest.mark.fact("E7-52")
def test_partitions_that_other_members_must_revoke_are_not_assigned(
    driver: GroupDriver,
) -> None:
    driver.join("m")
    assert received_assignment(driver.join("n")) == {}
    assert driver.group.target("n")
    assert "pending_topic_partitions" not in fields(m.Assignment)


@pytest.mark.fact("E7-35", "E7-36")
def test_fields_omitted_from_a_heartbeat_keep_their_values(driver: GroupDriver) -> None:
    driver.join("m", rack_id="r", server_assignor="range")
    driver.heartbeat("m", 1)
    assert not driver.wrote
    driver.heartbeat("m", 1, rebalance_timeout_ms=7)
    assert driver.wrote_types == ["member"]
    member = driver.member("m")
    assert (member.rack_id, member.server_assignor) == ("r", "range")
    assert (member.topic_names, member.rebalance_timeout_ms) == (("foo",), 7)


@pytest.mark.fact("E7-35a", "E6-20")
def test_client_id_and_host_are_always_updated(driver: GroupDriver) -> None:
    driver.join("m")
    request = m.ConsumerGroupHeartbeatRequest(
        group_id="g", member_id="m", member_epoch=1
    )
    driver.send(request, version=1, client_id="another", client_host="/10.0.0.1")
    assert driver.wrote_types == ["member"]
    member = driver.member("m")
    assert (member.client_id, member.client_host) == ("another", "/10.0.0.1")


@pytest.mark.fact("E7-37", "E6-13", "E7-37a")
def test_only_changed_subscriptions_or_topics_bump_the_epoch(
    driver: GroupDriver,
) -> None:
    driver.join("m")
    driver.heartbeat("m", 1, rack_id="r2", rebalance_timeout_ms=9)
    assert driver.group.epoch == 1
    driver.heartbeat("m", 1, subscribed_topic_names=["foo"])
    assert driver.group.epoch == 1
    driver.heartbeat("m", 1, subscribed_topic_names=["foo", "bar"])
    assert driver.group.epoch == 2


@pytest.mark.fact("E7-41")
def test_a_heartbeat_reconciles_only_the_sending_member(driver: GroupDriver) -> None:
    driver.join("m")
    before = driver.member("m")
    driver.join("n")
    driver.heartbeat("n", 2)
    assert driver.member("m") is before


@pytest.mark.fact("E7-65")
def test_a_member_that_left_cannot_commit(driver: GroupDriver) -> None:
    driver.join("m")
    driver.join("n")
    driver.heartbeat("m", -1)
    codes = driver.commit(
        {("foo", 0): 5}, member_id="m", generation_id_or_member_epoch=1
    )
    assert set(codes.values()) == {ErrorCode.UNKNOWN_MEMBER_ID}


@pytest.mark.fact("E10-06", "E7-32")
def test_a_fenced_member_may_rejoin_with_its_id(driver: GroupDriver) -> None:
    driver.join("m")
    driver.join("n")
    driver.settled("m", "n")
    assert driver.heartbeat("m", 9).error == ErrorCode.FENCED_MEMBER_EPOCH
    assert "m" in driver.group.members
    assert driver.join("m").response.member_epoch == 2


@pytest.mark.fact("F5-07")
def test_a_lost_response_is_detected_by_the_assigned_partitions_not_the_target(
    driver: GroupDriver,
) -> None:
    driver.join("m")
    driver.join("n")
    driver.heartbeat("m", 1)
    kept = {"foo": [*driver.member("m").assigned[topic_id("foo")]]}
    driver.heartbeat("m", 1, owned=kept)
    driver.join("o", ["bar"])
    assert driver.heartbeat("m", 1, owned=kept).error == ErrorCode.NONE
    assert driver.heartbeat("m", 1).error == ErrorCode.FENCED_MEMBER_EPOCH


# Member ids.


@pytest.mark.fact("F5-04", "E10-03")
def test_any_non_empty_member_id_is_accepted(driver: GroupDriver) -> None:
    first = driver.join("", version=0).response.member_id
    assert driver.heartbeat(first, 1, version=0).error == ErrorCode.NONE
    for odd in ("x", "äöü", "with space", "m" * 200):
        assert driver.join(odd).response.member_id == odd


@pytest.mark.fact("E10-05")
def test_with_server_generated_ids_a_repeated_join_adds_a_second_member(
    driver: GroupDriver,
) -> None:
    driver.join("", version=0)
    second = driver.join("", version=0).response.member_id
    assert len(driver.group.members) == 2
    driver.advance(44_000)
    driver.heartbeat(second, driver.member(second).epoch, version=0)
    driver.advance(1_000)
    assert list(driver.group.members) == [second]


# Assignors.


@pytest.mark.fact("E12-07", "F5-14")
def test_uniform_is_the_default(driver: GroupDriver) -> None:
    assert Settings().group_consumer_assignors == ("uniform", "range")
    driver.join("m")
    described = driver.send(DescribeConsumerGroup("g"), version=1).response
    assert described.assignor_name == "uniform"


@pytest.mark.fact("E12-06")
def test_describing_a_group_returns_the_preferred_assignor(driver: GroupDriver) -> None:
    driver.join("m", server_assignor="range")
    described = driver.send(DescribeConsumerGroup("g"), version=1).response
    assert described.assignor_name == "range"


@pytest.mark.fact("E12-05")
def test_an_unsupported_assignor_is_refused_with_the_supported_ones(
    driver: GroupDriver,
) -> None:
    sent = driver.join("m", server_assignor="clever")
    assert sent.error == ErrorCode.UNSUPPORTED_ASSIGNOR
    assert "uniform" in sent.response.error_message


@pytest.mark.fact("E6-21")
def test_a_changed_list_of_assignors_applies_to_the_next_target() -> None:
    before = GroupDriver()
    before.join("m")
    after = GroupDriver(
        shard=before.shard,
        settings=replace(before.settings, group_consumer_assignors=("range",)),
        now_ms=before.now_ms,
    )
    after.heartbeat("m", 1)
    assert after.group.epoch == 1
    after.join("n", ["foo", "bar"])
    after.settled("m", "n")
    assert after.member("m").assigned[topic_id("foo")].keys() == {0, 1, 2}


@pytest.mark.fact("E11-02", "E11-02a", "E11-03")
def test_the_assignor_receives_members_subscriptions_and_targets(
    driver: GroupDriver,
) -> None:
    asked: list[GroupSpec] = []

    def assign(spec: GroupSpec) -> dict[str, dict[bytes, list[int]]]:
        asked.append(spec)
        return {"m": {topic_id("foo"): [0]}}

    driver.assigns(assign)
    driver.join("m", rack_id="r", instance_id="i")
    driver.join("n", ["foo", "nowhere"])
    spec = asked[-1]
    assert spec.members["m"].partitions == {topic_id("foo"): frozenset({0})}
    assert (spec.members["m"].rack_id, spec.members["m"].instance_id) == ("r", "i")
    assert spec.members["n"].subscribed_topic_ids == {topic_id("foo")}
    assert spec.topics[topic_id("foo")].partition_count == 6


# Fields of records, and states of later versions.


def test_records_have_kafkas_fields() -> None:
    assert fields(ConsumerGroupMetadataValue) >= {"epoch", "metadata_hash"}
    assert "server_assignor" in fields(ConsumerGroupMemberMetadataValue)
    current = fields(ConsumerGroupCurrentMemberAssignmentValue)
    assert {"state", "previous_member_epoch"} <= current
    assert {"group_id", "member_id"} == fields(ConsumerGroupTargetAssignmentMemberKey)
    target = fields(ConsumerGroupTargetAssignmentMemberValue)
    assert "topic_partitions" in target
    assert "assignment_epoch" not in target


def test_the_first_epoch_is_one(driver: GroupDriver) -> None:
    assert driver.join("m").response.member_epoch == 1


@pytest.mark.fact("E30-04")
def test_a_member_with_an_unknown_state_is_fenced_and_can_rejoin(
    driver: GroupDriver,
) -> None:
    driver.join("m")
    for record in driver.log:
        value = record.value
        if isinstance(value, ConsumerGroupCurrentMemberAssignmentValue):
            value.state = 42
    loaded = GroupDriver(shard=driver.reload().shard)
    assert loaded.heartbeat("m", 1).error == ErrorCode.FENCED_MEMBER_EPOCH
    assert received_assignment(loaded.join("m")) == EVERYTHING


def test_classic_and_consumer_groups_share_a_shard(driver: GroupDriver) -> None:
    driver.join("m")
    driver.commit({("foo", 0): 1}, group_id="old", generation_id_or_member_epoch=-1)
    assert driver.state.consumer_groups.keys() == {"g"}
    assert driver.state.classic_groups.keys() == {"old"}
