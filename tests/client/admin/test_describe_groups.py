"""Descriptions of groups whose protocol is unknown to the caller."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from coterie.auth.acl import Operation
from coterie.client.admin.groups import (
    GroupDescription,
    GroupState,
    GroupType,
    MemberDescription,
)
from coterie.client.admin.results import OPERATIONS_OMITTED, authorized_operations
from coterie.errors import ApiError, UnsupportedByBroker
from coterie.types import TopicPartition
from coterie.wire import messages as m
from coterie.wire.api import ApiKey
from coterie.wire.codec import encode
from coterie.wire.error_codes import ErrorCode
from coterie.wire.schema import Message, Versions
from tests.client.admin.scripted_coordinators import (
    KAFKA_0_11,
    KAFKA_2_8,
    NEW,
    ScriptedCoordinators,
)

pytestmark = pytest.mark.asyncio


def embedded(value: Message, version: int) -> bytes:
    """Encode a message after its version, as in the metadata of a member."""
    return struct.pack(">h", version) + encode(value, min(version, 3))


def classic(**fields: Any) -> m.DescribedGroup:
    values = {"group_id": "g", "group_state": "Stable", "protocol_type": "consumer"}
    return m.DescribedGroup(**(values | fields))


def classic_member(**fields: Any) -> m.DescribedGroupMember:
    values = {"member_id": "m", "client_id": "c", "client_host": "/10.0.0.1"}
    return m.DescribedGroupMember(**(values | fields))


async def described(
    group: m.DescribedGroup | m.DescribedConsumerGroup,
    version: int | None = None,
    **options: Any,
) -> GroupDescription:
    """Describe the group "g" of a broker that returns the given group."""
    async with ScriptedCoordinators() as coordinators, coordinators.admin() as admin:
        (broker,) = coordinators.brokers
        key = ApiKey.DESCRIBE_GROUPS
        answer: Message = m.ConsumerGroupDescribeResponse()
        if isinstance(group, m.DescribedConsumerGroup):
            key = ApiKey.CONSUMER_GROUP_DESCRIBE
            answer = m.ConsumerGroupDescribeResponse(groups=[group])
        else:
            answer = m.DescribeGroupsResponse(groups=[group])
        broker.answers[key] = lambda _: answer
        if version is not None:
            broker.versions[key] = Versions(0, version)
        return (await admin.describe_groups(["g"], **options)).one("g")


async def only_member(*args: Any) -> MemberDescription:
    (member,) = (await described(*args)).members
    return member


# The API that is used.


@pytest.mark.fact("E16-12", "E16-12a")
async def test_groups_that_are_not_consumer_groups_use_describe_groups() -> None:
    async with ScriptedCoordinators() as coordinators, coordinators.admin() as admin:
        coordinators.consumer_groups = {"new"}
        groups = (await admin.describe_groups(["old", "new"])).all()
        assert groups["old"].type is GroupType.CLASSIC
        assert groups["new"].type is GroupType.CONSUMER
        (first,) = coordinators.asked(m.ConsumerGroupDescribeRequest)
        assert first.group_ids == ["old", "new"]
        (second,) = coordinators.asked(m.DescribeGroupsRequest)
        assert second.groups == ["old"]


@pytest.mark.fact("E16-12")
async def test_unsupported_version_of_a_group_falls_back_to_describe_groups() -> None:
    async with ScriptedCoordinators() as coordinators, coordinators.admin() as admin:
        refusal = m.DescribedConsumerGroup(
            group_id="g", error_code=ErrorCode.UNSUPPORTED_VERSION
        )
        answer = m.ConsumerGroupDescribeResponse(groups=[refusal])
        coordinators.brokers[0].answers[ApiKey.CONSUMER_GROUP_DESCRIBE] = lambda _: (
            answer
        )
        group = (await admin.describe_groups(["g"])).one("g")
        assert group.type is GroupType.CLASSIC


@pytest.mark.parametrize("versions", [KAFKA_0_11, KAFKA_2_8])
async def test_consumer_group_describe_is_not_sent_to_an_old_broker(
    versions: Any,
) -> None:
    async with (
        ScriptedCoordinators(1, versions) as coordinators,
        coordinators.admin() as admin,
    ):
        group = (await admin.describe_groups(["g"])).one("g")
        assert (group.type, group.state) == (GroupType.CLASSIC, GroupState.EMPTY)
        assert coordinators.count(m.ConsumerGroupDescribeRequest) == 0


async def test_a_broker_with_neither_describe_api_is_unsupported() -> None:
    versions = {**KAFKA_0_11}
    del versions[ApiKey.DESCRIBE_GROUPS]
    async with (
        ScriptedCoordinators(1, versions) as coordinators,
        coordinators.admin() as admin,
    ):
        error = (await admin.describe_groups(["g"])).errors["g"]
        assert isinstance(error, UnsupportedByBroker)


# Missing groups, and other errors.


@pytest.mark.fact("E29-03")
@pytest.mark.parametrize("version", range(7))
async def test_a_missing_group_has_an_error_in_every_version(
    version: int,
) -> None:
    code = ErrorCode.GROUP_ID_NOT_FOUND if version >= 6 else ErrorCode.NONE
    dead = m.DescribedGroup(group_id="g", group_state="Dead", error_code=code)
    with pytest.raises(ApiError, match="group g does not exist") as caught:
        await described(dead, version)
    assert caught.value.code is ErrorCode.GROUP_ID_NOT_FOUND


@pytest.mark.parametrize(
    "group",
    [
        classic(error_code=30, error_message="no"),
        m.DescribedConsumerGroup(group_id="g", error_code=30, error_message="no"),
    ],
)
async def test_the_error_of_a_group_has_the_brokers_message(group: Any) -> None:
    with pytest.raises(ApiError, match="group g: GROUP_AUTHORIZATION_FAILED: no"):
        await described(group)


# Classic groups.


@pytest.mark.fact("C-12")
@pytest.mark.parametrize("version", [0, 1, 3, 9])
async def test_embedded_member_metadata_is_decoded(version: int) -> None:
    mine = [
        m.ConsumerProtocolTopicPartitions(topic="u", partitions=[1]),
        m.ConsumerProtocolTopicPartitions(topic="t"),
    ]
    mine[1].partitions = [2, 0]
    subscription = m.ConsumerProtocolSubscription(topics=["u", "t"], rack_id="r1")
    member = await only_member(
        classic(
            members=[
                classic_member(
                    member_metadata=embedded(subscription, version),
                    member_assignment=embedded(
                        m.ConsumerProtocolAssignment(assigned_partitions=mine), version
                    ),
                )
            ]
        ),
        4,
    )
    assert member == MemberDescription(
        member_id="m",
        client_id="c",
        host="/10.0.0.1",
        assignment=(
            TopicPartition("t", 0),
            TopicPartition("t", 2),
            TopicPartition("u", 1),
        ),
        rack_id="r1" if version >= 3 else None,
        subscribed_topics=("t", "u"),
    )


@pytest.mark.fact("C-12")
@pytest.mark.parametrize(
    "data", [b"", b"\0", b"\0\0", b"\0\0\0\0\0\7x", b"\xff\xff\0\0", b"\0\3\0\0\0\1\0"]
)
async def test_undecodable_member_metadata_is_ignored(data: bytes) -> None:
    member = await only_member(
        classic(members=[classic_member(member_metadata=data, member_assignment=data)])
    )
    assert (member.subscribed_topics, member.rack_id) == (None, None)
    assert member.assignment == ()


async def test_an_embedded_message_is_decoded_as_version_0_if_needed() -> None:
    subscription = m.ConsumerProtocolSubscription(topics=["t"])
    data = struct.pack(">h", 1) + encode(subscription, 0)
    member = await only_member(classic(members=[classic_member(member_metadata=data)]))
    assert member.subscribed_topics == ("t",)


async def test_metadata_of_other_protocol_types_is_not_decoded() -> None:
    subscription = m.ConsumerProtocolSubscription(topics=["t"])
    data = embedded(subscription, 0)
    member = await only_member(
        classic(protocol_type="connect", members=[classic_member(member_metadata=data)])
    )
    assert member.subscribed_topics is None


@pytest.mark.fact("C-12")
async def test_fields_of_coterie_are_none_on_other_brokers() -> None:
    group = await described(classic(members=[classic_member()]))
    assert (group.generation_id, group.leader_id) == (None, None)
    assert (group.group_epoch, group.assignment_epoch) == (None, None)
    (member,) = group.members
    assert (member.protocols, member.epoch) == (None, None)
    assert (member.target_assignment, member.is_classic) == (None, None)


@pytest.mark.fact("C-11")
async def test_the_fields_of_coterie_are_requested() -> None:
    async with ScriptedCoordinators() as coordinators, coordinators.admin() as admin:
        await admin.describe_groups(["g"])
        (request,) = coordinators.asked(m.DescribeGroupsRequest)
        assert request.include_private_fields


@pytest.mark.fact("C-02", "C-03", "C-05")
async def test_the_tagged_fields_of_coterie_are_decoded() -> None:
    told = classic_member(
        member_subscription=["u", "t"], member_protocols=["range", "sticky"]
    )
    group = await described(classic(generation_id=7, leader_id="m", members=[told]))
    assert (group.generation_id, group.leader_id) == (7, "m")
    (member,) = group.members
    assert member.subscribed_topics == ("t", "u")
    assert member.protocols == ("range", "sticky")


async def test_members_are_sorted_by_id() -> None:
    members = [classic_member(member_id=each) for each in "cab"]
    group = await described(classic(members=members, protocol_data="range"), 4)
    assert [member.member_id for member in group.members] == ["a", "b", "c"]
    assert group.assignor == "range"
    assert not group.is_simple


async def test_a_group_without_members_is_simple() -> None:
    assert (await described(classic(protocol_type="", group_state="Empty"))).is_simple


@pytest.mark.fact("E29-04")
async def test_a_state_of_a_newer_broker_is_unknown() -> None:
    group = await described(classic(group_state="Dozing"))
    assert group.state is GroupState.UNKNOWN


# Groups of KIP-848.


def owned(*partitions: int) -> m.DescribedAssignment:
    topic = m.DescribedTopicPartitions(topic_name="t", partitions=list(partitions))
    return m.DescribedAssignment(topic_partitions=[topic])


@pytest.mark.fact("C-13", "E29-02")
@pytest.mark.parametrize(
    ("version", "member_type", "is_classic"),
    [(0, 0, None), (1, -1, None), (1, 0, True), (1, 1, False)],
)
async def test_a_consumer_group_has_epochs_and_both_assignments(
    version: int, member_type: int, is_classic: bool | None
) -> None:
    member = m.DescribedMember(
        member_id="m",
        instance_id="i",
        rack_id="r",
        member_epoch=6,
        client_id="c",
        client_host="/h",
        subscribed_topic_names=["u", "t"],
        subscribed_topic_regex="t.*",
        assignment=owned(2, 1),
        target_assignment=owned(3),
        member_type=member_type,
    )
    group = await described(
        m.DescribedConsumerGroup(
            group_id="g",
            group_state="Reconciling",
            group_epoch=8,
            assignment_epoch=7,
            assignor_name="uniform",
            members=[member],
        ),
        version,
    )
    assert (group.type, group.state) == (GroupType.CONSUMER, GroupState.RECONCILING)
    assert (group.group_epoch, group.assignment_epoch) == (8, 7)
    assert (group.assignor, group.protocol_type) == ("uniform", "consumer")
    assert (group.generation_id, group.leader_id) == (None, None)
    assert group.members == (
        MemberDescription(
            member_id="m",
            client_id="c",
            host="/h",
            assignment=(TopicPartition("t", 1), TopicPartition("t", 2)),
            instance_id="i",
            rack_id="r",
            target_assignment=(TopicPartition("t", 3),),
            epoch=6,
            is_classic=is_classic,
            subscribed_topics=("t", "u"),
            subscribed_topic_regex="t.*",
        ),
    )


# Authorized operations.


@pytest.mark.parametrize(
    "group",
    [
        classic(authorized_operations=1 << 3 | 1 << 8),
        m.DescribedConsumerGroup(group_id="g", authorized_operations=1 << 3 | 1 << 8),
    ],
)
async def test_authorized_operations_are_returned_on_demand(group: Any) -> None:
    told = await described(group, with_operations=True)
    assert told.authorized_operations == {Operation.READ, Operation.DESCRIBE}


@pytest.mark.parametrize("wanted", [False, True])
async def test_authorized_operations_are_requested_on_demand(wanted: bool) -> None:
    async with (
        ScriptedCoordinators(1, NEW) as coordinators,
        coordinators.admin() as admin,
    ):
        await admin.describe_groups(["g"], with_operations=wanted)
        for kind in (m.ConsumerGroupDescribeRequest, m.DescribeGroupsRequest):
            (request,) = coordinators.asked(kind)
            assert request.include_authorized_operations == wanted


async def test_authorized_operations_are_decoded_from_a_bit_field() -> None:
    assert authorized_operations(OPERATIONS_OMITTED) is None
    assert authorized_operations(0) == frozenset()
    assert authorized_operations(1 << 6 | 1 << 30) == {Operation.DELETE}
