"""Deletion of groups, changes of committed offsets, and removal of members."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from coterie.client import AdminClient
from coterie.client.admin.group_changes import MemberToRemove
from coterie.client.admin.group_offsets import CommittedOffset
from coterie.client.admin.results import Results
from coterie.errors import ApiError, MalformedFrame, UnsupportedByBroker
from coterie.settings import Settings
from coterie.types import TopicPartition
from coterie.wire import messages as m
from coterie.wire.api import ApiKey
from coterie.wire.error_codes import ErrorCode
from coterie.wire.schema import Versions
from tests.client.admin.scripted_coordinators import (
    KAFKA_0_11,
    KAFKA_2_8,
    NEW,
    ScriptedCoordinators,
)
from tests.client.scripted_broker import in_turn

pytestmark = pytest.mark.asyncio

T0, T1, U0 = (TopicPartition(*each) for each in (("t", 0), ("t", 1), ("u", 0)))
ONE, STATIC = MemberToRemove("m1"), MemberToRemove(instance_id="i2")
UNKNOWN = ErrorCode.UNKNOWN_MEMBER_ID
SUBSCRIBED = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC


def code_of(error: BaseException) -> ErrorCode:
    assert isinstance(error, ApiError)
    return error.code


def codes(results: Results[Any, None]) -> dict[Any, ErrorCode]:
    return {key: code_of(error) for key, error in results.errors.items()}


def committed(*partitions: tuple[TopicPartition, ErrorCode]) -> m.OffsetCommitResponse:
    return m.OffsetCommitResponse(
        topics=[
            m.OffsetCommitResponseTopic(
                name=topic,
                partitions=[
                    m.OffsetCommitResponsePartition(partition_index=at, error_code=code)
                ],
            )
            for (topic, at), code in partitions
        ]
    )


def forgotten(*partitions: tuple[TopicPartition, ErrorCode]) -> m.OffsetDeleteResponse:
    return m.OffsetDeleteResponse(
        topics=[
            m.OffsetDeleteResponseTopic(
                name=topic,
                partitions=[
                    m.OffsetDeleteResponsePartition(partition_index=at, error_code=code)
                ],
            )
            for (topic, at), code in partitions
        ]
    )


# Deleting groups.


@pytest.mark.fact("D-44")
async def test_a_failed_deletion_does_not_affect_other_groups() -> None:
    async with ScriptedCoordinators() as coordinators, coordinators.admin() as admin:
        told = [
            m.DeletableGroupResult(
                group_id="a", error_code=ErrorCode.NON_EMPTY_GROUP, error_message="no"
            ),
            m.DeletableGroupResult(group_id="b"),
            m.DeletableGroupResult(
                group_id="c", error_code=ErrorCode.GROUP_ID_NOT_FOUND
            ),
        ]
        answer = m.DeleteGroupsResponse(results=told)
        coordinators.brokers[0].answers[ApiKey.DELETE_GROUPS] = lambda _: answer
        results = await admin.delete_groups("abc")
        assert results.values == {"b": None}
        assert codes(results) == {
            "a": ErrorCode.NON_EMPTY_GROUP,
            "c": ErrorCode.GROUP_ID_NOT_FOUND,
        }
        assert str(results.errors["a"]) == "group a: NON_EMPTY_GROUP: no"
        assert coordinators.count(m.DeleteGroupsRequest) == 1


@pytest.mark.fact("D-47")
async def test_delete_groups_is_not_emulated_on_an_old_broker() -> None:
    async with (
        ScriptedCoordinators(1, KAFKA_0_11) as coordinators,
        coordinators.admin() as admin,
    ):
        results = await admin.delete_groups(["a", "b"])
        assert results.values == {}
        for error in results.errors.values():
            assert isinstance(error, UnsupportedByBroker)
        assert list(results.errors) == ["a", "b"]
        kinds = {type(each) for each in coordinators.brokers[0].asked}
        assert kinds <= {m.FindCoordinatorRequest}


# Setting offsets.


@pytest.mark.parametrize(("versions", "newest"), [(KAFKA_0_11, 3), (NEW, 9)])
async def test_an_admin_commit_has_no_member_and_no_epoch(
    versions: Any, newest: int
) -> None:
    """Use at most version 9: version 10 names topics by ID."""
    async with (
        ScriptedCoordinators(1, versions) as coordinators,
        coordinators.admin() as admin,
    ):
        done = ErrorCode.NONE
        answer = committed((T0, done), (T1, done), (U0, done))
        coordinators.brokers[0].answers[ApiKey.OFFSET_COMMIT] = lambda _: answer
        results = await admin.alter_group_offsets(
            "g",
            {
                T0: CommittedOffset(5, 2, "why"),
                U0: CommittedOffset(7),
                T1: CommittedOffset(6),
            },
        )
        assert results.all() == {T0: None, T1: None, U0: None}
        (request,) = coordinators.asked(m.OffsetCommitRequest)
        assert (request.member_id, request.group_instance_id) == ("", None)
        assert request.generation_id_or_member_epoch == -1
        assert request.retention_time_ms == -1
        sent = {
            (topic.name, each.partition_index): (
                each.committed_offset,
                each.committed_leader_epoch,
                each.committed_metadata,
            )
            for topic in request.topics
            for each in topic.partitions
        }
        epoch = 2 if newest >= 6 else -1
        assert sent == {T0: (5, epoch, "why"), T1: (6, -1, ""), U0: (7, -1, "")}


@pytest.mark.fact("E29-08")
async def test_each_partition_has_an_error_when_the_group_has_members() -> None:
    async with ScriptedCoordinators() as coordinators, coordinators.admin() as admin:
        answer = committed((T0, UNKNOWN), (T1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
        coordinators.brokers[0].answers[ApiKey.OFFSET_COMMIT] = lambda _: answer
        offsets = {T0: CommittedOffset(1), T1: CommittedOffset(1)}
        results = await admin.alter_group_offsets("g", offsets)
        assert results.values == {}
        assert codes(results) == {
            T0: UNKNOWN,
            T1: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        }
        assert "stop them first" in str(results.errors[T0])


async def test_a_partition_missing_in_the_response_has_an_error() -> None:
    async with ScriptedCoordinators() as coordinators, coordinators.admin() as admin:
        answer = committed((T0, ErrorCode.NONE))
        coordinators.brokers[0].answers[ApiKey.OFFSET_COMMIT] = lambda _: answer
        offsets = {T0: CommittedOffset(1), T1: CommittedOffset(1)}
        results = await admin.alter_group_offsets("g", offsets)
        assert results.values == {T0: None}
        assert isinstance(results.errors[T1], MalformedFrame)


@pytest.mark.fact("D-46")
async def test_offsets_retention_is_a_broker_configuration() -> None:
    assert Settings().offsets_retention_minutes == 7 * 24 * 60
    retention = m.OffsetCommitRequest.FIELDS["retention_time_ms"]
    assert (retention.versions, retention.default) == (Versions(2, 4), -1)


Change = Callable[[AdminClient], Any]


async def alter(admin: AdminClient) -> Results[TopicPartition, None]:
    return await admin.alter_group_offsets("g", {T0: CommittedOffset(1)})


async def forget(admin: AdminClient) -> Results[TopicPartition, None]:
    return await admin.delete_group_offsets("g", [T0])


@pytest.mark.parametrize(
    "code", [ErrorCode.GROUP_AUTHORIZATION_FAILED, ErrorCode.INVALID_GROUP_ID]
)
@pytest.mark.parametrize("change", [alter, forget])
async def test_an_error_of_the_group_is_raised(change: Change, code: ErrorCode) -> None:
    async with ScriptedCoordinators() as coordinators, coordinators.admin() as admin:
        answers = coordinators.brokers[0].answers
        answers[ApiKey.OFFSET_COMMIT] = lambda _: committed((T0, code))
        answer = m.OffsetDeleteResponse(error_code=code)
        answers[ApiKey.OFFSET_DELETE] = lambda _: answer
        with pytest.raises(ApiError, match="group g") as caught:
            await change(admin)
        assert caught.value.code is code


@pytest.mark.fact("A-64c", "B-27")
@pytest.mark.parametrize("change", [alter, forget])
async def test_a_change_is_retried_on_the_new_coordinator(
    change: Change,
) -> None:
    code = ErrorCode.NOT_COORDINATOR
    async with ScriptedCoordinators() as coordinators, coordinators.admin() as admin:
        answers = coordinators.brokers[0].answers
        answers[ApiKey.OFFSET_COMMIT] = in_turn(
            committed((T0, code)), committed((T0, ErrorCode.NONE))
        )
        answers[ApiKey.OFFSET_DELETE] = in_turn(
            m.OffsetDeleteResponse(error_code=code), forgotten((T0, ErrorCode.NONE))
        )
        assert (await change(admin)).all() == {T0: None}
        assert coordinators.count(m.FindCoordinatorRequest) == 2


# Deleting offsets.


@pytest.mark.fact("D-45", "D-53a")
async def test_offsets_of_a_subscribed_topic_are_not_deleted() -> None:
    async with ScriptedCoordinators() as coordinators, coordinators.admin() as admin:
        answer = forgotten((T0, SUBSCRIBED), (T1, SUBSCRIBED), (U0, ErrorCode.NONE))
        coordinators.brokers[0].answers[ApiKey.OFFSET_DELETE] = lambda _: answer
        results = await admin.delete_group_offsets("g", [T0, U0, T1])
        assert results.values == {U0: None}
        assert codes(results) == {T0: SUBSCRIBED, T1: SUBSCRIBED}
        (request,) = coordinators.asked(m.OffsetDeleteRequest)
        asked = {
            (topic.name, each.partition_index)
            for topic in request.topics
            for each in topic.partitions
        }
        assert asked == {T0, T1, U0}


async def test_an_old_broker_without_offset_delete_is_an_error() -> None:
    async with (
        ScriptedCoordinators(1, KAFKA_0_11) as coordinators,
        coordinators.admin() as admin,
    ):
        with pytest.raises(UnsupportedByBroker, match="does not serve OffsetDelete"):
            await admin.delete_group_offsets("g", [T0])


# Removal of members.


def left(*codes: ErrorCode) -> m.LeaveGroupResponse:
    return m.LeaveGroupResponse(
        members=[
            m.MemberResponse(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                error_code=code,
            )
            for member, code in zip((ONE, STATIC), codes, strict=True)
        ]
    )


@pytest.mark.fact("B-27")
@pytest.mark.parametrize(("reason", "words"), [("", ""), ("it hangs", ": it hangs")])
async def test_many_members_are_removed_in_one_request(reason: str, words: str) -> None:
    async with ScriptedCoordinators() as coordinators, coordinators.admin() as admin:
        answer = left(ErrorCode.NONE, UNKNOWN)
        coordinators.brokers[0].answers[ApiKey.LEAVE_GROUP] = lambda _: answer
        results = await admin.remove_members("g", [ONE, STATIC, ONE], reason=reason)
        assert results.values == {ONE: None}
        assert codes(results) == {STATIC: UNKNOWN}
        (request,) = coordinators.asked(m.LeaveGroupRequest)
        first, second = request.members
        assert (first.member_id, first.group_instance_id) == ("m1", None)
        assert (second.member_id, second.group_instance_id) == ("", "i2")
        assert first.reason == f"member was removed by an admin{words}"


async def test_another_error_of_a_member_is_reported() -> None:
    async with ScriptedCoordinators() as coordinators, coordinators.admin() as admin:
        answer = left(ErrorCode.NONE, ErrorCode.FENCED_INSTANCE_ID)
        coordinators.brokers[0].answers[ApiKey.LEAVE_GROUP] = lambda _: answer
        results = await admin.remove_members("g", [STATIC])
        assert "FENCED_INSTANCE_ID" in str(results.errors[STATIC])


async def test_a_reason_is_truncated_to_255_characters() -> None:
    async with ScriptedCoordinators() as coordinators, coordinators.admin() as admin:
        answer = left(ErrorCode.NONE, ErrorCode.NONE)
        coordinators.brokers[0].answers[ApiKey.LEAVE_GROUP] = lambda _: answer
        await admin.remove_members("g", [ONE], reason="x" * 900)
        (request,) = coordinators.asked(m.LeaveGroupRequest)
        assert len(request.members[0].reason) == 255


async def test_all_members_are_removed_and_static_ones_by_instance_id() -> None:
    async with ScriptedCoordinators() as coordinators, coordinators.admin() as admin:
        members = [
            m.DescribedGroupMember(member_id="m2", group_instance_id="i2"),
            m.DescribedGroupMember(member_id="m1"),
        ]
        group = m.DescribedGroup(group_id="g", group_state="Stable", members=members)
        answers = coordinators.brokers[0].answers
        answers[ApiKey.DESCRIBE_GROUPS] = lambda _: m.DescribeGroupsResponse(
            groups=[group]
        )
        answers[ApiKey.LEAVE_GROUP] = lambda _: left(ErrorCode.NONE, ErrorCode.NONE)
        assert (await admin.remove_members("g")).all() == {ONE: None, STATIC: None}


async def test_remove_members_of_an_empty_group_sends_no_leave_group() -> None:
    async with ScriptedCoordinators() as coordinators, coordinators.admin() as admin:
        assert await admin.remove_members("g") == Results()
        assert coordinators.count(m.LeaveGroupRequest) == 0


async def test_a_member_missing_in_the_response_has_an_error() -> None:
    async with ScriptedCoordinators() as coordinators, coordinators.admin() as admin:
        coordinators.brokers[0].answers[ApiKey.LEAVE_GROUP] = lambda _: (
            m.LeaveGroupResponse()
        )
        with pytest.raises(MalformedFrame, match="omits static member i2"):
            await admin.remove_members("g", [STATIC])


async def test_members_are_removed_one_by_one_before_version_3() -> None:
    async with (
        ScriptedCoordinators(1, KAFKA_0_11) as coordinators,
        coordinators.admin() as admin,
    ):
        gone = MemberToRemove("gone")
        coordinators.brokers[0].answers[ApiKey.LEAVE_GROUP] = lambda request: (
            m.LeaveGroupResponse(
                error_code=UNKNOWN if request.member_id == "gone" else ErrorCode.NONE
            )
        )
        results = await admin.remove_members("g", [ONE, STATIC, gone])
        assert results.values == {ONE: None}
        assert isinstance(results.errors.pop(STATIC), UnsupportedByBroker)  # type: ignore[attr-defined]
        assert codes(results) == {gone: UNKNOWN}
        asked = [each.member_id for each in coordinators.asked(m.LeaveGroupRequest)]
        assert asked == ["m1", "gone"]


@pytest.mark.parametrize("versions", [Versions(0, 1), Versions(0, 5)])
async def test_remove_members_raises_the_error_of_the_group(
    versions: Versions,
) -> None:
    async with (
        ScriptedCoordinators(1, KAFKA_2_8) as coordinators,
        coordinators.admin() as admin,
    ):
        (broker,) = coordinators.brokers
        broker.versions[ApiKey.LEAVE_GROUP] = versions
        code = ErrorCode.GROUP_AUTHORIZATION_FAILED
        answer = m.LeaveGroupResponse(error_code=code)
        broker.answers[ApiKey.LEAVE_GROUP] = lambda _: answer
        with pytest.raises(ApiError, match="group g") as caught:
            await admin.remove_members("g", [ONE])
        assert caught.value.code is code


async def test_a_commit_to_a_share_group_is_explained() -> None:
    async with ScriptedCoordinators() as coordinators, coordinators.admin() as admin:
        coordinators.brokers[0].answers[ApiKey.OFFSET_COMMIT] = lambda _: committed(
            (T0, ErrorCode.GROUP_ID_NOT_FOUND)
        )
        results = await admin.alter_group_offsets("g", {T0: CommittedOffset(1)})
    assert "group g commits no offsets: it is a share group" in str(results.errors[T0])
