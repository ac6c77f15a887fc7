"""Share groups and streams groups: descriptions, and changes of start offsets."""

from __future__ import annotations

from typing import Any

import pytest

from coterie.client.admin.group_offsets import CommittedOffset
from coterie.client.admin.groups import (
    GroupState,
    GroupType,
    Subtopology,
    Task,
    Tasks,
    Topology,
)
from coterie.client.admin.share_groups import ShareOffset
from coterie.errors import ApiError, UnsupportedByBroker, UnsupportedGroupType
from coterie.types import TopicPartition
from coterie.wire import messages as m
from coterie.wire.api import ADVERTISED, CLIENT_ONLY, ApiKey
from coterie.wire.error_codes import ErrorCode
from coterie.wire.schema import Versions
from tests.client.admin.scripted_coordinators import NEW, ScriptedCoordinators

pytestmark = pytest.mark.asyncio

SHARE_APIS = [key for key in ADVERTISED if "SHARE" in key.name]
KAFKA_4_3 = {**NEW, **CLIENT_ONLY, **{key: ADVERTISED[key] for key in SHARE_APIS}}
A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)
NOT_FOUND = ErrorCode.GROUP_ID_NOT_FOUND


def no_classic_groups(request: Any) -> m.DescribeGroupsResponse:
    """Return the errors of Kafka's DescribeGroups v6 for groups of other types."""
    return m.DescribeGroupsResponse(
        groups=[
            m.DescribedGroup(
                group_id=each,
                error_code=NOT_FOUND,
                error_message=f"Group {each} is not a classic group.",
            )
            for each in request.groups
        ]
    )


def described_shares(request: Any) -> m.ShareGroupDescribeResponse:
    """Describe the groups whose id begins with "share"."""
    member = m.ShareMember(
        member_id="m",
        member_epoch=3,
        client_id="c",
        client_host="/h",
        subscribed_topic_names=["b", "a"],
        assignment=m.ShareAssignment(
            topic_partitions=[m.ShareTopicPartitions(topic_name="a", partitions=[1, 0])]
        ),
    )
    return m.ShareGroupDescribeResponse(
        groups=[
            m.DescribedShareGroup(
                group_id=each,
                group_state="Stable",
                group_epoch=5,
                assignment_epoch=4,
                assignor_name="simple",
                members=[member],
            )
            if each.startswith("share")
            else m.DescribedShareGroup(group_id=each, error_code=NOT_FOUND)
            for each in request.group_ids
        ]
    )


def tasks(*partitions: int) -> m.TaskAssignment:
    ids = m.TaskIds(subtopology_id="0", partitions=list(partitions))
    standby = m.TaskIds(subtopology_id="1", partitions=[9])
    return m.TaskAssignment(active_tasks=[ids], standby_tasks=[standby])


def described_streams(request: Any) -> m.StreamsGroupDescribeResponse:
    """Describe the groups whose id begins with "streams"."""
    topology = m.Topology(
        epoch=2,
        subtopologies=[
            m.Subtopology(
                subtopology_id="0",
                source_topics=["a"],
                repartition_source_topics=[m.TopicInfo(name="r", partitions=2)],
                state_changelog_topics=[m.TopicInfo(name="log")],
            )
        ],
    )
    member = m.StreamsMember(
        member_id="m",
        member_epoch=7,
        client_id="c",
        client_host="/h",
        topology_epoch=2,
        process_id="p",
        assignment=tasks(1, 0),
        target_assignment=tasks(0),
    )
    return m.StreamsGroupDescribeResponse(
        groups=[
            m.DescribedStreamsGroup(
                group_id=each,
                group_state="NotReady",
                group_epoch=7,
                assignment_epoch=6,
                topology=topology,
                members=[member],
            )
            if each.startswith("streams")
            else m.DescribedStreamsGroup(group_id=each, error_code=NOT_FOUND)
            for each in request.group_ids
        ]
    )


def coordinators(versions: Any = KAFKA_4_3) -> ScriptedCoordinators:
    scripted = ScriptedCoordinators(versions=versions)
    scripted.brokers[0].answers |= {
        ApiKey.DESCRIBE_GROUPS: no_classic_groups,
        ApiKey.SHARE_GROUP_DESCRIBE: described_shares,
        ApiKey.STREAMS_GROUP_DESCRIBE: described_streams,
    }
    return scripted


async def test_a_share_group_is_described() -> None:
    async with coordinators() as scripted, scripted.admin() as admin:
        group = (await admin.groups.describe(["share-1"])).one("share-1")
    assert (group.type, group.state) == (GroupType.SHARE, GroupState.STABLE)
    assert (group.protocol_type, group.assignor) == ("share", "simple")
    assert (group.group_epoch, group.assignment_epoch) == (5, 4)
    (member,) = group.members
    assert member.assignment == (A0, A1)
    assert member.subscribed_topics == ("a", "b")
    assert (member.epoch, member.tasks) == (3, None)


async def test_a_streams_group_is_described_with_topology_and_tasks() -> None:
    async with coordinators() as scripted, scripted.admin() as admin:
        group = (await admin.groups.describe(["streams-1"])).one("streams-1")
    assert (group.type, group.state) == (GroupType.STREAMS, GroupState.NOT_READY)
    subtopology = Subtopology("0", ("a",), ("r",), (), ("log",))
    assert group.topology == Topology(2, (subtopology,))
    (member,) = group.members
    active = (Task("0", 0), Task("0", 1))
    assert member.tasks == Tasks(active, (Task("1", 9),))
    assert [str(each) for each in active] == ["0_0", "0_1"]
    read = (A0, A1, TopicPartition("r", 0), TopicPartition("r", 1))
    assert member.assignment == read
    assert member.subscribed_topics == ("a", "r")
    assert (member.process_id, member.topology_epoch) == ("p", 2)


async def test_groups_of_all_types_are_described_in_one_call() -> None:
    async with coordinators() as scripted, scripted.admin() as admin:
        scripted.consumer_groups = {"consumer-1"}
        wanted = ["share-1", "consumer-1", "streams-1"]
        described = await admin.groups.describe(wanted)
        asked = scripted.asked(m.ShareGroupDescribeRequest)
    types = [each.type for each in described.values.values()]
    assert types == [GroupType.SHARE, GroupType.CONSUMER, GroupType.STREAMS]
    assert not described.errors
    assert [each.group_ids for each in asked] == [["share-1"]]


async def test_a_broker_that_cannot_describe_share_groups_is_named() -> None:
    versions = {**NEW, ApiKey.STREAMS_GROUP_DESCRIBE: Versions(0, 0)}
    async with coordinators(versions) as scripted, scripted.admin() as admin:
        described = await admin.groups.describe(["share-1", "streams-1"])
    assert list(described.values) == ["streams-1"]
    error = described.errors["share-1"]
    assert isinstance(error, UnsupportedGroupType)
    assert "cannot describe" in str(error)
    assert "ShareGroupDescribe" in str(error)


async def test_a_group_of_an_unknown_type_is_not_missing() -> None:
    async with coordinators() as scripted, scripted.admin() as admin:
        described = await admin.groups.describe(["newer-1"])
    assert isinstance(described.errors["newer-1"], UnsupportedGroupType)


async def test_a_missing_group_is_missing_for_every_type() -> None:
    def none(request: Any) -> m.DescribeGroupsResponse:
        text = "Group gone not found."
        return m.DescribeGroupsResponse(
            groups=[
                m.DescribedGroup(
                    group_id=each, error_code=NOT_FOUND, error_message=text
                )
                for each in request.groups
            ]
        )

    async with coordinators() as scripted, scripted.admin() as admin:
        scripted.brokers[0].answers[ApiKey.DESCRIBE_GROUPS] = none
        described = await admin.groups.describe(["gone"])
    error = described.errors["gone"]
    assert isinstance(error, ApiError)
    assert error.code is NOT_FOUND


async def test_an_error_of_a_share_group_is_its_own() -> None:
    def refuse(request: Any) -> m.ShareGroupDescribeResponse:
        code = ErrorCode.GROUP_AUTHORIZATION_FAILED
        groups = [
            m.DescribedShareGroup(group_id=each, error_code=code)
            for each in request.group_ids
        ]
        return m.ShareGroupDescribeResponse(groups=groups)

    async with coordinators() as scripted, scripted.admin() as admin:
        scripted.brokers[0].answers[ApiKey.SHARE_GROUP_DESCRIBE] = refuse
        described = await admin.groups.describe(["share-1", "streams-1"])
    assert list(described.values) == ["streams-1"]
    error = described.errors["share-1"]
    assert isinstance(error, ApiError)
    assert error.code is ErrorCode.GROUP_AUTHORIZATION_FAILED


def positions(request: Any) -> m.DescribeShareGroupOffsetsResponse:
    of = m.DescribeShareGroupOffsetsResponsePartition
    partitions = [
        of(partition_index=0, start_offset=4, leader_epoch=2, lag=6),
        of(partition_index=1, start_offset=-1, leader_epoch=-1),
        of(partition_index=2, start_offset=-1, error_code=ErrorCode.NOT_COORDINATOR),
    ]
    topic = m.DescribeShareGroupOffsetsResponseTopic(
        topic_name="a", partitions=partitions
    )
    of_group = m.DescribeShareGroupOffsetsResponseGroup
    return m.DescribeShareGroupOffsetsResponse(
        groups=[
            of_group(group_id="refused", error_code=30)
            if each.group_id == "refused"
            else of_group(group_id=each.group_id, topics=[topic])
            for each in request.groups
        ]
    )


async def test_positions_of_share_groups_have_start_and_lag() -> None:
    async with coordinators() as scripted, scripted.admin() as admin:
        scripted.brokers[0].answers[ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS] = positions
        found = await admin.share_groups.fetch_offsets({"g": None, "refused": [A0]})
        (request,) = scripted.asked(m.DescribeShareGroupOffsetsRequest)
    group = found.one("g")
    assert group.offsets == {A0: ShareOffset(4, 2, 6), A1: None}
    assert list(group.errors) == [TopicPartition("a", 2)]
    assert isinstance(found.errors["refused"], ApiError)
    assert [each.topics is None for each in request.groups] == [True, False]
    commits = group.as_commits(with_epochs=True)
    assert commits.offsets == {A0: CommittedOffset(4, 2), A1: None}


async def test_brokers_before_4_2_return_no_lag() -> None:
    versions = {**KAFKA_4_3, ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: Versions(0, 0)}
    async with coordinators(versions) as scripted, scripted.admin() as admin:
        scripted.brokers[0].answers[ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS] = positions
        found = await admin.share_groups.fetch_offsets({"g": None})
    assert found.one("g").offsets[A0] == ShareOffset(4, 2, None)


async def test_a_broker_without_share_offsets_fails_each_group() -> None:
    async with coordinators(NEW) as scripted, scripted.admin() as admin:
        found = await admin.share_groups.fetch_offsets({"g": None})
    assert isinstance(found.errors["g"], UnsupportedByBroker)


async def test_start_offsets_are_altered_each_with_its_outcome() -> None:
    def altered(request: Any) -> m.AlterShareGroupOffsetsResponse:
        of = m.AlterShareGroupOffsetsResponsePartition
        partitions = [of(partition_index=0), of(partition_index=1, error_code=3)]
        topic = m.AlterShareGroupOffsetsResponseTopic(
            topic_name="a", partitions=partitions
        )
        return m.AlterShareGroupOffsetsResponse(responses=[topic])

    async with coordinators() as scripted, scripted.admin() as admin:
        scripted.brokers[0].answers[ApiKey.ALTER_SHARE_GROUP_OFFSETS] = altered
        results = await admin.share_groups.alter_offsets("g", {A0: 5, A1: 6})
        (request,) = scripted.asked(m.AlterShareGroupOffsetsRequest)
    sent = request.topics[0].partitions
    assert [(each.partition_index, each.start_offset) for each in sent] == [
        (0, 5),
        (1, 6),
    ]
    assert (list(results.values), list(results.errors)) == ([A0], [A1])


async def test_start_offsets_of_topics_are_deleted_each_with_its_outcome() -> None:
    def deleted(request: Any) -> m.DeleteShareGroupOffsetsResponse:
        of = m.DeleteShareGroupOffsetsResponseTopic
        topics = [of(topic_name="a"), of(topic_name="b", error_code=3)]
        return m.DeleteShareGroupOffsetsResponse(responses=topics)

    async with coordinators() as scripted, scripted.admin() as admin:
        scripted.brokers[0].answers[ApiKey.DELETE_SHARE_GROUP_OFFSETS] = deleted
        results = await admin.share_groups.delete_offsets("g", ["a", "b", "a"])
        (request,) = scripted.asked(m.DeleteShareGroupOffsetsRequest)
    assert [each.topic_name for each in request.topics] == ["a", "b"]
    assert (list(results.values), list(results.errors)) == (["a"], ["b"])


async def test_changes_of_a_share_group_with_members_raise_its_error() -> None:
    code = ErrorCode.NON_EMPTY_GROUP
    async with coordinators() as scripted, scripted.admin() as admin:
        scripted.brokers[0].answers |= {
            ApiKey.ALTER_SHARE_GROUP_OFFSETS: lambda _: (
                m.AlterShareGroupOffsetsResponse(error_code=code)
            ),
            ApiKey.DELETE_SHARE_GROUP_OFFSETS: lambda _: (
                m.DeleteShareGroupOffsetsResponse(error_code=code)
            ),
        }
        with pytest.raises(ApiError, match="has members"):
            await admin.share_groups.alter_offsets("g", {A0: 5})
        with pytest.raises(ApiError, match="has members"):
            await admin.share_groups.delete_offsets("g", ["a"])
