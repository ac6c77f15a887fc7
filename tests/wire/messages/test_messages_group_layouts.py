"""FindCoordinator, DescribeGroups, DeleteGroups, OffsetDelete, byte by byte."""

from __future__ import annotations

import pytest

from coterie.wire import messages as m
from coterie.wire.api import ApiKey, api_of
from coterie.wire.codec import decode, encode
from coterie.wire.error_codes import ErrorCode
from coterie.wire.schema import Versions
from tests.wire.hand import (
    NO_TAGS,
    blob,
    few,
    int8,
    int16,
    int32,
    many,
    short,
    text,
)

NO_OPERATIONS = int32(-(2**31))
FOUND = m.FindCoordinatorResponse(
    throttle_time_ms=5, error_message=None, node_id=1, host="h", port=92
)


@pytest.mark.fact("B-01a")
def test_find_coordinator_v0_has_a_key_only() -> None:
    assert m.FindCoordinatorRequest.API_KEY == 10
    assert encode(m.FindCoordinatorRequest(key="g"), 0) == text("g")
    assert encode(FOUND, 0) == int16(0) + int32(1) + text("h") + int32(92)


@pytest.mark.fact("B-01b", "B-01c")
def test_find_coordinator_v1_and_v2_add_key_type_throttle_and_message() -> None:
    body = int32(5) + int16(0) + text(None) + int32(1) + text("h") + int32(92)
    for version in (1, 2):
        asked = encode(m.FindCoordinatorRequest(key="g", key_type=1), version)
        assert asked == text("g") + int8(1)
        assert encode(FOUND, version) == body


@pytest.mark.fact("B-01d")
def test_find_coordinator_v3_is_flexible() -> None:
    asked = encode(m.FindCoordinatorRequest(key="g"), 3)
    assert asked == short("g") + int8(0) + NO_TAGS


@pytest.mark.fact("B-02")
def test_find_coordinator_v4_requests_several_keys_of_one_type() -> None:
    request = m.FindCoordinatorRequest(key="lost", coordinator_keys=["g", "h"])
    body = int8(0) + few(short("g"), short("h")) + NO_TAGS
    assert encode(request, 4) == body
    assert decode(m.FindCoordinatorRequest, 4, body)[0].key == ""


@pytest.mark.fact("B-04")
def test_find_coordinator_v4_responses_are_by_key() -> None:
    found = m.Coordinator(key="g", node_id=1, host="h", port=92, error_message=None)
    response = m.FindCoordinatorResponse(error_code=15, node_id=9, coordinators=[found])
    content = short("g") + int32(1) + short("h") + int32(92) + int16(0) + short(None)
    assert encode(response, 4) == int32(0) + few(content + NO_TAGS) + NO_TAGS


@pytest.mark.fact("B-05a")
def test_find_coordinator_v5_and_v6_have_the_layout_of_v4() -> None:
    request = m.FindCoordinatorRequest(key_type=2, coordinator_keys=["g:t:0"])
    assert encode(request, 6) == encode(request, 5) == encode(request, 4)
    assert ErrorCode.TRANSACTION_ABORTABLE == 120
    assert api_of(ApiKey.FIND_COORDINATOR).advertised == Versions(0, 6)


DESCRIBED = m.DescribeGroupsResponse(
    throttle_time_ms=5,
    groups=[
        m.DescribedGroup(
            group_id="g",
            group_state="Stable",
            protocol_type="consumer",
            protocol_data="range",
            members=[
                m.DescribedGroupMember(
                    member_id="m",
                    client_id="c",
                    client_host="/h",
                    member_metadata=b"md",
                    member_assignment=b"as",
                )
            ],
        )
    ],
)
MEMBER_ID = text("m")
MEMBER_REST = text("c") + text("/h") + blob(b"md") + blob(b"as")
GROUP_HEAD = int16(0) + text("g") + text("Stable") + text("consumer") + text("range")


@pytest.mark.fact("C-01", "C-10a", "C-11")
def test_describe_groups_v1_and_v2_have_groups_and_members() -> None:
    group = GROUP_HEAD + many(MEMBER_ID + MEMBER_REST)
    assert m.DescribeGroupsRequest.API_KEY == 15
    assert encode(DESCRIBED, 0) == many(group)
    assert encode(DESCRIBED, 1) == int32(5) + many(group)
    assert encode(DESCRIBED, 2) == encode(DESCRIBED, 1)


@pytest.mark.fact("C-10c")
def test_describe_groups_v3_adds_authorized_operations() -> None:
    request = m.DescribeGroupsRequest(groups=["g"], include_authorized_operations=True)
    assert encode(request, 2) == many(text("g"))
    assert encode(request, 3) == many(text("g")) + b"\1"
    group = GROUP_HEAD + many(MEMBER_ID + MEMBER_REST) + NO_OPERATIONS
    assert encode(DESCRIBED, 3) == int32(5) + many(group)


@pytest.mark.fact("C-10b")
def test_describe_groups_v4_adds_the_instance_id() -> None:
    group = GROUP_HEAD + many(MEMBER_ID + text(None) + MEMBER_REST) + NO_OPERATIONS
    assert encode(DESCRIBED, 4) == int32(5) + many(group)


@pytest.mark.fact("C-10d")
def test_describe_groups_v6_adds_the_error_message() -> None:
    missing = m.DescribedGroup(error_code=69, error_message="no", group_id="g")
    response = m.DescribeGroupsResponse(groups=[missing])
    rest = short("g") + short("") * 3 + few() + NO_OPERATIONS + NO_TAGS
    front = int32(0) + b"\2"
    assert encode(response, 5) == front + int16(69) + rest + NO_TAGS
    assert encode(response, 6) == front + int16(69) + short("no") + rest + NO_TAGS
    assert api_of(ApiKey.DESCRIBE_GROUPS).advertised == Versions(0, 6)


DELETED = m.DeleteGroupsResponse(
    throttle_time_ms=5,
    results=[m.DeletableGroupResult(group_id="g", error_code=68)],
)


@pytest.mark.fact("D-01", "D-02")
def test_delete_groups_v0_has_an_error_per_group() -> None:
    assert m.DeleteGroupsRequest.API_KEY == 42
    asked = encode(m.DeleteGroupsRequest(groups_names=["g", "h"]), 0)
    assert asked == many(text("g"), text("h"))
    assert encode(DELETED, 0) == int32(5) + many(text("g") + int16(68))


@pytest.mark.fact("D-03")
def test_delete_groups_v1_is_v0_and_v2_is_flexible() -> None:
    assert encode(DELETED, 1) == encode(DELETED, 0)
    result = short("g") + int16(68) + NO_TAGS
    assert encode(DELETED, 2) == int32(5) + few(result) + NO_TAGS


@pytest.mark.fact("D-50b", "D-50a")
def test_offset_delete_has_the_error_before_the_throttle_time() -> None:
    partition = m.OffsetDeleteResponsePartition(partition_index=2, error_code=86)
    topic = m.OffsetDeleteResponseTopic(name="t", partitions=[partition])
    response = m.OffsetDeleteResponse(error_code=69, throttle_time_ms=5, topics=[topic])
    content = many(text("t") + many(int32(2) + int16(86)))
    assert encode(response, 0) == int16(69) + int32(5) + content
    api = api_of(ApiKey.OFFSET_DELETE)
    assert (api.key, api.served) == (47, Versions(0, 0))
    assert 0 not in api.request.FLEXIBLE


OWNED = m.DescribedTopicPartitions(
    topic_id=bytes(range(16)), topic_name="t", partitions=[3]
)
CONSUMER_GROUP = m.DescribedConsumerGroup(
    group_id="g",
    group_state="Stable",
    group_epoch=4,
    assignment_epoch=3,
    assignor_name="uniform",
    members=[
        m.DescribedMember(
            member_id="m",
            member_epoch=2,
            client_id="c",
            client_host="/h",
            subscribed_topic_names=["t"],
            assignment=m.DescribedAssignment(topic_partitions=[OWNED]),
            member_type=1,
        )
    ],
)


def described_consumer_group(member_type: bytes) -> bytes:
    owned = bytes(range(16)) + short("t") + few(int32(3)) + NO_TAGS
    member = short("m") + short(None) + short(None) + int32(2) + short("c")
    member += short("/h") + few(short("t")) + short(None)
    member += few(owned) + NO_TAGS + few() + NO_TAGS + member_type + NO_TAGS
    group = int16(0) + short(None) + short("g") + short("Stable") + int32(4) + int32(3)
    group += short("uniform") + few(member) + NO_OPERATIONS + NO_TAGS
    return int32(0) + few(group) + NO_TAGS


@pytest.mark.fact("E16-01")
def test_consumer_group_describe_requests_groups_and_operations() -> None:
    request = m.ConsumerGroupDescribeRequest(
        group_ids=["g"], include_authorized_operations=True
    )
    assert encode(request, 0) == few(short("g")) + b"\1" + NO_TAGS


@pytest.mark.fact("E16-02")
def test_consumer_group_describe_v0_has_epochs_and_both_assignments() -> None:
    response = m.ConsumerGroupDescribeResponse(groups=[CONSUMER_GROUP])
    assert encode(response, 0) == described_consumer_group(b"")


@pytest.mark.fact("E16-03")
def test_consumer_group_describe_v1_adds_the_member_type() -> None:
    response = m.ConsumerGroupDescribeResponse(groups=[CONSUMER_GROUP])
    assert encode(response, 1) == described_consumer_group(int8(1))
    assert m.DescribedMember().member_type == -1
