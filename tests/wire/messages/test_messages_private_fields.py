"""Private fields and APIs: decoded as encoded, and invisible to other clients."""

from __future__ import annotations

import pytest

from coterie.wire import messages as m
from coterie.wire.api import ADVERTISED, PRIVATE, api_of
from coterie.wire.codec import decode, encode
from coterie.wire.error_codes import ErrorCode
from coterie.wire.schema import Message
from tests.wire.judges import KafkaPythonJudge

ID = bytes(range(16))
MESSAGES = [
    m.ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id="m",
        client_assignors=[
            m.ClientAssignor(
                name="mine",
                minimum_version=1,
                maximum_version=3,
                reason=1,
                metadata_version=2,
                metadata_bytes=b"why",
            )
        ],
    ),
    m.ConsumerGroupHeartbeatResponse(
        member_id="m",
        should_compute_assignment=True,
        assignment=m.Assignment(error=3, metadata_version=4, metadata_bytes=b"how"),
    ),
    m.ConsumerGroupPrepareAssignmentRequest(
        group_id="g", member_id="m", member_epoch=1
    ),
    m.ConsumerGroupPrepareAssignmentResponse(
        group_epoch=7,
        assignor_name="mine",
        members=[
            m.PreparedMember(
                member_id="m",
                member_epoch=6,
                instance_id="i",
                subscribed_topic_ids=[ID],
                assignor=m.MemberAssignor(reason=1, metadata_bytes=b"x"),
                topic_partitions=[m.TopicPartitions(topic_id=ID, partitions=[0, 1])],
            )
        ],
        topics=[m.PreparedTopic(topic_id=ID, topic_name="foo", num_partitions=2)],
    ),
    m.ConsumerGroupInstallAssignmentRequest(
        group_id="g",
        member_id="m",
        member_epoch=6,
        group_epoch=7,
        members=[
            m.InstalledMember(
                member_id="m",
                partitions=[m.TopicPartitions(topic_id=ID, partitions=[0])],
                metadata_version=2,
                metadata_bytes=b"y",
            )
        ],
    ),
    m.ConsumerGroupInstallAssignmentResponse(error_code=ErrorCode.INVALID_ASSIGNMENT),
]


@pytest.mark.fact("E13-42")
@pytest.mark.parametrize("message", MESSAGES, ids=lambda each: type(each).__name__)
def test_encoded_private_fields_are_decoded(message: Message) -> None:
    data = encode(message, 0)
    assert decode(type(message), 0, data) == (message, len(data))


def test_messages_without_private_fields_have_kafkas_layout() -> None:
    request = m.ConsumerGroupHeartbeatRequest(group_id="g", member_id="m")
    assert encode(request, 1).endswith(b"\0")
    response = m.ConsumerGroupHeartbeatResponse(
        member_id="m", assignment=m.Assignment()
    )
    data = encode(response, 1)
    assert data.endswith(b"\1\1\0\0")  # present, no topics, two empty tag sections


TOLD = m.DescribeGroupsResponse(
    groups=[
        m.DescribedGroup(
            group_id="g",
            group_state="Stable",
            generation_id=7,
            leader_id="m",
            members=[
                m.DescribedGroupMember(
                    member_id="m",
                    member_subscription=["t", "u"],
                    member_protocols=["range", "roundrobin"],
                )
            ],
        )
    ]
)
KAFKAS = m.DescribeGroupsResponse(
    groups=[
        m.DescribedGroup(
            group_id="g",
            group_state="Stable",
            members=[m.DescribedGroupMember(member_id="m")],
        )
    ]
)
"""Return the response without private fields."""


@pytest.mark.fact("C-02", "C-03")
@pytest.mark.parametrize("version", [5, 6])
def test_describe_groups_has_the_draft_fields_of_kip_181(version: int) -> None:
    data = encode(TOLD, version)
    assert decode(m.DescribeGroupsResponse, version, data) == (TOLD, len(data))


@pytest.mark.fact("C-11")
@pytest.mark.parametrize("version", range(5))
def test_versions_without_tagged_fields_omit_private_fields(version: int) -> None:
    assert encode(TOLD, version) == encode(KAFKAS, version)


@pytest.mark.fact("C-11")
@pytest.mark.parametrize("version", [5, 6])
def test_a_real_client_reads_over_compacted_records(version: int) -> None:
    judge = KafkaPythonJudge(m.DescribeGroupsResponse, version)
    read = judge.plain(judge.read(encode(TOLD, version)))
    assert read == judge.plain(judge.read(encode(KAFKAS, version)))


@pytest.mark.fact("C-04")
def test_fields_that_the_kip_181_draft_rejected_do_not_exist() -> None:
    names = {*m.DescribedGroup.FIELDS, *m.DescribedGroupMember.FIELDS}
    assert not [each for each in names if "received" in each or "added" in each]


@pytest.mark.fact("E13-40", "E13-40b")
def test_private_api_keys_do_not_overlap_kafkas() -> None:
    for key in PRIVATE:
        assert key >= 2**14
        assert key not in ADVERTISED
        api = api_of(key)
        assert api.request.API_KEY == api.response.API_KEY == key
    assert ErrorCode.INVALID_ASSIGNMENT >= 2**14
