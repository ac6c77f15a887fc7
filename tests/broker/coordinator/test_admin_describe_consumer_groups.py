"""ConsumerGroupDescribe for one group: content, errors and authorization."""

from __future__ import annotations

from typing import Any

import pytest

from coterie.broker.coordinator.admin import (
    DescribeConsumerGroup,
)
from coterie.broker.coordinator.consumer.group import ConsumerGroup
from coterie.broker.coordinator.consumer.member import (
    ClassicMemberInfo,
    Member,
)
from coterie.broker.coordinator.consumer.record_builders import group_records
from coterie.broker.coordinator.result import Result
from coterie.errors import ApiError
from coterie.wire import messages as m
from coterie.wire.codec import decode, encode
from coterie.wire.error_codes import ErrorCode
from tests.broker.coordinator.consumer.groups import GroupDriver
from tests.broker.coordinator.requests import topic_id

FOO, BAR = topic_id("foo"), topic_id("bar")
CLASSIC = ClassicMemberInfo(session_timeout_ms=10_000, protocols=(("range", b""),))


@pytest.fixture
def driver() -> GroupDriver:
    return GroupDriver()


def describe(driver: GroupDriver, group_id: str = "g", version: int = 1) -> Any:
    """Return the group's description as a client of that version decodes it."""
    sent = driver.send(DescribeConsumerGroup(group_id), version=version)
    data = encode(m.ConsumerGroupDescribeResponse(groups=[sent.response]), version)
    response, _ = decode(m.ConsumerGroupDescribeResponse, version, data)
    return response.groups[0]


def put(driver: GroupDriver, *members: Member, epoch: int = 5) -> ConsumerGroup:
    """Replay the records of a group with these members, and return it."""
    group = ConsumerGroup("g")
    group.epoch = group.assignment_epoch = epoch
    for member in members:
        group.put_member(member)
    driver.settle(Result(records=tuple(group_records(group))))
    return driver.group


def partitions(assignment: Any) -> dict[str, list[int]]:
    """Check the topic ids of an assignment, and return its partitions by topic name."""
    for topic in assignment.topic_partitions:
        assert topic.topic_id == topic_id(topic.topic_name)
    return {topic.topic_name: topic.partitions for topic in assignment.topic_partitions}


@pytest.mark.fact("E16-02")
def test_a_description_has_every_field(driver: GroupDriver) -> None:
    driver.join(
        "m",
        ["foo", "nowhere"],
        instance_id="i",
        rack_id="r",
        server_assignor="range",
    )
    group = describe(driver)
    assert (group.error_code, group.error_message, group.group_id) == (0, None, "g")
    assert (group.group_state, group.assignor_name) == ("Stable", "range")
    assert (group.group_epoch, group.assignment_epoch) == (1, 1)
    assert group.authorized_operations == -2_147_483_648
    [member] = group.members
    assert (member.member_id, member.instance_id, member.rack_id) == ("m", "i", "r")
    assert (member.client_id, member.client_host) == ("client", "/127.0.0.1")
    assert (member.member_epoch, member.member_type) == (1, 1)
    assert member.subscribed_topic_names == ["foo", "nowhere"]
    assert member.subscribed_topic_regex == ""
    assert partitions(member.assignment) == {"foo": [0, 1, 2, 3, 4, 5]}
    assert partitions(member.target_assignment) == {"foo": [0, 1, 2, 3, 4, 5]}


def test_without_a_preferred_assignor_the_first_configured_one_is_described(
    driver: GroupDriver,
) -> None:
    driver.join("m")
    assert describe(driver).assignor_name == "uniform"


@pytest.mark.fact("E16-03")
@pytest.mark.parametrize(("version", "shown"), [(0, [-1, -1]), (1, [0, 1])])
def test_version_1_has_the_type_of_each_member(
    driver: GroupDriver, version: int, shown: list[int]
) -> None:
    put(
        driver,
        Member(member_id="old", epoch=5, classic=CLASSIC),
        Member(member_id="young", epoch=5),
    )
    members = describe(driver, version=version).members
    assert [member.member_type for member in members] == shown


@pytest.mark.fact("E16-11")
def test_a_deleted_topic_is_omitted(driver: GroupDriver) -> None:
    driver.join("m", ["foo", "bar"])
    del driver.topics.counts["foo"]
    [member] = describe(driver).members
    assert partitions(member.assignment) == {"bar": [0, 1, 2]}
    assert partitions(member.target_assignment) == {"bar": [0, 1, 2]}


@pytest.mark.fact("E16-04")
def test_an_unknown_group_is_not_found(driver: GroupDriver) -> None:
    assert describe(driver, "gone") == m.DescribedConsumerGroup(
        group_id="gone", error_code=69, error_message="Group gone not found."
    )


@pytest.mark.fact("E16-04a")
def test_a_classic_group_is_not_found(driver: GroupDriver) -> None:
    driver.commit({("foo", 0): 1})
    assert describe(driver) == m.DescribedConsumerGroup(
        group_id="g", error_code=69, error_message="Group g is not a consumer group."
    )


@pytest.mark.fact("E16-06a")
@pytest.mark.parametrize("hidden", ["foo", "bar"])
def test_describing_a_group_without_permission_for_one_of_its_topics_is_refused(
    driver: GroupDriver, hidden: str
) -> None:
    driver.assigns({"m": {"foo": [0], "bar": [0]}})
    driver.join("m", ["foo", "nowhere"])
    context = driver._context(0, 1, "", "")
    context = context._replace(may_describe=lambda topic: topic != hidden)
    with pytest.raises(ApiError) as caught:
        driver.shard.handle(DescribeConsumerGroup("g"), context)
    assert caught.value.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED
    refusal = driver.shard.refuse(
        DescribeConsumerGroup("g"), context, caught.value.code, caught.value.message
    )
    assert (refusal.error_code, refusal.members) == (29, [])
    assert (refusal.group_state, refusal.group_epoch) == ("", 0)
    assert "not authorized to describe" in refusal.error_message


@pytest.mark.fact("E16-06b")
def test_a_subscribed_topic_without_partitions_needs_no_permission(
    driver: GroupDriver,
) -> None:
    driver.assigns({"m": {"foo": [0]}})
    driver.join("m", ["foo", "bar", "nowhere"])
    context = driver._context(0, 1, "", "")
    context = context._replace(may_describe=lambda topic: topic == "foo")
    result = driver.shard.handle(DescribeConsumerGroup("g"), context)
    [member] = result.response.members
    assert member.subscribed_topic_names == ["bar", "foo", "nowhere"]


@pytest.mark.fact("H-113a")
def test_an_error_response_has_only_group_id_and_error_code(
    driver: GroupDriver,
) -> None:
    code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    refusal = driver.shard.refuse(
        DescribeConsumerGroup("g"), driver._context(1, 0, "", ""), code
    )
    assert refusal == m.DescribedConsumerGroup(group_id="g", error_code=14)
