"""ConsumerGroupDescribe for one group: what is told of it, and to whom."""

from __future__ import annotations

from typing import Any

import pytest

from coterie.coordinator.consumer.group import ConsumerGroup
from coterie.coordinator.consumer.member import ClassicFace, Member, MemberState
from coterie.coordinator.consumer.records import group_records
from coterie.coordinator.describe.describe_consumer_groups import DescribeConsumerGroup
from coterie.coordinator.result import Result
from coterie.errors import ApiError
from coterie.wire.codec import decode, encode
from coterie.wire.error_codes import ErrorCode
from coterie.wire.messages.consumer_group_describe import (
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)
from tests.coordinator.consumer.groups import GroupDriver, topic_id

FOO, BAR = topic_id("foo"), topic_id("bar")
CLASSIC = ClassicFace(session_timeout_ms=10_000, protocols=(("range", b""),))


@pytest.fixture
def driver() -> GroupDriver:
    return GroupDriver()


def describe(driver: GroupDriver, group_id: str = "g", version: int = 1) -> Any:
    """The group as a client of that version reads it."""
    sent = driver.send(DescribeConsumerGroup(group_id), version=version)
    data = encode(ConsumerGroupDescribeResponse(groups=[sent.response]), version)
    response, _ = decode(ConsumerGroupDescribeResponse, version, data)
    return response.groups[0]


def put(driver: GroupDriver, *members: Member, epoch: int = 5) -> ConsumerGroup:
    """A group of these members, as if its log said so."""
    group = ConsumerGroup("g")
    group.epoch = group.assignment_epoch = epoch
    for member in members:
        group.put_member(member)
    driver.settle(Result(records=tuple(group_records(group))))
    return driver.group


def partitions(assignment: Any) -> dict[str, list[int]]:
    """An assignment by the names of topics, whose ids must fit."""
    for topic in assignment.topic_partitions:
        assert topic.topic_id == topic_id(topic.topic_name)
    return {topic.topic_name: topic.partitions for topic in assignment.topic_partitions}


@pytest.mark.fact("E16-02", "E16-13", "F5-23")
def test_everything_is_told_of_a_group(driver: GroupDriver) -> None:
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
    assert member.subscribed_topic_regex is None
    assert partitions(member.assignment) == {"foo": [0, 1, 2, 3, 4, 5]}
    assert partitions(member.target_assignment) == {"foo": [0, 1, 2, 3, 4, 5]}


def test_without_a_wish_of_members_the_first_assignor_is_in_use(
    driver: GroupDriver,
) -> None:
    driver.join("m")
    assert describe(driver).assignor_name == "uniform"


@pytest.mark.fact("F6-02", "E16-10")
def test_what_a_member_has_yet_to_revoke_it_still_has(driver: GroupDriver) -> None:
    driver.assigns({"m": {"foo": [0, 1, 2, 3], "bar": [0]}})
    driver.join("m", ["foo", "bar"])
    driver.assigns({"m": {"foo": [0, 1]}, "n": {"foo": [2, 3], "bar": [0]}})
    driver.join("n", ["foo", "bar"])
    driver.heartbeat("m", 1)
    assert driver.member("m").state is MemberState.UNREVOKED_PARTITIONS
    group = describe(driver)
    assert group.group_state == "Reconciling"
    first, second = sorted(group.members, key=lambda member: member.member_id)
    assert partitions(first.assignment) == {"foo": [0, 1, 2, 3], "bar": [0]}
    assert partitions(first.target_assignment) == {"foo": [0, 1]}
    assert partitions(second.assignment) == {}
    assert partitions(second.target_assignment) == {"foo": [2, 3], "bar": [0]}


@pytest.mark.fact("E16-03")
@pytest.mark.parametrize(("version", "shown"), [(0, [-1, -1]), (1, [0, 1])])
def test_version_1_tells_which_protocol_a_member_speaks(
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
def test_a_topic_that_is_gone_is_left_out(driver: GroupDriver) -> None:
    driver.join("m", ["foo", "bar"])
    del driver.topics.counts["foo"]
    [member] = describe(driver).members
    assert partitions(member.assignment) == {"bar": [0, 1, 2]}
    assert partitions(member.target_assignment) == {"bar": [0, 1, 2]}


@pytest.mark.fact("E16-04")
def test_a_group_nobody_knows_is_not_found(driver: GroupDriver) -> None:
    assert describe(driver, "gone") == DescribedGroup(
        group_id="gone", error_code=69, error_message="Group gone not found."
    )


@pytest.mark.fact("E16-04")
def test_a_classic_group_is_not_found(driver: GroupDriver) -> None:
    driver.commit({("foo", 0): 1})
    assert describe(driver) == DescribedGroup(
        group_id="g", error_code=69, error_message="Group g is not a consumer group."
    )


@pytest.mark.fact("E16-06", "F5-29")
@pytest.mark.parametrize("hidden", ["foo", "bar", "nowhere"])
def test_one_topic_that_may_not_be_known_hides_the_group(
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


@pytest.mark.fact("E16-05", "H-113")
def test_a_refusal_is_the_groups_own(driver: GroupDriver) -> None:
    code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    refusal = driver.shard.refuse(DescribeConsumerGroup("g"), None, code)
    assert refusal == DescribedGroup(group_id="g", error_code=14)
