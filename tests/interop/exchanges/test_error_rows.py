"""Error codes stand where a broker puts them: at the top level or in a row.

Each case provokes an error with its real cause, and compares the response with the one
that the test kit's fault `reply` builds for the same request.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple
from uuid import uuid4

import pytest

from coterie.testing.error_responses import error_names, error_response
from coterie.wire import messages as m
from coterie.wire.error_codes import ErrorCode
from coterie.wire.schema import Message, Struct
from tests.broker.server.harness import WireClient
from tests.support.waiting import eventually

TOPIC = f"error-rows-{uuid4().hex[:8]}"
GROUP = f"group-of-{TOPIC}"
MISSING = "error-rows-missing"
NO_ID = bytes(range(16))
NOBODY = "error-rows-nobody"
"""A transactional id without a producer."""
TIMEOUT_MS = 60_000
LOADING = {"COORDINATOR_LOAD_IN_PROGRESS", "COORDINATOR_NOT_AVAILABLE"}


@pytest.fixture(autouse=True)
def topic_and_group(wire: WireClient) -> None:
    """Create the topic and the group, unless an earlier test did."""
    topic = m.CreatableTopic(name=TOPIC, num_partitions=1, replication_factor=1)
    wire.call(m.CreateTopicsRequest(topics=[topic], timeout_ms=TIMEOUT_MS), 7)

    def is_committed() -> bool:
        [row] = wire.call(commit(TOPIC), 8).topics
        return not row.partitions[0].error_code

    eventually(is_committed, expected="the topic and the group")
    # Kafka creates its log of transactions at the first search for a coordinator.
    find = m.FindCoordinatorRequest(key_type=1, coordinator_keys=[NOBODY])
    eventually(
        lambda: wire.call(find, 4).coordinators[0].error_code == 0,
        expected="a coordinator of transactions",
    )


def commit(topic: str, member: str = "") -> m.OffsetCommitRequest:
    partition = m.OffsetCommitRequestPartition(partition_index=0, committed_offset=0)
    row = m.OffsetCommitRequestTopic(name=topic, partitions=[partition])
    return m.OffsetCommitRequest(
        group_id=GROUP,
        member_id=member,
        generation_id_or_member_epoch=5 if member else -1,
        topics=[row],
    )


def id_of_topic(wire: WireClient) -> bytes:
    request = m.MetadataRequest(topics=[m.MetadataRequestTopic(name=TOPIC)])
    found: bytes = wire.call(request, 12).topics[0].topic_id
    return found


def fetch(
    name: str = TOPIC,
    topic_id: bytes = bytes(16),
    *,
    offset: int = 0,
    epoch: int = -1,
    **session: int,
) -> m.FetchRequest:
    partition = m.FetchPartition(
        partition=0,
        fetch_offset=offset,
        current_leader_epoch=epoch,
        partition_max_bytes=1_000,
    )
    row = m.FetchTopic(topic=name, topic_id=topic_id, partitions=[partition])
    return m.FetchRequest(max_wait_ms=0, topics=[row], **session)  # type: ignore[arg-type]


def beyond_the_end(wire: WireClient) -> Message:
    return fetch(topic_id=id_of_topic(wire), offset=99)


def later_epoch(wire: WireClient) -> Message:
    return fetch(topic_id=id_of_topic(wire), epoch=99)


def unknown_session(wire: WireClient) -> Message:
    return fetch(topic_id=id_of_topic(wire), session_id=5, session_epoch=1)


def metadata(name: str | None, id_: bytes = bytes(16)) -> m.MetadataRequest:
    row = m.MetadataRequestTopic(name=name, topic_id=id_)
    return m.MetadataRequest(topics=[row], allow_auto_topic_creation=False)


def offset_fetch(**row: Any) -> m.OffsetFetchRequest:
    topic = m.OffsetFetchRequestTopics(partition_indexes=[0], **row)
    return m.OffsetFetchRequest(
        groups=[m.OffsetFetchRequestGroup(group_id=GROUP, topics=[topic])]
    )


def leave(group: str) -> m.LeaveGroupRequest:
    members = [
        m.MemberIdentity(member_id="gone"),
        m.MemberIdentity(group_instance_id="i"),
    ]
    return m.LeaveGroupRequest(group_id=group, members=members)


def offset_delete(group: str, topic: str) -> m.OffsetDeleteRequest:
    partitions = [m.OffsetDeleteRequestPartition(partition_index=0)]
    row = m.OffsetDeleteRequestTopic(name=topic, partitions=partitions)
    return m.OffsetDeleteRequest(group_id=group, topics=[row])


def elect(topic: str) -> m.ElectLeadersRequest:
    return m.ElectLeadersRequest(
        topic_partitions=[m.ElectedTopic(topic=topic, partitions=[0])]
    )


def reassign(topic: str, replicas: list[int] | None) -> Message:
    part = m.ReassignablePartition(partition_index=0, replicas=replicas)
    return m.AlterPartitionReassignmentsRequest(
        topics=[m.ReassignableTopic(name=topic, partitions=[part])]
    )


def quorum(topic: str) -> m.DescribeQuorumRequest:
    part = m.QuorumPartitionRequest(partition_index=0)
    return m.DescribeQuorumRequest(
        topics=[m.QuorumTopicRequest(topic_name=topic, partitions=[part])]
    )


def list_offsets(topic: str) -> m.ListOffsetsRequest:
    part = m.ListOffsetsPartition(partition_index=0, timestamp=-1)
    return m.ListOffsetsRequest(
        topics=[m.ListOffsetsTopic(name=topic, partitions=[part])]
    )


def leader_epoch(topic: str) -> m.OffsetForLeaderEpochRequest:
    part = m.OffsetForLeaderPartition(partition=0, leader_epoch=0)
    return m.OffsetForLeaderEpochRequest(
        topics=[m.OffsetForLeaderTopic(topic=topic, partitions=[part])]
    )


def delete_records(offset: int) -> m.DeleteRecordsRequest:
    part = m.DeleteRecordsPartition(partition_index=0, offset=offset)
    return m.DeleteRecordsRequest(
        topics=[m.DeleteRecordsTopic(name=TOPIC, partitions=[part])]
    )


def add_partitions() -> m.AddPartitionsToTxnRequest:
    topic = m.AddPartitionsToTxnTopic(name=TOPIC, partitions=[0])
    return m.AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=NOBODY,
        v3_and_below_producer_id=7,
        v3_and_below_topics=[topic],
    )


class Cause(NamedTuple):
    """A request that gets an error code in each of the versions."""

    code: str
    request: Message | Callable[[WireClient], Message]
    versions: tuple[int, ...]


CAUSES = (
    Cause("OFFSET_OUT_OF_RANGE", beyond_the_end, (4, 6, 7, 12, 13, 16, 18)),
    Cause("UNKNOWN_LEADER_EPOCH", later_epoch, (9, 12, 13, 18)),
    Cause("UNKNOWN_TOPIC_OR_PARTITION", fetch(MISSING), (4, 7, 12)),
    Cause("UNKNOWN_TOPIC_ID", fetch(topic_id=NO_ID), (13, 18)),
    Cause("FETCH_SESSION_ID_NOT_FOUND", unknown_session, (7, 12, 13, 18)),
    Cause("UNKNOWN_TOPIC_OR_PARTITION", metadata(MISSING), (4, 9, 12, 13)),
    Cause("INVALID_TOPIC_EXCEPTION", metadata("no topic"), (4, 9, 12, 13)),
    Cause("UNKNOWN_TOPIC_ID", metadata(None, NO_ID), (12, 13)),
    Cause("UNKNOWN_TOPIC_ID", offset_fetch(topic_id=NO_ID), (10,)),
    Cause("UNKNOWN_MEMBER_ID", leave(GROUP), (3, 4, 5)),
    Cause("UNKNOWN_TOPIC_OR_PARTITION", offset_delete(GROUP, MISSING), (0,)),
    Cause("GROUP_ID_NOT_FOUND", offset_delete("no-group", TOPIC), (0,)),
    Cause("UNKNOWN_TOPIC_OR_PARTITION", elect(MISSING), (0, 1, 2)),
    Cause("ELECTION_NOT_NEEDED", elect(TOPIC), (0, 1, 2)),
    Cause("UNKNOWN_TOPIC_OR_PARTITION", reassign(MISSING, None), (0, 1)),
    Cause("NO_REASSIGNMENT_IN_PROGRESS", reassign(TOPIC, None), (0, 1)),
    Cause("INVALID_REPLICA_ASSIGNMENT", reassign(TOPIC, [77]), (0, 1)),
    Cause(
        "RESOURCE_NOT_FOUND",
        m.DescribeUserScramCredentialsRequest(users=[m.UserName(name=NOBODY)]),
        (0,),
    ),
    Cause("UNKNOWN_TOPIC_OR_PARTITION", quorum(TOPIC), (0, 1, 2)),
    # One place in the response.
    Cause(
        "UNKNOWN_TOPIC_OR_PARTITION",
        m.DescribeTopicPartitionsRequest(topics=[m.TopicRequest(name=MISSING)]),
        (0,),
    ),
    Cause("UNKNOWN_TOPIC_OR_PARTITION", list_offsets(MISSING), (1, 5, 8)),
    Cause("UNKNOWN_TOPIC_OR_PARTITION", leader_epoch(MISSING), (2, 4)),
    Cause("OFFSET_OUT_OF_RANGE", delete_records(99), (0, 2)),
    Cause("UNKNOWN_MEMBER_ID", commit(TOPIC, "gone"), (2, 5, 9)),
    Cause("UNKNOWN_TOPIC_OR_PARTITION", commit(MISSING), (2, 5, 9)),
    Cause("INVALID_PRODUCER_ID_MAPPING", add_partitions(), (0, 3)),
    Cause(
        "TOPIC_ALREADY_EXISTS",
        m.CreateTopicsRequest(
            topics=[
                m.CreatableTopic(name=TOPIC, num_partitions=1, replication_factor=1)
            ]
        ),
        (2, 7),
    ),
    Cause(
        "INVALID_PARTITIONS",
        m.CreatePartitionsRequest(
            topics=[m.CreatePartitionsTopic(name=TOPIC, count=1)], timeout_ms=TIMEOUT_MS
        ),
        (0, 3),
    ),
    Cause(
        "UNKNOWN_TOPIC_OR_PARTITION",
        m.DeleteTopicsRequest(topic_names=[MISSING], timeout_ms=TIMEOUT_MS),
        (1, 5),
    ),
    Cause(
        "UNKNOWN_TOPIC_OR_PARTITION",
        m.DescribeConfigsRequest(
            resources=[
                m.DescribeConfigsResource(resource_type=2, resource_name=MISSING)
            ]
        ),
        (1, 4),
    ),
    Cause(
        "UNKNOWN_TOPIC_OR_PARTITION",
        m.DescribeProducersRequest(
            topics=[m.ProducersTopicRequest(name=MISSING, partition_indexes=[0])]
        ),
        (0,),
    ),
    Cause(
        "TRANSACTIONAL_ID_NOT_FOUND",
        m.DescribeTransactionsRequest(transactional_ids=[NOBODY]),
        (0,),
    ),
    Cause("GROUP_ID_NOT_FOUND", m.DescribeGroupsRequest(groups=["no-group"]), (6,)),
    Cause(
        "GROUP_ID_NOT_FOUND", m.DeleteGroupsRequest(groups_names=["no-group"]), (0, 2)
    ),
    Cause(
        "GROUP_ID_NOT_FOUND",
        m.ConsumerGroupDescribeRequest(group_ids=["no-group"]),
        (1,),
    ),
    Cause(
        "UNKNOWN_MEMBER_ID", m.HeartbeatRequest(group_id=GROUP, member_id="x"), (0, 4)
    ),
)


def places(value: Any, code: ErrorCode) -> Iterator[str]:
    """Yield the path of every field with an error, and of every row without one."""
    for name in value.FIELDS:
        content = getattr(value, name)
        if name.endswith("error_code") and content:
            assert content == code
            yield name
        for at, each in enumerate(content if isinstance(content, list) else ()):
            if isinstance(each, Struct):
                yield from (f"{name}[{at}].{path}" for path in places(each, code))


def loaded(response: Any) -> Any:
    """Return a response, or None while the coordinator loads."""
    return response if LOADING.isdisjoint(error_names(response)) else None


@pytest.mark.parametrize(
    ("cause", "version"),
    [
        pytest.param(cause, version, id=f"{number}-{cause.code}-{version}")
        for number, cause in enumerate(CAUSES)
        for version in cause.versions
    ],
)
def test_a_fault_puts_the_code_where_its_cause_does(
    wire: WireClient, cause: Cause, version: int
) -> None:
    request = cause.request
    if not isinstance(request, Message):
        request = request(wire)
    code = ErrorCode[cause.code]

    real = eventually(lambda: loaded(wire.call(request, version)), expected="an answer")
    built = error_response(request, version, code)

    assert built is not None
    expected = sorted(places(real, code))
    assert expected, real
    assert sorted(places(built, code)) == expected
