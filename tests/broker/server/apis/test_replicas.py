"""Replicas, leaders and log directories: Kafka's responses where nothing ever moves.

Error codes and messages are those of Apache Kafka 4.3.1 with one node.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from coterie.broker.server.apis.replicas import IN_MEMORY
from coterie.errors import LogError
from coterie.wire import messages as m
from coterie.wire.codec import decode, encode
from coterie.wire.error_codes import ErrorCode
from tests.broker.server.apis.fake_broker import (
    FakeBroker,
    FakePeer,
    allow_only,
    batch_of,
    produce_request,
)

UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
NO_CLUSTER = ErrorCode.CLUSTER_AUTHORIZATION_FAILED


@pytest.fixture
def broker() -> FakeBroker:
    made = FakeBroker()
    made.create("a", partition_count=2)
    return made


# DescribeLogDirs.


def log_dirs(broker: FakeBroker, topics: Any = None, node: int = 0) -> Any:
    """Return the described directory."""
    peer = broker.start_call(m.DescribeLogDirsRequest(topics=topics), 5, node=node)
    while not peer.responses:
        broker.scheduler.advance(0)
    assert peer.response.error_code == 0
    [result] = peer.response.results
    return result


def sizes(result: Any) -> dict[str, dict[int, int]]:
    return {
        topic.name: {
            part.partition_index: part.partition_size for part in topic.partitions
        }
        for topic in result.topics
    }


def test_the_sizes_of_partitions_are_those_of_their_batches(broker: FakeBroker) -> None:
    batch = batch_of(b"x" * 100)
    for _ in range(2):
        broker.call(produce_request(None, batch), 9)
    result = log_dirs(broker)
    assert sizes(result) == {"a": {0: 0, 1: 2 * len(batch)}}
    assert (result.log_dir, result.total_bytes, result.usable_bytes) == (
        IN_MEMORY,
        -1,
        -1,
    )


def test_a_log_on_disk_is_described_with_its_directory(
    broker: FakeBroker, tmp_path: Path
) -> None:
    broker.log.directory = tmp_path
    result = log_dirs(broker)
    assert result.log_dir == str(tmp_path)
    assert result.total_bytes >= result.usable_bytes > 0


def test_repeated_and_unknown_partitions_are_left_out(broker: FakeBroker) -> None:
    topics = [
        m.DescribableLogDirTopic(topic="a", partitions=[1, 9, -1, 1]),
        m.DescribableLogDirTopic(topic="none", partitions=[0]),
        m.DescribableLogDirTopic(topic="a", partitions=[1]),
    ]
    assert sizes(log_dirs(broker, topics)) == {"a": {1: 0}}
    assert log_dirs(broker, []).topics == []


def test_each_node_describes_its_own_replicas() -> None:
    broker = FakeBroker(nodes=2)
    broker.create("a", partition_count=3)
    broker.create("b", partition_count=2, replication_factor=2)
    each = [sizes(log_dirs(broker, node=node)) for node in (0, 1)]
    assert each == [
        {"a": {0: 0, 2: 0}, "b": {0: 0, 1: 0}},
        {"a": {1: 0}, "b": {0: 0, 1: 0}},
    ]


def test_topics_deleted_during_the_description_are_left_out(
    broker: FakeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(self: FakePeer, token: object, slices: Iterator[None]) -> None:
        for _ in range(50):
            next(slices)
        broker.data.stage([broker.catalog.delete_topic("late")])
        broker.log.flush()
        assert sum(1 for _ in slices) >= 50

    monkeypatch.setattr(FakePeer, "run_in_slices", run)
    broker.create("wide", partition_count=100)
    broker.create("late", partition_count=1)
    response = broker.call(m.DescribeLogDirsRequest(topics=None), 5)
    described = sizes(response.results[0])
    assert len(described["wide"]) == 100
    assert "late" not in described


def test_an_unreadable_log_is_kafka_storage_error(
    broker: FakeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> int:
        raise LogError("unreadable")

    monkeypatch.setattr(broker.log, "size_bytes", fail)
    result = log_dirs(broker)
    assert (result.error_code, result.topics) == (ErrorCode.KAFKA_STORAGE_ERROR, [])


@pytest.mark.parametrize("version", range(1, 6))
def test_log_dirs_without_authorization_are_empty(
    broker: FakeBroker, version: int
) -> None:
    broker.authorizer = allow_only()
    response = broker.call(m.DescribeLogDirsRequest(topics=None), version)
    read, _ = decode(m.DescribeLogDirsResponse, version, encode(response, version))
    assert (read.error_code, read.results) == (NO_CLUSTER if version > 2 else 0, [])


# AlterReplicaLogDirs.


def test_replicas_stay_in_their_directory(broker: FakeBroker) -> None:
    def directory(path: str, **topics: list[int]) -> m.AlterReplicaLogDir:
        return m.AlterReplicaLogDir(
            path=path,
            topics=[
                m.AlterReplicaLogDirTopic(name=name, partitions=partitions)
                for name, partitions in topics.items()
            ],
        )

    request = m.AlterReplicaLogDirsRequest(
        dirs=[
            directory("/none", a=[0, 1, 9], z=[3]),
            directory(IN_MEMORY, a=[0, 8], z=[0]),
        ]
    )
    moved = ErrorCode.LOG_DIR_NOT_FOUND
    codes = {
        topic.topic_name: {p.partition_index: p.error_code for p in topic.partitions}
        for topic in broker.call(request, 2).results
    }
    assert codes == {
        "a": {0: 0, 1: moved, 9: moved, 8: UNKNOWN},
        "z": {3: moved, 0: UNKNOWN},
    }


# ElectLeaders.


def elect(broker: FakeBroker, *topics: tuple[str, list[int]], kind: int = 0) -> Any:
    partitions = [
        m.ElectedTopic(topic=name, partitions=indexes) for name, indexes in topics
    ]
    request = m.ElectLeadersRequest(election_type=kind, topic_partitions=partitions)
    return broker.call(request, 2)


def results(response: m.ElectLeadersResponse) -> list[tuple[str, int, int, str | None]]:
    return [
        (topic.topic, part.partition_id, part.error_code, part.error_message)
        for topic in response.replica_election_results
        for part in topic.partition_result
    ]


@pytest.mark.parametrize("kind", [0, 1])
def test_no_partition_needs_an_election(broker: FakeBroker, kind: int) -> None:
    response = elect(broker, ("a", [1, 7]), ("z", [0]), kind=kind)
    needless = "Leader election not needed for topic partition."
    assert response.error_code == 0
    assert results(response) == [
        ("a", 1, ErrorCode.ELECTION_NOT_NEEDED, needless),
        ("a", 7, UNKNOWN, "No such partition as a-7"),
        ("z", 0, UNKNOWN, "No such topic as z"),
    ]


def test_an_election_of_all_partitions_lists_topics_only(broker: FakeBroker) -> None:
    broker.create("b")
    response = broker.call(m.ElectLeadersRequest(topic_partitions=None), 2)
    topics = response.replica_election_results
    assert [(topic.topic, topic.partition_result) for topic in topics] == [
        ("a", []),
        ("b", []),
    ]


def test_an_unknown_election_type_is_refused(broker: FakeBroker) -> None:
    response = elect(broker, ("a", [0]), kind=5)
    invalid = ErrorCode.INVALID_REQUEST
    assert response.error_code == invalid
    assert results(response) == [("a", 0, invalid, "Unknown election type 5")]


# Reassignments.


def test_no_partition_is_being_moved(broker: FakeBroker) -> None:
    for topics in (
        None,
        [m.ListPartitionReassignmentsTopics(name="a", partition_indexes=[0, 9])],
    ):
        request = m.ListPartitionReassignmentsRequest(topics=topics)
        response = broker.call(request, 0)
        assert (response.error_code, response.topics) == (0, [])


def test_a_refused_list_of_reassignments_names_the_partitions(
    broker: FakeBroker,
) -> None:
    broker.authorizer = allow_only()
    topics = [m.ListPartitionReassignmentsTopics(name="a", partition_indexes=[0])]
    response = broker.call(m.ListPartitionReassignmentsRequest(topics=topics), 0)
    assert response.error_code == NO_CLUSTER
    assert [part.partition_index for part in response.topics[0].partitions] == [0]


@pytest.mark.parametrize(
    ("name", "index", "replicas", "code", "message"),
    [
        ("a", 0, [1], ErrorCode.NONE, None),
        ("a", 0, None, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, None),
        ("z", 0, [1], UNKNOWN, "Unable to find a topic named z."),
        ("a", 9, [1], UNKNOWN, "Unable to find partition a:9."),
        ("a", 0, [], ErrorCode.INVALID_REPLICA_ASSIGNMENT, "an empty replica list."),
        ("a", 0, [9], ErrorCode.INVALID_REPLICA_ASSIGNMENT, "no such broker"),
        ("a", 0, [1, 1], ErrorCode.INVALID_REPLICA_ASSIGNMENT, "more than once."),
        ("a", 0, [2], ErrorCode.INVALID_REPLICA_ASSIGNMENT, "cannot be moved."),
    ],
)
def test_only_the_current_replicas_are_accepted(
    name: str, index: int, replicas: list[int] | None, code: int, message: str | None
) -> None:
    broker = FakeBroker(nodes=2)
    broker.create("a", partition_count=2)
    response = broker.call(reassignment(name, index, replicas), 1)
    [part] = response.responses[0].partitions
    assert (response.error_code, part.error_code) == (0, code)
    assert (message or "") in (part.error_message or "")


def test_a_change_of_the_replication_factor_can_be_refused() -> None:
    broker = FakeBroker(nodes=2)
    broker.create("a")
    request = reassignment("a", 0, [1, 2], allow_replication_factor_change=False)
    response = broker.call(request, 1)
    [part] = response.responses[0].partitions
    assert part.error_code == ErrorCode.INVALID_REPLICATION_FACTOR
    assert not response.allow_replication_factor_change


def reassignment(
    name: str, index: int, replicas: list[int] | None, **options: Any
) -> m.AlterPartitionReassignmentsRequest:
    partition = m.ReassignablePartition(partition_index=index, replicas=replicas)
    topic = m.ReassignableTopic(name=name, partitions=[partition])
    return m.AlterPartitionReassignmentsRequest(topics=[topic], **options)
