"""Error responses of faults to requests of several topics, groups or members, and those
whose other parts are the server's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from coterie.testing.kafka import Kafka
from coterie.wire import messages as m
from coterie.wire.error_codes import ErrorCode
from coterie.wire.record_batch import LogRecord, encode_batch
from tests.broker.server.harness import WireClient
from tests.testing.clients import connect

TOPICS = ("t", "u")
DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
UNSTABLE = ErrorCode.UNSTABLE_OFFSET_COMMIT
MOVED = ErrorCode.NOT_COORDINATOR
OUT_OF_RANGE = ErrorCode.OFFSET_OUT_OF_RANGE


@pytest.fixture(name="kafka", scope="module")
def start_kafka() -> Iterator[Kafka]:
    with Kafka() as kafka:
        for name in TOPICS:
            kafka.topic(name)
            kafka.produce(name, [b"v"])
        kafka.groups["g"].commit({(name, 0): 1 for name in TOPICS})
        kafka.groups["h"].commit({("t", 0): 1})
        yield kafka


@pytest.fixture(name="client")
def connect_client(kafka: Kafka) -> Iterator[WireClient]:
    with connect(kafka) as client:
        yield client


def metadata(*names: str) -> m.MetadataRequest:
    topics = [m.MetadataRequestTopic(name=name) for name in names]
    return m.MetadataRequest(topics=topics or None)


# Fetch.


def fetch(client: WireClient, **session: int) -> m.FetchRequest:
    """Return a Fetch of both topics; in a session that exists, of none."""
    topics = []
    if session.get("session_epoch", 0) <= 0:
        for topic in client.call(metadata(*TOPICS)).topics:
            partition = m.FetchPartition(partition=0, partition_max_bytes=1_000)
            topics.append(m.FetchTopic(topic_id=topic.topic_id, partitions=[partition]))
    request = m.FetchRequest(max_wait_ms=3_600_000, min_bytes=1, topics=topics)
    for name, value in session.items():
        setattr(request, name, value)
    return request


def fetched(client: WireClient, response: Any) -> dict[str, tuple[int, bool]]:
    """Return the error code of each topic, and whether it has records."""
    names = {each.topic_id: each.name for each in client.call(metadata(*TOPICS)).topics}
    return {
        names[topic.topic_id]: (row.error_code, bool(row.records))
        for topic in response.responses
        for row in topic.partitions
    }


def test_the_error_of_a_fetch_stands_in_the_row_of_its_topic(
    kafka: Kafka, client: WireClient
) -> None:
    request = fetch(client)
    with kafka.faults.reply("Fetch", OUT_OF_RANGE.name, topic="t"):
        response = client.call(request)

    assert response.error_code == 0
    assert fetched(client, response) == {"t": (OUT_OF_RANGE, False), "u": (0, True)}


def test_the_error_stands_in_the_rows_of_a_session(
    kafka: Kafka, client: WireClient
) -> None:
    first = client.call(fetch(client, session_epoch=0))
    session = first.session_id
    second, third = (
        fetch(client, session_id=session, session_epoch=epoch) for epoch in (1, 2)
    )
    with kafka.faults.reply("Fetch", OUT_OF_RANGE.name):
        response = client.call(second)
    after = client.call(third)

    assert (response.error_code, response.session_id) == (0, session)
    assert fetched(client, response) == dict.fromkeys(TOPICS, (OUT_OF_RANGE, False))
    assert (after.error_code, fetched(client, after)["t"]) == (0, (0, True))


def test_the_error_of_a_session_has_no_rows(kafka: Kafka, client: WireClient) -> None:
    first = client.call(fetch(client, session_epoch=0))
    request = fetch(client, session_id=first.session_id, session_epoch=1)
    with kafka.faults.reply("Fetch", "INVALID_FETCH_SESSION_EPOCH"):
        response = client.call(request)

    assert response.error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert (response.session_id, response.responses) == (0, [])


@pytest.mark.parametrize("version", [15, 16])
def test_an_error_of_the_leader_names_the_leader(
    kafka: Kafka, client: WireClient, version: int
) -> None:
    with kafka.faults.reply("Fetch", "NOT_LEADER_OR_FOLLOWER"):
        response = client.call(fetch(client), version)

    leaders = {
        row.current_leader.leader_id
        for topic in response.responses
        for row in topic.partitions
    }
    assert leaders == ({1} if version == 16 else {-1})
    assert [each.node_id for each in response.node_endpoints] == [1] * (version == 16)


# Metadata.


def topics_of(response: Any) -> dict[str, tuple[int, list[int]]]:
    return {
        topic.name: (topic.error_code, [row.error_code for row in topic.partitions])
        for topic in response.topics
    }


@pytest.mark.parametrize("version", [1, 9, 13])
def test_metadata_with_an_error_of_a_topic_has_the_brokers(
    kafka: Kafka, client: WireClient, version: int
) -> None:
    with kafka.faults.reply("Metadata", DENIED.name, topic="t"):
        response = client.call(metadata(*TOPICS), version)

    assert len(response.brokers) == 1
    assert response.controller_id == 1
    assert topics_of(response) == {"t": (DENIED, []), "u": (0, [0])}


def test_metadata_of_all_topics_lacks_one_that_is_not_authorized(
    kafka: Kafka, client: WireClient
) -> None:
    with kafka.faults.reply("Metadata", DENIED.name):
        response = client.call(metadata())

    assert (len(response.brokers), response.topics) == (1, [])


def test_a_leader_that_is_not_available_is_an_error_of_partitions(
    kafka: Kafka, client: WireClient
) -> None:
    code = ErrorCode.LEADER_NOT_AVAILABLE
    with kafka.faults.reply("Metadata", code.name):
        response = client.call(metadata("t", "created-by-no-one"))

    assert topics_of(response) == {"t": (0, [code]), "created-by-no-one": (code, [])}
    assert response.topics[0].partitions[0].leader_id == -1
    assert "created-by-no-one" not in topics_of(client.call(metadata()))


# Offsets.


def offset_fetch(*topics: str) -> m.OffsetFetchRequest:
    rows = [
        m.OffsetFetchRequestTopics(name=name, partition_indexes=[0]) for name in topics
    ]
    groups = [
        m.OffsetFetchRequestGroup(group_id=group, topics=rows or None) for group in "gh"
    ]
    return m.OffsetFetchRequest(groups=groups)


def offsets(response: Any) -> dict[str, dict[str, tuple[int, int]]]:
    """Return code and offset of each topic of each group."""
    return {
        group.group_id: {
            topic.name: (row.error_code, row.committed_offset)
            for topic in group.topics
            for row in topic.partitions
        }
        for group in response.groups
    }


def test_an_unstable_offset_stands_in_the_row_of_its_topic_and_group(
    kafka: Kafka, client: WireClient
) -> None:
    with kafka.faults.reply("OffsetFetch", UNSTABLE.name, group="g", topic="t"):
        response = client.call(offset_fetch(*TOPICS), 9)

    assert [group.error_code for group in response.groups] == [0, 0]
    assert offsets(response) == {
        "g": {"t": (UNSTABLE, -1), "u": (0, 1)},
        "h": {"t": (0, 1), "u": (0, -1)},
    }


@pytest.mark.parametrize("version", [1, 2, 7])
def test_an_unstable_offset_of_older_versions(
    kafka: Kafka, client: WireClient, version: int
) -> None:
    topics = [
        m.OffsetFetchRequestTopic(name=name, partition_indexes=[0]) for name in "tu"
    ]
    request = m.OffsetFetchRequest(group_id="g", topics=topics)
    with kafka.faults.reply("OffsetFetch", UNSTABLE.name, topic="t"):
        response = client.call(request, version)

    assert response.error_code == 0
    codes = [row.error_code for topic in response.topics for row in topic.partitions]
    assert codes == [UNSTABLE, 0]


def test_a_list_of_all_offsets_has_those_that_are_authorized(
    kafka: Kafka, client: WireClient
) -> None:
    with kafka.faults.reply("OffsetFetch", UNSTABLE.name, times=1):
        unstable = client.call(offset_fetch(), 9)
    with kafka.faults.reply("OffsetFetch", DENIED.name, group="g", times=1):
        denied = client.call(offset_fetch(), 9)

    assert offsets(unstable) == {
        "g": dict.fromkeys(TOPICS, (UNSTABLE, -1)),
        "h": {"t": (UNSTABLE, -1)},
    }
    assert offsets(denied) == {"g": {}, "h": {"t": (0, 1)}}


def test_an_error_of_a_group_leaves_the_others(
    kafka: Kafka, client: WireClient
) -> None:
    with kafka.faults.loading(group="g"):
        response = client.call(offset_fetch("t"), 9)

    loading = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert [group.error_code for group in response.groups] == [0, loading]
    assert offsets(response) == {"g": {}, "h": {"t": (0, 1)}}


def commit(group: str) -> m.OffsetCommitRequest:
    partition = m.OffsetCommitRequestPartition(partition_index=0, committed_offset=1)
    topics = [
        m.OffsetCommitRequestTopic(name=name, partitions=[partition]) for name in TOPICS
    ]
    return m.OffsetCommitRequest(group_id=group, topics=topics)


def codes(response: Any) -> dict[str, int]:
    return {each.name: each.partitions[0].error_code for each in response.topics}


def test_a_commit_of_topics_that_are_not_hit_is_applied(
    kafka: Kafka, client: WireClient
) -> None:
    with kafka.faults.reply("OffsetCommit", DENIED.name, topic="t"):
        response = client.call(commit("partly"), 9)

    assert codes(response) == {"t": DENIED, "u": 0}
    assert kafka.groups["partly"].offsets == {("u", 0): 1}


def test_an_error_of_the_group_hits_all_topics(
    kafka: Kafka, client: WireClient
) -> None:
    with kafka.faults.reply("OffsetCommit", MOVED.name, topic="t"):
        response = client.call(commit("refused"), 9)

    assert codes(response) == {"t": MOVED, "u": MOVED}
    assert kafka.groups["refused"].offsets == {}


# Groups and members.


def test_members_that_are_not_hit_leave(kafka: Kafka, client: WireClient) -> None:
    members = [m.MemberIdentity(member_id=name) for name in ("m", "n")]
    fenced = ErrorCode.FENCED_INSTANCE_ID
    with kafka.faults.reply("LeaveGroup", fenced.name, member="m"):
        response = client.call(m.LeaveGroupRequest(group_id="g", members=members), 5)

    assert response.error_code == 0
    assert {row.member_id: row.error_code for row in response.members} == {
        "m": fenced,
        "n": ErrorCode.UNKNOWN_MEMBER_ID,
    }


def test_a_member_joins_with_the_id_that_is_required(
    kafka: Kafka, client: WireClient
) -> None:
    protocol = m.JoinGroupRequestProtocol(name="range", metadata=b"")
    request = m.JoinGroupRequest(
        group_id="joined",
        session_timeout_ms=60_000,
        rebalance_timeout_ms=60_000,
        protocol_type="consumer",
        protocols=[protocol],
    )
    required = ErrorCode.MEMBER_ID_REQUIRED
    with kafka.faults.reply("JoinGroup", required.name, times=2):
        first = client.call(request, 9)
        request.member_id = first.member_id
        second = client.call(request, 9)
    third = client.call(request, 9)

    assert (first.error_code, second.error_code) == (required, required)
    assert first.member_id == second.member_id == third.member_id != ""
    assert third.error_code == 0


def test_groups_that_are_not_hit_are_described(
    kafka: Kafka, client: WireClient
) -> None:
    with kafka.faults.reply("DescribeGroups", MOVED.name, group="g"):
        response = client.call(m.DescribeGroupsRequest(groups=["g", "h"]), 5)

    found = {
        each.group_id: (each.error_code, each.group_state) for each in response.groups
    }
    assert found == {"g": (MOVED, ""), "h": (0, "Empty")}


@pytest.mark.parametrize(
    ("key_type", "wanted"), [(0, {"group": "a"}), (1, {"transactional_id": "a"})]
)
def test_coordinators_of_other_keys_are_found(
    kafka: Kafka, client: WireClient, key_type: int, wanted: Any
) -> None:
    code = ErrorCode.COORDINATOR_NOT_AVAILABLE
    request = m.FindCoordinatorRequest(key_type=key_type, coordinator_keys=["a", "b"])
    with kafka.faults.reply("FindCoordinator", code.name, **wanted):
        response = client.call(request, 4)

    found = {
        each.key: (each.error_code, each.node_id) for each in response.coordinators
    }
    assert found == {"a": (code, -1), "b": (0, 1)}


def test_configurations_of_other_resources_are_described(
    kafka: Kafka, client: WireClient
) -> None:
    resources = [
        m.DescribeConfigsResource(resource_type=2, resource_name=name)
        for name in TOPICS
    ]
    with kafka.faults.reply("DescribeConfigs", DENIED.name, topic="t"):
        response = client.call(m.DescribeConfigsRequest(resources=resources), 4)

    found = {each.resource_name: each.error_code for each in response.results}
    assert found == {"t": DENIED, "u": 0}


# Records and transactions.


def produce(acks: int) -> m.ProduceRequest:
    batch = encode_batch([LogRecord(0, 1_000, None, b"v")])
    return m.ProduceRequest(
        acks=acks,
        timeout_ms=60_000,
        topic_data=[
            m.TopicProduceData(
                name=name,
                partition_data=[m.PartitionProduceData(index=0, records=batch)],
            )
            for name in TOPICS
        ],
    )


def test_records_of_other_topics_are_appended(kafka: Kafka, client: WireClient) -> None:
    before = {name: len(kafka.records(name)) for name in TOPICS}
    code = ErrorCode.NOT_LEADER_OR_FOLLOWER
    with kafka.faults.reply("Produce", code.name, topic="t"):
        response = client.call(produce(-1), 10)

    rows = {each.name: each.partition_responses[0] for each in response.responses}
    assert {name: row.error_code for name, row in rows.items()} == {"t": code, "u": 0}
    assert rows["t"].current_leader.leader_id == 1
    assert [each.node_id for each in response.node_endpoints] == [1]
    added = {name: len(kafka.records(name)) - before[name] for name in TOPICS}
    assert added == {"t": 0, "u": 1}


def test_a_producer_without_acks_is_disconnected(
    kafka: Kafka, client: WireClient
) -> None:
    before = len(kafka.records("u"))
    with kafka.faults.reply("Produce", DENIED.name, topic="t"):
        client.socket.sendall(client.frame(produce(0), 9)[0])
        assert client.is_closed()

    assert len(kafka.records("u")) == before + 1


@pytest.mark.parametrize("version", [3, 4])
def test_partitions_of_a_transaction_are_added_together(
    kafka: Kafka, client: WireClient, version: int
) -> None:
    topics = [m.AddPartitionsToTxnTopic(name=name, partitions=[0]) for name in TOPICS]
    request = m.AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="x",
        v3_and_below_topics=topics,
        transactions=[
            m.AddPartitionsToTxnTransaction(transactional_id="x", topics=topics)
        ],
    )
    with kafka.faults.reply("AddPartitionsToTxn", DENIED.name, topic="t"):
        response = client.call(request, version)

    assert response.error_code == 0
    (results,) = [each.topic_results for each in response.results_by_transaction] or [
        response.results_by_topic_v3_and_below
    ]
    found = {
        each.name: each.results_by_partition[0].partition_error_code for each in results
    }
    assert found == {"t": DENIED, "u": ErrorCode.OPERATION_NOT_ATTEMPTED}


# Rows that the request does not name.


def test_a_failed_directory_is_named(kafka: Kafka, client: WireClient) -> None:
    failed = ErrorCode.KAFKA_STORAGE_ERROR
    with kafka.faults.reply("DescribeLogDirs", failed.name):
        response = client.call(m.DescribeLogDirsRequest(topics=None), 4)

    assert response.error_code == 0
    (row,) = response.results
    assert (row.error_code, bool(row.log_dir), row.topics) == (failed, True, [])


def test_an_election_of_all_partitions_names_them(
    kafka: Kafka, client: WireClient
) -> None:
    code = ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    with kafka.faults.reply("ElectLeaders", code.name):
        response = client.call(m.ElectLeadersRequest(topic_partitions=None), 2)

    assert response.error_code == 0
    found = {
        each.topic: [row.error_code for row in each.partition_result]
        for each in response.replica_election_results
    }
    assert found["t"] == found["u"] == [code]
